"""Count the events of a fleet per pool over a time range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import WIDE, Reading, Signal, Term
from inferdoc.catalogue.slo import Slo, events_of
from inferdoc.errors import SourceError
from inferdoc.fleet.members import COMPUTED, ENGINE_SIGNS, PROMPTS, Assignment, Fleet, Pool, resolve
from inferdoc.source.frame import Entity, SignalFrame
from inferdoc.source.grid import LOOK_MS, scrape_interval_ms
from inferdoc.source.identified import Identified
from inferdoc.source.plan import BY, Operand, matchers
from inferdoc.source.reads import Grid, Matcher, Read, ReadResult
from inferdoc.times import Moment, length_of, moment_ms

SLACK = 1e-9
"""A limit and a bound that differ by less are the same number, written twice."""


@dataclass(frozen=True)
class Counted:
    """Events at every step. low, high: float64[T], at least and at most so many were good; every: float64[T], all;
    below, above: the nearest bucket bounds of a histogram."""

    low: np.ndarray
    high: np.ndarray
    every: np.ndarray
    below: float | None = None
    above: float | None = None

    def last(self, steps: int) -> Counted:
        """The same, of the last steps alone."""
        return Counted(self.low[-steps:], self.high[-steps:], self.every[-steps:], self.below, self.above)

    @property
    def events(self) -> float:
        """All events."""
        return float(self.every.sum())

    @property
    def share(self) -> tuple[float, float] | None:
        """The share of good ones, at least and at most; None without events."""
        if self.events <= 0:
            return None
        return float(self.low.sum()) / self.events, min(1.0, float(self.high.sum()) / self.events)


def within(cells: Mapping[float, np.ndarray], limit: float) -> Counted | None:
    """The events of one histogram at or below a limit, at each step by the bounds that are there then. cells: bound ->
    float64[T], cumulative events of each step, NaN where there is no such bound; None without a bucket for all events.
    """
    every = cells.get(np.inf)
    if every is None:
        return None
    slack, count = SLACK * limit, len(every)
    bounds = np.array(sorted(cells))
    rows = np.array([cells[bound] for bound in bounds])
    there, all_of_them = np.isfinite(rows), np.nan_to_num(every)
    steps = np.arange(count)
    lower, upper = bounds <= limit + slack, bounds >= limit - slack
    known, some = there & lower[:, np.newaxis], there & upper[:, np.newaxis]
    below = np.where(known.any(axis=0), len(bounds) - 1 - known[::-1].argmax(axis=0), -1)
    above = np.where(some.any(axis=0), some.argmax(axis=0), len(bounds) - 1)
    least = np.where(below >= 0, np.nan_to_num(rows[below, steps]), 0.0)
    most = np.where(_changes(there), all_of_them, np.nan_to_num(rows[above, steps]))
    seen = there.any(axis=0)
    if not seen.any():
        return Counted(all_of_them, all_of_them, all_of_them)
    lowest, highest = int(below[seen].min()), int(above[seen].max())
    ends = None if lowest < 0 else float(bounds[lowest]), float(bounds[highest])
    return Counted(np.minimum(least, all_of_them), np.minimum(most, all_of_them), all_of_them, *ends)


def _changes(there: np.ndarray) -> np.ndarray:
    """bool[T]: steps beside a change of bounds, where those of one side miss some events. there: bool[B, T]."""
    found = np.zeros(there.shape[1], bool)
    steps = np.flatnonzero(there.any(axis=0))
    at = np.flatnonzero((there[:, steps[1:]] != there[:, steps[:-1]]).any(axis=0))
    found[steps[at]] = found[steps[at + 1]] = True
    return found


def added(parts: Iterable[Counted]) -> Counted | None:
    """Several together, with the widest of their bounds; None without any."""
    known = list(parts)
    if not known:
        return None
    low, high, every = (np.sum([getattr(one, name) for one in known], axis=0) for name in ("low", "high", "every"))
    below = [one.below for one in known]
    above = [one.above for one in known if one.above is not None]
    lowest = None if any(bound is None for bound in below) else min(bound for bound in below if bound is not None)
    return Counted(low, high, every, lowest, max(above, default=None))


FINE_MS = 300_000
"""Steps for burn rates: the shortest of their windows."""
MOST_STEPS = 500
SAMPLES = 48
"""Times at which pod identity is read."""
SCRAPES_PER_STEP = 5
"""An increase over fewer scrapes is a guess at its edges."""
ROUTER = "router"
"""Stands as the role of what is counted above the pods."""


@dataclass
class History:
    """source, catalogue: where events are read and what they mean; fleet: who is who; begin_ms, end_ms: the data that
    there are in the requested range; interval_ms: between two scrapes; match: matchers on every series."""

    source: Identified
    catalogue: Catalogue
    fleet: Fleet
    begin_ms: int
    end_ms: int
    interval_ms: int
    match: tuple[Matcher, ...] = ()
    _read: dict[tuple[Read, Grid], ReadResult] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Length of the data."""
        return (self.end_ms - self.begin_ms) / 1000

    @cached_property
    def aliases(self) -> Aliases:
        """Older names of metrics."""
        return self.catalogue.aliases

    @property
    def pools(self) -> list[Pool]:
        """The pools of the fleet, in order."""
        return sorted(
            {m.pool for m in self.fleet.members}, key=lambda p: (p.cluster, p.namespace, p.model, p.role, p.tier)
        )

    def whole(self) -> Grid:
        """Steps over all of the data."""
        return self.grid(max(self._least_ms, -(-(self.end_ms - self.begin_ms) // MOST_STEPS)))

    def fine(self, length: str) -> Grid:
        """Short steps over the last part of the data, at most so long."""
        begin = max(self.begin_ms, self.end_ms - round(1000 * length_of(length)))
        fitting = max(1, (self.end_ms - begin) // 50)
        return self.grid(int(min(FINE_MS, fitting)), begin)

    def grid(self, step_ms: int, begin_ms: int | None = None) -> Grid:
        """Whole steps that end 1 ms after the newest sample; what happens in a step is counted by its end."""
        step = max(step_ms, self._least_ms)
        span = self.end_ms - (self.begin_ms if begin_ms is None else begin_ms)
        count = max(1, span // step)
        end = self.end_ms + 1
        return Grid(end - (count - 1) * step, step, count, self.interval_ms, step, int(2.5 * self.interval_ms))

    @property
    def _least_ms(self) -> int:
        return SCRAPES_PER_STEP * self.interval_ms

    # ---- events ---------------------------------------------------------------------------------------------------

    def of_slo(self, slo: Slo, grid: Grid) -> dict[Pool, Counted]:
        """Good and all events of an objective by pool; of an objective for tenants only theirs."""
        signal = self.catalogue.signals[slo.signal]
        tenant = tuple(label for label, _ in slo.scope.tenant)
        by = tuple(dict.fromkeys((*BY[signal.level], *tenant)))
        rows: dict[Pool, list[Counted]] = {}
        known: set[Entity] = set()
        for reading in signal.readings:
            counted = self._of_reading(slo, signal, reading, grid, by)
            for entity, one in counted.items():
                pool = self.pool_of(entity, signal.level in WIDE)
                if pool is not None and entity not in known and _is_tenant(entity, slo):
                    rows.setdefault(pool, []).append(one)
            known |= counted.keys()
        summed = {pool: added(parts) for pool, parts in rows.items()}
        return {pool: one for pool, one in summed.items() if one is not None}

    def _of_reading(
        self, slo: Slo, signal: Signal, reading: Reading, grid: Grid, by: tuple[str, ...]
    ) -> dict[Entity, Counted]:
        if slo.kind == "latency":
            cells = self.latencies(reading, grid, by)
            return {entity: one for entity, own in cells.items() if (one := within(own, slo.target)) is not None}
        counted = events_of(signal, reading)
        if counted is None:
            return {}
        bad, every = (self.counts(term, grid, by) for term in counted)
        seen = {self.pool_of(entity, signal.level in WIDE) for entity in bad}
        found = {}
        for entity, total in every.items():
            if counted[0].default is not None or self.pool_of(entity, signal.level in WIDE) in seen:
                good = np.maximum(total - bad.get(entity, np.zeros_like(total)), 0.0)
                found[entity] = Counted(good, good, total)
        return found

    def latencies(self, reading: Reading, grid: Grid, by: tuple[str, ...]) -> dict[Entity, dict[float, np.ndarray]]:
        """Cumulative events of every step by bound, in the unit of the signal, of the histograms of a quantile; NaN
        where there is no such bound."""
        if reading.quantile is None:
            return {}
        found = self.histograms(reading.quantile, grid, by, matchers(reading.match))
        return {e: {bound * reading.scale: events for bound, events in cells.items()} for e, cells in found.items()}

    def histograms(
        self, name: str, grid: Grid, by: tuple[str, ...], match: tuple[Matcher, ...] = ()
    ) -> dict[Entity, dict[float, np.ndarray]]:
        """Cumulative events of every step by bound, of each histogram of that name in any spelling; NaN where there is
        no such bound."""
        found: dict[Entity, dict[float, np.ndarray]] = {}
        for entity, values in self._seen(f"{name}_bucket", grid, (*by, "le"), match):
            try:
                bound = float(entity.get("le"))
            except ValueError:
                continue
            cells = found.setdefault(Entity(tuple(pair for pair in entity.labels if pair[0] != "le")), {})
            cells[bound] = _together(cells[bound], values) if bound in cells else values
        return found

    def counts(self, term: Term, grid: Grid, by: tuple[str, ...]) -> dict[Entity, np.ndarray]:
        """Events of every step that a term counts."""
        assert term.rate is not None
        found: dict[Entity, np.ndarray] = {}
        for entity, values in self._increases(term.rate, grid, by, matchers(term.match)):
            found[entity] = found[entity] + values if entity in found else values
        return found

    def labels_of(self, slo: Slo) -> set[str]:
        """Which labels of an objective's tenants any of its series carries."""
        signal = self.catalogue.signals[slo.signal]
        counted = events_of(signal)
        histogram = slo.histogram(self.catalogue.signals)
        name = f"{histogram}_count" if histogram else counted[1].rate if counted else None
        tenant = tuple(label for label, _ in slo.scope.tenant)
        by = tuple(dict.fromkeys((*BY[signal.level], *tenant)))
        rows = self._increases(name, self.whole(), by, ()) if name else []
        return {label for entity, _ in rows for label in tenant if entity.get(label)}

    def _increases(
        self, name: str, grid: Grid, by: tuple[str, ...], match: tuple[Matcher, ...]
    ) -> list[tuple[Entity, np.ndarray]]:
        """What is not there counts nothing."""
        return [(entity, np.nan_to_num(values)) for entity, values in self._seen(name, grid, by, match)]

    def _seen(
        self, name: str, grid: Grid, by: tuple[str, ...], match: tuple[Matcher, ...]
    ) -> list[tuple[Entity, np.ndarray]]:
        present = self.source.names(self.begin_ms, self.end_ms)
        part = Operand(name, "increase", by, match, "sum")
        reads = part.reads(self.aliases, present)
        missing = [read for read in reads if (read, grid) not in self._read]
        if missing:
            self.source.expect({read.name for read in missing})
            answers = self.source.evaluate(missing, grid, self.match)
            self._read.update({(read, grid): answers[read] for read in missing})
        found: dict[Entity, np.ndarray] = {}
        for read in reads:  # of two names of one metric that exist at once the newer counts, as in signals
            result = self._read[read, grid]
            for key, values in zip(result.keys, result.values, strict=True):
                entity = Entity.of(by, key)
                newer = found.get(entity)
                found[entity] = values if newer is None else np.where(np.isnan(newer), values, newer)
        return list(found.items())

    def pool_of(self, entity: Entity, wide: bool = False) -> Pool | None:
        """The pool that events belong to; of what is counted above the pods the namespace and model, None for what is
        no engine."""
        if wide:
            place = entity.get("cluster"), entity.get("namespace")
            return Pool(*place, entity.get("target_model_name") or entity.get("model_name"), ROUTER, "")
        return self._pools.get(entity.member)

    @cached_property
    def _pools(self) -> Mapping[tuple[str, str, str], Pool]:
        return {member.key: member.pool for member in self.fleet.members}


def read_history(
    source: Identified,
    catalogue: Catalogue,
    assignments: Sequence[Assignment],
    since: str,
    until: Moment,
    match: tuple[Matcher, ...] = (),
) -> History:
    """Pod identity in a time range of a source, and how much of it has data. Raises SourceError where the source
    holds no engine there."""
    latest = source.latest_ms()
    end = moment_ms(until, latest, what="--until")
    begin = end - round(1000 * length_of(since, "--since"))
    if latest is None or latest < begin:
        raise SourceError(
            f"{source.location}: no samples in the selected time range; run `inferdoc doctor` to list available metrics"
        )
    end = min(end, latest)
    names = [n for n in (*ENGINE_SIGNS, "gpu_util", "output_len_mean", PROMPTS, COMPUTED) if n in catalogue.signals]
    interval = scrape_interval_ms(source.scrapes(end - LOOK_MS, end))
    begin = first_ms(source, names[:2], begin, end, interval, match)
    step = max(interval, (end - begin) // SAMPLES)
    frame = source.read(names, begin / 1000, end / 1000, step / 1000, match)
    fleet = resolve(frame, catalogue.tiers, assignments)
    if not fleet.members:
        raise SourceError(
            f"{source.location}: no engine in the selected time range; run `inferdoc doctor` to list available metrics"
        )
    return History(source, catalogue, fleet, begin, end, interval, match)


def first_ms(
    source: Identified, names: Sequence[str], begin: int, end: int, interval: int, match: tuple[Matcher, ...] = ()
) -> int:
    """Start of the data of some signals between two times, in milliseconds: searched on coarse steps,
    then on finer ones in the first of them that has any."""
    least = 2 * interval
    last, step = end, max(least, (end - begin) // SAMPLES)
    while last - begin > least:
        found = _first_seen(source.read(names, begin / 1000, last / 1000, step / 1000, match))
        if found is None and last == end:
            break
        last = last if found is None else min(last, found)  # only in the coarse search: just before it
        begin, finest = max(begin, last - step), step <= least
        if finest:
            break
        step = max(least, (last - begin) // SAMPLES)
    return begin


def _first_seen(frame: SignalFrame) -> int | None:
    rows = [np.isfinite(matrix.values).any(axis=0) for matrix in frame.signals.values() if len(matrix.values)]
    seen = np.flatnonzero(np.any(rows, axis=0)) if rows else np.empty(0, dtype=int)
    return int(frame.grid.times_ms[seen[0]]) if len(seen) else None


def _together(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Two spellings of one bound: NaN where neither is there."""
    nothing = np.isnan(one) & np.isnan(other)
    return np.where(nothing, np.nan, np.nan_to_num(one) + np.nan_to_num(other))


def _is_tenant(entity: Entity, slo: Slo) -> bool:
    return all(entity.get(label) == value for label, value in slo.scope.tenant)
