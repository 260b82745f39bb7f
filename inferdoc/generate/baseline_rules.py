"""What is usual for a recorded signal, as far as rules can know it: they see nothing from before their own record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inferdoc.catalogue.signal import Direction, Level
from inferdoc.judging.conditions.render import BY_IN_RULES, FENCE, LIKE, POOL, clause, number

PODS_ALONE: Mapping[Level, tuple[str, ...]] = {
    level: tuple(label for label in labels if label not in POOL) for level, labels in BY_IN_RULES.items()
}
"""Labels that a signal keeps before it is joined with the info series of its pod."""
POOLED: frozenset[Level] = frozenset({"engine", "target"})
"""Levels whose members have like ones beside them, whose past a new pod can borrow."""
PEERS_BY: Mapping[Level, tuple[str, ...]] = {
    **{level: LIKE[level] for level in POOLED},
    "gpu": ("cluster", "namespace", "modelName"),
}
"""What peers have in common: pods of a pool; GPUs of one model, in whichever pod, since one GPU of a pod may be all."""
PEERS_OF: Mapping[Level, str] = {"engine": "model", "target": "model", "gpu": "namespace"}
"""Whom a record of peers is about."""
RECORDED = "2h"
"""So long ago a record has to be there for a usual value over hours without the last one: that rests on an hour then.
Asking for one value costs less than counting those of six hours."""
FEWEST_PEERS = 3
"""Of fewer, the one that is ill moves the middle."""
BEYOND_PEERS = 1.25
"""A short past worse than what peers show by this factor is no healthy one: as much as `tokens_slower_than_peers`
requires, which unequal batches do not explain."""
FULL = "25m"
"""Rates of a series younger than their window read too low. So long ago a record has to be there: then its first five
minutes are a third of its short past at most."""
YOUNG = ("30m", "10m", 5, "18m")
"""Until then a pod is compared with its last half hour without the newest ten minutes, in which an alert comes up: how
long, how long ago, and how many values at least. Of a pod that is there now, that it was there so long ago shows as
much for less than counting: recorded every two minutes, five values take eight."""
NEAR = 0.5
"""From this part of its swing on the usual value of a member is recorded, for rules that only read it beyond all of it:
own choice, so that a value that moves about the edge of the swing is not lost between two records."""
APART = "5m"
"""Records are means of five minutes: taken more often, most of one was in the value before, and is sorted once more."""


@dataclass(frozen=True)
class UsualPast:
    """The past of a record over `history`, which ended `lag` ago. stand_in: the figure that stands for a healthy
    service, where there is one; harm: where worse lies; fills: it is a rate, too low until its window is full; state:
    it is on or off, and may have been so for weeks: only a change of its own counts."""

    record: str
    level: Level
    history: str
    lag: str
    stand_in: float | None
    harm: Direction = "either"
    fills: bool = False
    state: bool = False

    @property
    def has_peers(self) -> bool:
        """Whether what others of its kind show is also usual for one: how well it does, not how much it is given.
        That all are given alike does not show whether it is as much as before."""
        return self.level in PEERS_BY and self.harm in ("up", "down") and not self.state

    @property
    def alike(self) -> tuple[str, ...]:
        """What members have in common that swing alike; what is above the pods is alone."""
        return PEERS_BY.get(self.level) or PODS_ALONE[self.level]

    @property
    def alike_level(self) -> str:
        """Whom a series of those labels is about."""
        return PEERS_OF.get(self.level, self.level)

    @property
    def middle(self) -> str:
        """The middle of the first past that there is: of the pod over hours; of the pod since it is there; of its pool,
        whatever its pods were called; else of its peers now; else the figure."""
        long, enough = self._long
        fallbacks = [f"{self._middle(long)}\nand {enough}", self._trusted()]
        shared = list(self._shared(self._trusted(gone=True)))
        if len(shared) == 1 and self.stand_in is not None:
            fallbacks.append(f"0 * {self.record} + {number(self.stand_in)}")
        elif (
            shared
        ):  # one series of all of a kind for each of them: what is joined once costs a third of what is thrice
            joined = chr(10).join((shared[0], *(f"or {text}" for text in shared[1:])))
            fallbacks.append(f"0 * {self.record}\n+ on ({', '.join(self.alike)}) group_left () {clause(joined)}")
        return "\nor ".join(fallbacks)

    def _shared(self, short: str) -> Iterator[str]:
        """What is usual among all of a kind."""
        by = ", ".join(self.alike)
        if self.level in POOLED:
            yield f"quantile by ({by}) (0.5, {clause(short)})"
        if self.has_peers:
            yield f"{self.peers_record} {self._finite}"
        if self.stand_in is not None:
            yield f"0 * group by ({by}) ({self.record}) + {number(self.stand_in)}"

    @property
    def peers_record(self) -> str:
        """The name under which `peers` is recorded."""
        return f"{self.alike_level}:{self.record.split(':')[1]}:middle"

    @property
    def _finite(self) -> str:
        return "> -Inf" if self.harm == "down" else "< Inf"

    @property
    def peers(self) -> str:
        """The middle of peers now, and beyond all values if they have none. Beyond the figure all of them are ill,
        and none shows what is usual."""
        by = ", ".join(PEERS_BY[self.level])
        well = "" if self.stand_in is None else f" <= {number(self.stand_in)}"
        enough = f"count by ({by}) ({self.record}) >= {FEWEST_PEERS}"
        none = f"0 * group by ({by}) ({self.record}) {'-' if self.harm == 'down' else '+'} Inf"
        return f"quantile by ({by}) (0.5, {self.record}){well}\nand {enough}\nor {none}"

    def swing(self, up: bool) -> str:
        """From the middle to the upper or lower fence of the past, as is usual among like members; nothing where none
        of them has a past yet."""
        by, fallbacks = ", ".join(self.alike), []
        near, far = (0.75, 0.25) if up else (0.25, 0.75)
        long, enough = self._long
        for past, usual in (
            (long, f"{_quantile(0.5, long)}\nand {enough}"),
            (self._short_range, self._trusted()),
        ):
            fence = f"{number(1 + FENCE)} * {_quantile(near, past)}\n- {number(FENCE)} * {_quantile(far, past)}"
            away = f"{fence}\n- {clause(usual)}" if up else f"{clause(usual)}\n- {clause(fence)}"
            fallbacks.append(f"quantile by ({by}) (0.5, {clause(away)})")
        return "\nor ".join([*fallbacks, f"0 * group by ({by}) ({self.record})"])

    def middle_beyond(self, up: bool, swing: str) -> str:
        """The middle of those that are now beyond a part of the swing: nobody compares the others with it. swing: its
        record."""
        side, sign = ("<", "-") if up else (">", "+")
        far = f"{number(NEAR)} * {swing}"
        return f"{clause(self.middle)}\n{side} {self.record} {sign} on ({', '.join(self.alike)}) group_left () {far}"

    @property
    def _long(self) -> tuple[str, str]:
        """The surest range of the record, with what makes it count."""
        return f"{self.record}[{self.history}:{APART}] offset {self.lag}", f"{self.record} offset {RECORDED}"

    @property
    def _short_range(self) -> str:
        length, lag, *_ = YOUNG
        return f"{self.record}[{length}] offset {lag}"

    def _middle(self, past: str) -> str:
        """What is on or off was for longer what it was in the middle: nothing to sort."""
        return f"round(avg_over_time({past}))" if self.state else _quantile(0.5, past)

    def _trusted(self, *, gone: bool = False) -> str:
        """The middle of a short past, where it counts. gone: also of pods that are not there any more. One beyond the
        figure, or beyond what peers show, is the fault itself, which started with the record: it is nobody's usual."""
        median = self._middle(self._short_range)
        if self.stand_in is not None:
            median += f" <= {number(self.stand_in)}"
        if self.has_peers:
            side, factor = ("<=", BEYOND_PEERS) if self.harm == "up" else (">=", 1 / BEYOND_PEERS)
            by = ", ".join(PEERS_BY[self.level])
            median += f"\n{side} on ({by}) group_left () ({number(factor)} * {self.peers_record})"
        enough = [f"count_over_time({self._short_range}) >= {YOUNG[2]}"] if gone else []
        if self.fills or not gone:
            enough.append(f"{self.record} offset {FULL if self.fills else YOUNG[3]}")
        return "\n".join([median, *(f"and {each}" for each in enough)])


def _quantile(q: float, past: str) -> str:
    return f"quantile_over_time({number(q)}, {past})"
