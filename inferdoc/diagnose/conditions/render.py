"""Signals as PromQL, for rules and dashboards: the same declaration the judge reads, at a fixed window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferdoc.catalogue.signal import Reading, Signal, Term, Tiers
from inferdoc.source import formula
from inferdoc.source.plan import Operand, buckets, operand, sum_over_count
from inferdoc.source.reads import Matcher, selector

BY_IN_RULES = {
    "engine": ("cluster", "namespace", "model_name", "pod", "engine"),
    "target": ("cluster", "namespace", "pod"),
    "gpu": ("cluster", "namespace", "pod", "gpu", "modelName"),
    "router": ("cluster", "namespace", "name", "model_name"),
}
"""Labels that rules and panels keep; few, so that alerts group and route."""

FUNCTIONS = {"last": "", "max": "max_over_time", "mean": "avg_over_time", "rate": "rate", "increase": "increase"}


@dataclass(frozen=True)
class Rendering:
    """signals, tiers: the catalogue; window: of rates; history, lag: what a relative condition compares with (median of
    `history`, ending `lag` ago); extra: matchers added to every selector (dashboard variables); by: labels kept,
    where not those of the signal's level."""

    signals: Mapping[str, Signal]
    tiers: Tiers
    window: str = "5m"
    history: str = "6h"
    lag: str = "1h"
    extra: tuple[Matcher, ...] = ()
    by: tuple[str, ...] | None = None

    def labels(self, signal: str) -> tuple[str, ...]:
        return self.by or BY_IN_RULES[self.signals[signal].level]

    def threshold(self, value: float | str) -> str:
        """A number as it stands in the rule: named thresholds take the cautious default of tiers.yaml."""
        return f"{self.tiers.thresholds[value].value if isinstance(value, str) else value:g}"

    def signal(self, name: str) -> str | None:
        """The first reading of a signal that PromQL can say, under current names; None where there is none."""
        for reading in self.signals[name].readings:
            text = self._reading(reading, self.signals[name], self.labels(name))
            if text is not None:
                return text if reading.scale == 1.0 else f"{reading.scale:g} * ({text})"
        return None

    def baseline(self, name: str) -> str | None:
        """The usual value of a signal: the median of its history, ending a lag ago."""
        now = self.signal(name)
        return None if now is None else f"quantile_over_time(0.5, ({now})[{self.history}:1m] offset {self.lag})"

    def _reading(self, reading: Reading, signal: Signal, by: tuple[str, ...]) -> str | None:
        if reading.quantile:
            part = buckets(reading, signal.level)
            return f"histogram_quantile({reading.q:g}, {self._operand(part, (*by, 'le'))})"
        if reading.mean:
            total, count = sum_over_count(reading, signal.level)
            return f"{self._operand(total, by)} / {self._operand(count, by)}"
        if reading.formula:
            terms = {name: self._term(term, signal, by) for name, term in reading.terms.items()}
            if any(text is None for text in terms.values()):
                return None
            return formula.render(reading.formula, lambda name: str(terms[name]))
        single = operand(reading, signal.level)
        return None if single is None else self._operand(single, by)

    def _term(self, term: Term, signal: Signal, by: tuple[str, ...]) -> str | None:
        single = operand(term, signal.level)
        if single is None:
            return self.signal(str(term.signal))
        text = self._operand(single, by)
        if term.default is None:
            return text
        whole = selector(single.name, self.extra)
        return f"{text} or {term.default:g} * {single.agg} by ({', '.join(by)}) ({whole})"

    def _operand(self, part: Operand, by: tuple[str, ...]) -> str:
        what = selector(part.name, part.match + self.extra)
        labels = ", ".join(by)
        if part.fn == "change":
            return f"{part.agg} by ({labels}) (deriv({what}[{self.window}]))"
        function = FUNCTIONS[part.fn]
        return (
            f"{part.agg} by ({labels}) ({function}({what}[{self.window}]))"
            if function
            else f"{part.agg} by ({labels}) ({what})"
        )
