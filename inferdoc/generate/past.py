"""What is usual for a recorded signal, as rules can tell it: they see nothing from before their own record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inferdoc.catalogue.signal import Level
from inferdoc.judging.conditions.render import BY_IN_RULES, FENCE, LIKE, POOL, clause, number

PODS_ALONE: Mapping[Level, tuple[str, ...]] = {
    level: tuple(label for label in labels if label not in POOL) for level, labels in BY_IN_RULES.items()
}
"""Labels that a signal keeps before it is joined with the info series of its pod."""
POOLED: frozenset[Level] = frozenset({"engine", "target"})
"""Levels whose members have like ones beside them, whose past a new pod can borrow."""
FEWEST_RECORDED = 30
"""Recorded values, one a minute, that a usual value over hours rests on at least: half an hour."""
YOUNG = ("30m", "10m", 5)
"""Until then a pod is held against its last half hour without the newest ten minutes, in which an alert comes up: how
long, how long ago, and how many values at least."""


@dataclass(frozen=True)
class UsualPast:
    """The past of a record over `history`, which ended `lag` ago. stand_in: the figure that stands for a healthy
    service, where there is one."""

    record: str
    level: Level
    history: str
    lag: str
    stand_in: float | None

    @property
    def alike(self) -> tuple[str, ...]:
        """What members have in common that swing alike; what is above the pods is alone."""
        return LIKE[self.level] if self.level in POOLED or self.level == "gpu" else PODS_ALONE[self.level]

    @property
    def alike_level(self) -> str:
        """Whom a series of those labels is about."""
        return "model" if self.level in POOLED else "pod" if self.level == "gpu" else self.level

    @property
    def middle(self) -> str:
        """The middle of the first past that there is: of the pod over hours; of the pod since it is there; of its pool,
        whatever its pods were called; else the figure."""
        rungs = [f"{_quantile(0.5, past)}\nand {enough}" for past, enough in self._pasts()]
        if self.level in POOLED:
            ours = f"quantile by ({', '.join(self.alike)}) (0.5, {clause(rungs[1])})"
            rungs.append(f"0 * {self.record}\n+ on ({', '.join(self.alike)}) group_left () {ours}")
        if self.stand_in is not None:
            rungs.append(f"0 * {self.record} + {number(self.stand_in)}")
        return "\nor ".join(rungs)

    def swing(self, up: bool) -> str:
        """From the middle to the upper or lower fence of the past, as is usual among like members; nothing where none
        of them has a past yet."""
        by, rungs = ", ".join(self.alike), []
        near, far = (0.75, 0.25) if up else (0.25, 0.75)
        for past, enough in self._pasts():
            fence = f"{number(1 + FENCE)} * {_quantile(near, past)}\n- {number(FENCE)} * {_quantile(far, past)}"
            middle = _quantile(0.5, past)
            away = f"{fence}\n- {middle}" if up else f"{middle}\n- {clause(fence)}"
            rungs.append(f"quantile by ({by}) (0.5, {clause(f'{away}{chr(10)}and {enough}')})")
        return "\nor ".join([*rungs, f"0 * group by ({by}) ({self.record})"])

    def _pasts(self) -> Iterator[tuple[str, str]]:
        """Ranges of the record, the surest first, with what makes each of them count. A short past beyond the figure is
        the fault itself, which began with the record: it is nobody's usual."""
        for length, lag, fewest in ((self.history, self.lag, FEWEST_RECORDED), YOUNG):
            past = f"{self.record}[{length}] offset {lag}"
            enough = f"count_over_time({past}) >= {fewest}"
            if length == YOUNG[0] and self.stand_in is not None:
                enough += f"\nand {_quantile(0.5, past)} <= {number(self.stand_in)}"
            yield past, enough


def _quantile(q: float, past: str) -> str:
    return f"quantile_over_time({number(q)}, {past})"
