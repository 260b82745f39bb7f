"""How much of a store is read at once, and which metrics are left out where that is not enough.

A metric is left out whole: a sum over some of its label sets would be a wrong number, none is an honest one. Those with
the most go first, since it is label sets that come and go (a request id, an adapter) that make a store large to read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from inferdoc.errors import TooSlowError
from inferdoc.store.faults import StoreError
from inferdoc.store.layouts import LayoutTable, Numbers
from inferdoc.store.matrix import SeriesFilter


@dataclass(frozen=True)
class ReadBudget:
    """label_sets: distinct ones, over all metrics of a time range, requested or not; series: requested label sets of
    all targets; values: of the matrices of these, 8 bytes each; gaps: those of them that are no sample. With these
    limits a read stays under 2 GB. 512 pods have 75 million values in two hours, scraped every 15 s."""

    label_sets: int = 500_000
    series: int = 1_000_000
    values: int = 85_000_000
    gaps: int = 25_000_000

    def of_half(self) -> ReadBudget:
        """That of one of two processes which share the targets: as many values each, and half of what only a churn of
        label sets needs."""
        return ReadBudget(self.label_sets // 2, self.series // 2, self.values, self.gaps // 2)


CHURN = "a label of it takes new values all the time: drop that label or metric"
SIZE = "the fleet is too large for that: ask about a shorter time range or about fewer pods (-l)"


class TooLarge(NamedTuple):
    """Why a metric does not fit, and what helps."""

    why: str
    remedy: str


class SlowReadError(StoreError, TooSlowError):
    """The time for a read of the store is up."""


class ReadTime:
    """How long one operation may take that reads the store, in seconds. clock: seconds, from any beginning."""

    def __init__(self, path: Path, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._seconds = seconds
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """An operation begins now."""
        self._end = self._clock() + self._seconds

    def check(self) -> None:
        """Raises SlowReadError once the time is up."""
        if self._clock() > self._end:
            raise SlowReadError(
                f"{self._path} was not read within {self._seconds:g} s; raise --timeout, or ask for a shorter window"
            )


@dataclass
class Usage:
    """What a target has in the time range: how many scrapes of each layout, by its id."""

    scrapes: Counter[int]

    @property
    def layouts(self) -> tuple[int, ...]:
        """Their ids, in order."""
        return tuple(sorted(self.scrapes))


def too_large(
    usages: Iterable[Usage], layouts: LayoutTable, selected: SeriesFilter, budget: ReadBudget
) -> dict[str, TooLarge]:
    """The requested metrics that do not fit, and why in words. Their layouts may be renumbered: call it first."""
    usages = list(usages)
    for layout in sorted({layout for usage in usages for layout in usage.layouts}):
        layouts.series(layout)
        layouts.shrink(budget.label_sets)
    many = TooLarge(f"more than {budget.label_sets:,} label sets", CHURN)
    gone = {name: many for name in layouts.left_out if selected.wants(name)}
    series: Counter[str] = Counter()
    values: Counter[str] = Counter()
    alike: dict[tuple[int, ...], Counter[str]] = {}
    for usage in usages:
        counts = alike.get(usage.layouts)
        if counts is None:
            distinct = _distinct([layouts.series(layout) for layout in usage.layouts], selected)
            counts = alike[usage.layouts] = layouts.count_names(distinct, np.ones(len(distinct), np.int64))
        series.update(counts)
        rows = usage.scrapes.total()
        values.update({name: count * rows for name, count in counts.items()})
    limits = [(series, budget.series, "series", CHURN), (values, budget.values, "values", SIZE)]
    if values.total() > budget.gaps:
        limits.append((values - _samples(usages, layouts, values), budget.gaps, "values without a sample", CHURN))
    for measured, most, what, remedy in limits:
        total = sum(count for name, count in measured.items() if name not in gone)
        for name, count in measured.most_common():
            if total <= most:
                break
            if name not in gone:
                total -= count
                gone[name] = TooLarge(f"{count:,} {what}, {most:,} fit at once", remedy)
    return gone


def _samples(usages: Iterable[Usage], layouts: LayoutTable, names: Iterable[str]) -> Counter[str]:
    """How many samples each of the metrics has."""
    scrapes: Counter[int] = Counter()
    for usage in usages:
        scrapes.update(usage.scrapes)
    samples: Counter[str] = Counter()
    for layout, rows in scrapes.items():
        series = layouts.series(layout)
        samples.update(layouts.count_names(series, np.full(len(series), rows, np.int64)))
    return Counter({name: samples[name] for name in names})


def _distinct(layouts: list[Numbers], selected: SeriesFilter) -> Numbers:
    chosen = [series[selected.columns(series)] for series in layouts]
    return chosen[0] if len(chosen) == 1 else np.unique(np.concatenate([*chosen, np.empty(0, np.int64)]))
