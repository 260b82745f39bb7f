"""What a condition is evaluated in, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from inferdoc.catalogue.conditions import Fact, Lasting
from inferdoc.catalogue.signal import Signal, Tiers
from inferdoc.catalogue.slo import Slo, limits
from inferdoc.fleet.members import Pool
from inferdoc.judging.clock import DEFAULT_SHARE, Clock, Rule
from inferdoc.judging.deviation import Deviation, find_rows, without_past
from inferdoc.judging.model import BaselineKind
from inferdoc.judging.order import median, medians_of_others, rows_of
from inferdoc.judging.view import Unit, View
from inferdoc.times import length_of

MOST_TOGETHER = 64
"""Groups of outcomes kept at once: of 512 units each a quarter of a megabyte."""
MOST_CACHED = 100_000
"""So many outcomes, some 50 MB, are kept for whoever queries next."""


class Outcome(msgspec.Struct, frozen=True):
    """holds: True, False, or None where it is unknown (a missing signal, no baseline to compare with).

    first, last: steps between which it holds (None for what has no beginning, such as a flag that is present);
    baseline, observed, threshold in `unit`; text: the observation in words; missing: signals that are absent;
    from_start: true from the first step, so its beginning is unknown; ahead: it is extrapolated, not there yet;
    reference: what it was compared with; frozen: it rests on a gauge that did not move meanwhile.
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
    reference: BaselineKind = "absolute"
    frozen: bool = False

    def but(self, **changed: Any) -> Outcome:
        """The same with some fields changed."""
        return msgspec.structs.replace(self, **changed)

    @property
    def leaves(self) -> list[Outcome]:
        """The simple outcomes inside a group that hold, or the outcome itself."""
        return [part for part in self.parts if part.holds] or [self]

    def about(self, entity: str) -> Outcome:
        """The same, about another entity."""
        return self.but(entity=entity)

    def during(self, first: int, last: int) -> Outcome:
        """The same, between two steps where it holds; what does not hold has no beginning."""
        return self.but(first=first, last=last) if self.holds else self


@dataclass
class Context:
    """view: the series; signals, tiers: the catalogue; split: the step before which all is baseline (None: each
    condition finds its own); last: the last step of the episode that is looked at."""

    view: View
    signals: Mapping[str, Signal]
    tiers: Tiers
    clock: Clock
    split: int | None = None
    last: int | None = None
    slo: tuple[Slo, ...] = ()
    _found: dict[tuple[str, Rule], dict[Unit, Deviation | None]] = field(default_factory=dict)
    _past: dict[tuple[str, Rule], dict[Unit, np.ndarray]] = field(default_factory=dict)
    _usual: dict[tuple[str, Pool], dict[Unit, np.ndarray]] = field(default_factory=dict)
    _together: dict[tuple[object, ...], list[Outcome]] = field(default_factory=dict)
    _cached: dict[Fact, dict[tuple[object, ...], Outcome]] = field(default_factory=dict)

    def at(self, split: int | None, last: int | None) -> Context:
        """The same context with a split chosen; what was found before is shared."""
        return replace(self, split=split, last=last)

    def number(self, value: float | str, unit: Unit) -> tuple[float, str]:
        """A threshold in figures and where it stands: a number, or a named threshold of the unit's tier."""
        if not isinstance(value, str):
            return float(value), ""
        return self.tiers.limit(value, unit.member.tier), value

    def reference(self, unit: Unit, split: int) -> BaselineKind:
        """What a comparison of a unit before and after a step compares with."""
        view = self.view
        if view.lead is not None:
            return view.lead_kind
        life, key = view.lineage.lives.get(unit.member.key), unit.member.key
        if key in view.lineage.predecessor and life is not None and 2 * life.born > split:
            return "predecessors"
        return "history" if view.begin > split - view.begin else "calm-before"

    def limits(self, unit: Unit) -> dict[str, float]:
        """The objectives for the users of a unit: signal id -> limit."""
        pool = unit.member.pool
        return limits(self.slo, pool)

    def deviations(self, signal: str, units: Sequence[Unit], rule: Rule) -> list[Deviation | None]:
        """The earliest sustained deviation of the signal of some units; looked for in all units of the view at once."""
        found = self._found.get((signal, rule))
        if found is None:
            found = self._found[signal, rule] = self._search(signal, self.view.stack(signal)[0], rule)
        rest = [unit for unit in units if unit not in found]
        if rest:
            found |= self._search(signal, rest, rule)
        return [found[unit] for unit in units]

    def _search(self, signal: str, units: Sequence[Unit], rule: Rule) -> dict[Unit, Deviation | None]:
        seen = [unit for unit in units if self.view.get(unit, signal) is not None]
        if not seen:
            return dict.fromkeys(units)
        values = self.baselines(signal, seen, rule)
        deviations = find_rows(values, rule, self.clock, self.counts(signal, seen))
        return dict.fromkeys(units) | {unit: deviations[row] for row, unit in enumerate(seen)}

    def counts(self, signal: str, units: Sequence[Unit]) -> np.ndarray | None:
        """The observations per window of units that have a signal: float64[units, T], NaN where a unit has no counts;
        None where none has."""
        rows = [trace.counts if (trace := self.view.get(unit, signal)) is not None else None for unit in units]
        if all(row is None for row in rows):
            return None
        nothing = np.full(self.view.steps, np.nan)
        return rows_of([nothing if row is None else row for row in rows])

    def baselines(self, signal: str, units: Sequence[Unit], rule: Rule) -> np.ndarray:
        """The series of units that have a signal, without the incidents of their history that were over before the
        window: float64[units, T]."""
        if self.clock.begin <= self.clock.lead:
            return rows_of([self._values(signal, unit) for unit in units])
        known = self._past.get((signal, rule))
        if known is None:
            everyone, values = self.view.stack(signal)
            known = self._past[signal, rule] = dict(zip(everyone, without_past(values, rule, self.clock), strict=True))
        rest = [unit for unit in dict.fromkeys(units) if unit not in known]  # such as single GPUs
        if rest:
            series = [self._values(signal, unit) for unit in rest]
            rows = rows_of(series)
            past = without_past(rows, rule, self.clock)
            known |= zip(rest, series if past is rows else past, strict=True)  # most need no copy
        return rows_of([known[unit] for unit in units])

    def _values(self, signal: str, unit: Unit) -> np.ndarray:
        trace = self.view.get(unit, signal)
        assert trace is not None
        return trace.values

    def usual(self, signal: str, unit: Unit) -> np.ndarray | None:
        """What its like show beside a unit, at every step the median: float64[T]; None without any like it. Of those
        that were just born only beside others that were."""
        known = self._usual.get((signal, unit.member.pool))
        if known is None:
            units = {u: s.values for u in self.view.like(unit) if (s := self.view.get(u, signal)) is not None}
            known = self._usual[signal, unit.member.pool] = {}
            if len(units) > 1:
                rows = rows_of(list(units.values()))
                newborn = np.vstack([self.view.newborn(u) for u in units])
                usual = medians_of_others(rows)
                if newborn.any():
                    usual = np.where(newborn, usual, medians_of_others(np.where(newborn, np.nan, rows)))
                known |= zip(units, usual, strict=True)
        return known.get(unit)

    def together(self, condition: Fact, group: Sequence[Unit], judge: Judge) -> list[Outcome]:
        """The outcome of a condition on every unit of a group (a list that the view keeps), worked out once for all who
        query with the same split."""
        key = (id(group), condition, self.split, self.last)
        if key not in self._together:
            if len(self._together) >= MOST_TOGETHER:
                self._together.clear()
            self._together[key] = [judge(condition, self, unit) for unit in group]
        return self._together[key]

    def cached(self, condition: Fact) -> Mapping[tuple[object, ...], Outcome]:
        """Outcomes of a condition that were worked out before, for many units at once, by what they depend on: the
        unit, the split and, of some, the last step."""
        return self._cached.setdefault(condition, {})

    def record(self, condition: Fact, outcomes: Iterable[tuple[tuple[object, ...], Outcome]]) -> None:
        """Keep outcomes for those who query next."""
        self._cached.setdefault(condition, {}).update(outcomes)

    def make_room(self) -> None:
        """Forget outcomes where there are many. To be called between two recipes: what is forgotten between the
        questions of one is worked out again, unit by unit."""
        if sum(map(len, self._cached.values())) >= MOST_CACHED:
            for known in self._cached.values():
                known.clear()


class UnitQuery(NamedTuple):
    """A unit, and the split and last step of the episode that it is looked at in (as in `Context`)."""

    unit: Unit
    split: int | None = None
    last: int | None = None


Judge = Callable[[Fact, Context, Unit], Outcome]
"""Evaluates one kind of condition on one unit."""


def absent(signal: str, unit: Unit) -> Outcome:
    """The answer where the signal does not exist for the unit."""
    return Outcome(None, f"{signal} is not visible", signal, unit.name, missing=(signal,))


def rule_of_condition(condition: Lasting, ratio: float, by: float = 0.0) -> Rule:
    """A rule with the `share_of` and `for` of a condition."""
    hold_seconds = length_of(condition.for_) if condition.for_ else None
    return Rule(ratio, by=by, share=condition.share_of or DEFAULT_SHARE, hold_seconds=hold_seconds)


def quiet(values: np.ndarray) -> float | None:
    """The median of the finite values, or None."""
    finite = values[np.isfinite(values)]
    return median(finite) if len(finite) else None
