"""What a condition is evaluated in, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from inferdoc.catalogue.recipe import Condition
from inferdoc.catalogue.signal import Signal, Tiers
from inferdoc.config import SloSection
from inferdoc.diagnose.excursion import DEFAULT_SHARE, Clock, Excursion, Rule, find
from inferdoc.diagnose.view import Unit, View
from inferdoc.times import length_of


@dataclass(frozen=True)
class Outcome:
    """holds: True, False, or None where it cannot be told (a missing signal, no calm to compare with).

    first, last: steps between which it holds (None for what has no beginning, such as a flag that is present);
    baseline, observed, threshold in `unit`; text: the observation in words; missing: signals that are absent;
    from_start: it held from the first step, so its beginning is unknown; ahead: it is extrapolated, not there yet.
    """

    holds: bool | None
    text: str
    signal: str = ""
    entity: str = ""
    unit: str = ""
    first: int | None = None
    last: int | None = None
    baseline: float | None = None
    observed: float | None = None
    threshold: float | None = None
    missing: tuple[str, ...] = ()
    from_start: bool = False
    parts: tuple[Outcome, ...] = ()
    ahead: bool = False

    def about(self, entity: str) -> Outcome:
        """The same, said of another entity."""
        return replace(self, entity=entity)

    def during(self, first: int, last: int) -> Outcome:
        """The same, between two steps where it holds; what does not hold has no beginning."""
        return replace(self, first=first, last=last) if self.holds else self


@dataclass
class Context:
    """view: the series; signals, tiers: the catalogue; split: the step before which all is calm (None: each condition
    finds its own); last: the last step of the episode that is looked at."""

    view: View
    signals: Mapping[str, Signal]
    tiers: Tiers
    clock: Clock
    split: int | None = None
    last: int | None = None
    slo: tuple[SloSection, ...] = ()
    _found: dict[tuple[str, Unit, Rule], Excursion | None] = field(default_factory=dict)

    def at(self, split: int | None, last: int | None) -> Context:
        """The same context with a split chosen; what was found before is shared."""
        return replace(self, split=split, last=last)

    def number(self, value: float | str, unit: Unit) -> tuple[float, str]:
        """A threshold in figures and where it stands: a number, or a named threshold of the unit's tier."""
        if not isinstance(value, str):
            return float(value), ""
        tier = self.tiers.tiers.get(unit.member.tier)
        figure = tier.thresholds.get(value) if tier else None
        figure = figure or self.tiers.thresholds[value]
        return figure.value, value

    def limits(self, unit: Unit) -> dict[str, float]:
        """The SLO limits in force for a unit: signal id -> limit; entries that name model or tier win."""
        found: dict[str, float] = {}
        for section in sorted(self.slo, key=lambda s: (s.model is not None) + (s.tier is not None)):
            if section.model in (None, unit.member.pool.model) and section.tier in (None, unit.member.tier):
                found |= section.limits
        return found

    def excursion(self, signal: str, unit: Unit, rule: Rule) -> Excursion | None:
        """The earliest sustained excursion of a unit's signal, found once."""
        key = (signal, unit, rule)
        if key not in self._found:
            series = self.view.get(unit, signal)
            self._found[key] = None if series is None else find(series.values, rule, self.clock, series.counts)
        return self._found[key]


def absent(signal: str, unit: Unit) -> Outcome:
    """The answer where the signal does not exist for the unit."""
    return Outcome(None, f"{signal} is not visible", signal, unit.name, missing=(signal,))


def rule_asked(condition: Condition, ratio: float, by: float = 0.0) -> Rule:
    """A rule with the `share_of` and `for` of a condition."""
    hold_seconds = length_of(condition.for_) if condition.for_ else None
    return Rule(ratio, by=by, share=condition.share_of or DEFAULT_SHARE, hold_seconds=hold_seconds)


def quiet(values: np.ndarray) -> float | None:
    """The median of the finite values, or None."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else None
