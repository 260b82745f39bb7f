"""What engines counted, interval by interval and pod by pod: increases of counters and of the buckets of histograms."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from inferdoc.forecast.fromsource import Key
from inferdoc.forecast.series import DAY
from inferdoc.source.frame import Entity
from inferdoc.source.grid import DEFAULT_INTERVAL_MS
from inferdoc.source.histograms import common_bounds
from inferdoc.source.plan import BY
from inferdoc.source.reads import Grid, Read, ReadResult

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.source.base import Source


@dataclass(frozen=True)
class Intervals:
    """Even intervals of a time range. start: Unix seconds; step: seconds; count: how many."""

    start: int
    step: int
    count: int

    def grids(self) -> Iterable[tuple[int, Grid]]:
        """The grid of each day, and its first interval: so much is read at once. Values are at the ends."""
        of_day = max(1, DAY // self.step)
        for first in range(0, self.count, of_day):
            count = min(of_day, self.count - first)
            begin = (self.start + (first + 1) * self.step) * 1000 + 1
            yield first, Grid(begin, self.step * 1000, count, DEFAULT_INTERVAL_MS, self.step * 1000, self.step * 1000)


@dataclass
class CounterIncreases:
    """increases: metric -> pod -> float64[intervals], NaN where nothing is known; engines: pod -> labels of its
    data-parallel ranks."""

    intervals: Intervals
    increases: dict[str, dict[Key, np.ndarray]]
    engines: dict[Key, set[str]]

    def of(self, name: str, keys: Collection[Key]) -> np.ndarray | None:
        """float64[pods, intervals] of a counter, 0 where nothing is known; None where no pod has it."""
        rows = self.increases.get(name, {})
        if not any(key in rows for key in keys):
            return None
        blank = np.zeros(self.intervals.count)
        return np.vstack([np.nan_to_num(rows.get(key, blank)) for key in keys])


def counted(source: Source, catalogue: Catalogue, intervals: Intervals, names: Iterable[str]) -> CounterIncreases:
    """Increases of counters. Raises SourceError."""
    by = BY["engine"]
    increases: dict[str, dict[Key, np.ndarray]] = {}
    engines: dict[Key, set[str]] = {}
    for first, name, result in _results(source, catalogue, intervals, list(names), by):
        rows = increases.setdefault(name, {})
        for key, values in zip(result.keys, result.values, strict=True):
            entity = Entity.of(by, key)
            engines.setdefault(entity.member, set()).add(entity.engine)
            _add(rows.setdefault(entity.member, np.full(intervals.count, np.nan)), first, values)
    return CounterIncreases(intervals, increases, engines)


def increases_by_label(
    source: Source, catalogue: Catalogue, intervals: Intervals, name: str, where: tuple[Collection[Key], str]
) -> dict[str, float]:
    """Value of a label -> increase of a counter over the whole time, of some pods. where: these pods, and the label.
    Raises SourceError."""
    keys, label = where
    own = tuple(each for each in BY["engine"] if each != label)
    totals: dict[str, float] = {}
    pods = set(keys)
    for _, _, result in _results(source, catalogue, intervals, [name], (*own, label)):
        for key, values in zip(result.keys, result.values, strict=True):
            if key[-1] and Entity.of((*own, label), key).member in pods:
                totals[key[-1]] = totals.get(key[-1], 0.0) + float(np.nansum(values))
    return totals


def bucket_increases(
    source: Source, catalogue: Catalogue, intervals: Intervals, name: str, keys: Collection[Key]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Of a histogram over some pods: the finite upper bounds that all of them have all the time, float64[n], and
    float64[n + 1, intervals] observations by bucket; None where there are none. Raises SourceError."""
    by, pods = (*BY["engine"], "le"), set(keys)
    engines: dict[Entity, dict[float, np.ndarray]] = {}
    for first, _, result in _results(source, catalogue, intervals, [f"{name}_bucket"], by):
        for key, values in zip(result.keys, result.values, strict=True):
            entity = Entity.of(by[:-1], key[:-1])
            if entity.member in pods:
                own = engines.setdefault(entity, {})
                _add(own.setdefault(float(key[-1]), np.full(intervals.count, np.nan)), first, values)
    bounds = np.array(common_bounds(engines.values()))
    if len(bounds) < 2 or not np.isinf(bounds[-1]):
        return None
    rows = np.array([np.sum([np.nan_to_num(own[bound]) for own in engines.values()], axis=0) for bound in bounds])
    return bounds[:-1], np.maximum(np.diff(rows, axis=0, prepend=0.0), 0.0)


def _results(
    source: Source, catalogue: Catalogue, intervals: Intervals, names: list[str], by: tuple[str, ...]
) -> Iterable[tuple[int, str, ReadResult]]:
    """First interval, metric and result of each read."""
    aliases = catalogue.aliases
    spellings = {name: aliases.of(name) for name in names}
    source.expect([spelling for each in spellings.values() for spelling in each])
    for first, grid in intervals.grids():
        source.identify(grid.start_ms - grid.rate_ms, grid.end_ms)
        present = source.names(grid.start_ms - grid.rate_ms, grid.end_ms)
        reads = {
            Read(spelling, "increase", by): name
            for name, known in spellings.items()
            for spelling in [next((each for each in known if each in present), None)]
            if spelling is not None
        }
        for read, result in source.evaluate(list(reads), grid).items():
            yield first, reads[read], result


def _add(row: np.ndarray, first: int, values: np.ndarray) -> None:
    """Adds values to a row in place, from an interval on; where nothing was known, what is known now."""
    known = np.flatnonzero(np.isfinite(values))
    row[first + known] = np.nan_to_num(row[first + known]) + values[known]
