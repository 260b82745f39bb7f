"""Signals under the names of recording rules, which rules then share instead of repeating long expressions."""

from __future__ import annotations

from dataclasses import dataclass, field

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Reading
from inferdoc.judging.conditions.render import FENCE, LIKE, MIN_OBSERVATIONS, SEEN, Rendering, number
from inferdoc.source.reads import selector

FEWEST_EVENTS = 3
"""A share that so few events make up is chance, however large it is."""

INTERVAL = "30s"
"""How often signals are recorded and alerts judged."""

SEEN_RECORD = "instance:inferdoc_engine:seen1d"
SEEN_EXPR = f"group by (cluster, namespace, job, instance, pod) ({SEEN})"

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
        return None if text is None else self._keep(self.records.now, name, "present", text)

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
        events = self._keep(self.records.now, name, f"events{self.window}", volume)
        return f"{self.signal(name)} * {events} >= {FEWEST_EVENTS}"

    @property
    def _plain(self) -> Rendering:
        return Rendering(self.signals, self.tiers, window=self.window, smooth=True, engines=SEEN_RECORD)

    def _record(self, name: str) -> str | None:
        """The name under which the signal is recorded; None where PromQL cannot say it."""
        text, reading = self._plain.sound(name), self._plain.reading(name)
        if text is None or reading is None:
            return None
        record = self._name(name, self._operation(name, reading))
        if SEEN_RECORD in text:
            self.records.now.setdefault(SEEN_RECORD, SEEN_EXPR)
        self.records.now.setdefault(record, text)
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


def recorded(catalogue: Catalogue) -> Recorded:
    """A fresh rendering over a catalogue, with nothing recorded yet."""
    return Recorded(catalogue.signals, catalogue.tiers)
