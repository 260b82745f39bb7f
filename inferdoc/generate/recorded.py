"""Signals under the names of recording rules, which rules then share instead of repeating long expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Level, Reading
from inferdoc.fleet.members import Assignment
from inferdoc.generate.pod_info import joined, joined_where_known, pod_records
from inferdoc.judging.conditions.render import (
    BY_IN_RULES,
    FENCE,
    LIKE,
    MIN_OBSERVATIONS,
    POOL,
    SEEN,
    Rendering,
    number,
)
from inferdoc.source.reads import Matcher, selector

FEWEST_EVENTS = 3
"""A share that so few events make up is chance, however large it is."""

INTERVAL = "30s"
"""How often signals are recorded and alerts judged."""

SEEN_RECORD = "instance:inferdoc_engine:seen1d"
SEEN_EXPR = f"group by (cluster, namespace, job, instance, pod, model_name) ({SEEN})"

PODS_ALONE: Mapping[Level, tuple[str, ...]] = {
    level: tuple(label for label in labels if label not in POOL) for level, labels in BY_IN_RULES.items()
}
"""Labels that a signal keeps before it is joined with the info series of its pod."""
JOINED: Mapping[Level, tuple[str, ...]] = {"engine": POOL, "target": ("model_name", *POOL)}
"""Labels that the info series gives it. GPUs are compared within their pod only."""
RECORDED_LABELS = {level: (*labels, *JOINED.get(level, ())) for level, labels in PODS_ALONE.items()}

FEWEST_RECORDED = 60
"""Recorded values that a usual value rests on at least: half an hour. A new pod has no usual value and no alert."""


@dataclass
class Records:
    """Recording rules by name, in the order in which one needs the other: signals now, then their usual values."""

    now: dict[str, str] = field(default_factory=dict)
    usual: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded(Rendering):
    """Says signals by recorded names, and remembers in `records` what has to be recorded for them.

    extra: matchers on the recorded series, such as the role a cause is about.
    """

    records: Records = field(default_factory=Records)

    def signal(self, name: str) -> str | None:
        record = self._record(name)
        return None if record is None else selector(record, self.extra)

    def present(self, name: str) -> str | None:
        text = self._plain.present(name)
        return None if text is None else self._keep(self.records.now, name, "present", self._joined(name, text))

    def over(self, name: str, length: str) -> str | None:
        now = self.signal(name)
        return None if now is None else f"{now}[{length}]"

    def usual(self, name: str) -> str | None:
        record = self._record(name)
        if record is None:
            return None
        past = f"{record}[{self.history}] offset {self.lag}"
        text = f"quantile_over_time(0.5, {past})\nand count_over_time({past}) >= {FEWEST_RECORDED}"
        return self._keep(self.records.usual, name, f"median{self.history}", text)

    def edge(self, name: str, up: bool) -> str | None:
        record = self._record(name)
        if record is None:
            return None
        past = f"{record}[{self.history}] offset {self.lag}"
        near, far = ("0.75", "0.25") if up else ("0.25", "0.75")
        text = (
            f"{number(1 + FENCE)} * quantile_over_time({near}, {past})\n"
            f"- {number(FENCE)} * quantile_over_time({far}, {past})"
        )
        return self._keep(self.records.usual, name, f"{'high' if up else 'low'}{self.history}", text)

    def peers(self, name: str) -> str | None:
        record = self._record(name)
        if record is None:
            return None
        like = ", ".join(LIKE[self.level(name)])
        text = (
            f"(sum by ({like}) ({record}) - on ({like}) group_right () {record})\n"
            f"/ on ({like}) group_left () ((count by ({like}) ({record}) > 1) - 1)"
        )
        return self._keep(self.records.now, name, f"peers{self.window}", text)

    def few(self, name: str, limit: float) -> str | None:
        if self.signals[name].unit != "ratio" or limit * MIN_OBSERVATIONS >= FEWEST_EVENTS:
            return None
        volume = self._plain.volume(name)
        if volume is None:
            return None
        events = self._keep(self.records.now, name, f"events{self.window}", self._joined(name, volume))
        return f"{self.signal(name)} * {events} >= {FEWEST_EVENTS}"

    def by_limit(self, value: float | str, name: str) -> list[tuple[Rendering, float]]:
        """Tiers that have a limit of their own, each with it, and all others."""
        own = self.tiers.own_limits(value) if isinstance(value, str) and self.level(name) in JOINED else {}
        rest = (("tier", "!~", "|".join(own)),) if own else ()
        (_, limit), *_ = super().by_limit(value, name)
        of_tiers = [(self._narrowed(("tier", "=", tier)), figure) for tier, figure in own.items()]
        return [*of_tiers, (self._narrowed(*rest), limit)]

    def _narrowed(self, *match: Matcher) -> Rendering:
        return replace(self, extra=(*self.extra, *match)) if match else self

    @property
    def _plain(self) -> Rendering:
        plain = Rendering(self.signals, self.tiers, window=self.window, smooth=True)
        return replace(plain, engines=SEEN_RECORD, kept=PODS_ALONE)

    def _joined(self, name: str, text: str) -> str:
        """The signal with role and tier of its pod; exporters beside the engines name other pods too."""
        level = self.level(name)
        if level not in JOINED:
            return text
        return joined(text) if level == "engine" else joined_where_known(text, JOINED[level])

    def _record(self, name: str) -> str | None:
        """The name under which the signal is recorded; None where PromQL cannot say it."""
        text, reading = self._plain.sound(name), self._plain.reading(name)
        if text is None or reading is None:
            return None
        record = self._name(name, self._operation(name, reading))
        self.records.now.setdefault(record, self._joined(name, text))
        return record

    def _keep(self, records: dict[str, str], name: str, operation: str, text: str) -> str:
        record = self._name(name, operation)
        records.setdefault(record, text)
        return selector(record, self.extra)

    def _name(self, name: str, operation: str) -> str:
        return f"{self.level(name)}:inferdoc_{name}:{operation}"

    def _operation(self, name: str, reading: Reading) -> str:
        if self.signals[name].unit == "bool":
            return "last"
        if reading.gauge:
            return f"{'max' if reading.over == 'max' else 'avg'}{self.window}"
        return f"{'increase' if reading.increase else 'rate'}{self.window}"


def recorded(catalogue: Catalogue, assignments: Sequence[Assignment] = ()) -> Recorded:
    """A fresh rendering over a catalogue, with the info series of the pods recorded and no signal yet."""
    pods = {SEEN_RECORD: SEEN_EXPR, **pod_records(catalogue.tiers, SEEN_RECORD, assignments)}
    return Recorded(catalogue.signals, catalogue.tiers, records=Records(pods))
