"""What the counters of a source stood at when they were first scraped, as a source of steady rates.

Counters and histograms hold everything since their process started. Spread evenly over a time range, what they stood at
reads as rates, means and quantiles of that life.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from inferdoc.source.base import Cost, InfoSeries, Scrapes, Source, SourceKind
from inferdoc.source.readable import Readable
from inferdoc.source.reads import Grid, Matcher, Read, ReadResult

OF_COUNTERS = frozenset({"rate", "increase"})
"""Functions that read counters; the others read gauges, whose first value says nothing about the time before."""
START = "process_start_time_seconds"
MEMBER = ("cluster", "namespace", "pod", "instance")
SHORTEST_LIFE_SECONDS = 120.0
"""The mean over less is that of a warm-up."""
MOST_OF_A_LIFE = 1 / 6
"""That may be taken for the present: at three times the usual load, half of what happened is left."""


@dataclass(frozen=True)
class Stood:
    """The first values of a read. values: float64[keys]; at_ms: when each was scraped, int64[keys]."""

    by: tuple[str, ...]
    keys: list[tuple[str, ...]]
    values: np.ndarray
    at_ms: np.ndarray


@dataclass
class FirstCounters:
    """The first values of what is read of a source. grid: where they are looked for; least_life: seconds that a process
    must have run by then for its counters to count (0: also if unknown how long it ran); present: so many
    seconds before the first page are taken to have been as the grid shows, and what was counted in them is left out."""

    source: Source
    grid: Grid
    match: tuple[Matcher, ...] = ()
    least_life: float = 0.0
    present: float = 0.0
    _stood: dict[Read, Stood] = field(default_factory=dict)

    def of(self, reads: Sequence[Read]) -> dict[Read, Stood]:
        """The first value of each row of each read. Raises SourceError."""
        first = {read: replace(read, fn="last", width=1) for read in reads}
        missing = [read for read in dict.fromkeys(first.values()) if read not in self._stood]
        if missing:
            for read, result in self.source.evaluate(missing, self.grid, self.match).items():
                self._stood[read] = self._before_present(
                    self._of_long_lives(_of_one_page(_first(result, self.grid))), result
                )
        return {read: self._stood[as_gauge] for read, as_gauge in first.items()}

    @cached_property
    def _starts(self) -> Mapping[tuple[str, ...], float]:
        """When each process started, seconds since 1970, by the labels of MEMBER."""
        read = Read(START, "last", MEMBER, agg="max")
        started = _first(self.source.evaluate([read], self.grid, self.match)[read], self.grid)
        return dict(zip(started.keys, started.values.tolist(), strict=True))

    def _of_long_lives(self, stood: Stood) -> Stood:
        if not self.least_life:
            return stood
        kept = np.flatnonzero(self.life_seconds(stood) >= self.least_life)
        return Stood(stood.by, [stood.keys[row] for row in kept], stood.values[kept], stood.at_ms[kept])

    def _before_present(self, stood: Stood, result: ReadResult) -> Stood:
        """Their values before the present; unchanged for processes of which it is unknown how long they ran."""
        if not self.present:
            return stood
        at = {key: row for row, key in enumerate(result.keys)}
        values = result.values[[at[key] for key in stood.keys]] if stood.keys else np.empty((0, self.grid.count))
        present = np.minimum(self.present, MOST_OF_A_LIFE * np.nan_to_num(self.life_seconds(stood)))
        before = np.maximum(0.0, stood.values - present * _rates(values, self.grid))
        return Stood(stood.by, stood.keys, before, stood.at_ms - np.rint(1000 * present).astype(np.int64))

    def life_seconds(self, stood: Stood) -> np.ndarray:
        """float64[keys], how long the process of each row had run; NaN where that is unknown, or too short a time."""
        places = [stood.by.index(label) for label in MEMBER]
        own = [self._starts.get(tuple(key[place] for place in places), np.nan) for key in stood.keys]
        lives = stood.at_ms / 1000 - np.array(own, dtype=np.float64)
        return np.where(lives >= SHORTEST_LIFE_SECONDS, lives, np.nan)


def _first(result: ReadResult, grid: Grid) -> Stood:
    there = np.isfinite(result.values)
    rows = np.flatnonzero(there.any(axis=1)) if len(result.keys) else np.empty(0, np.int64)
    steps = there[rows].argmax(axis=1) if len(rows) else rows
    keys = [result.keys[row] for row in rows]
    return Stood(result.by, keys, result.values[rows, steps] if len(rows) else np.empty(0), grid.times_ms[steps])


def _rates(values: np.ndarray, grid: Grid) -> np.ndarray:
    """float64[R]: by how much a second the values of each row grew from the first to the last; 0 of what was set back.
    values: float64[R, T], in each row some."""
    there, rows = np.isfinite(values), np.arange(len(values))
    first, last = there.argmax(axis=1), values.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
    seconds = np.maximum(1, last - first) * grid.step_ms / 1000
    return np.asarray(np.maximum(0.0, values[rows, last] - values[rows, first]) / seconds)


def _of_one_page(stood: Stood) -> Stood:
    """Without buckets that came later than the others of their histogram: those of another process, which cuts them
    otherwise, under the same labels."""
    if "le" not in stood.by:
        return stood
    place = stood.by.index("le")
    names = [(*key[:place], *key[place + 1 :]) for key in stood.keys]
    first: dict[tuple[str, ...], int] = {}
    for name, at in zip(names, stood.at_ms.tolist(), strict=True):
        first[name] = min(at, first.get(name, at))
    kept = [row for row, name in enumerate(names) if stood.at_ms[row] == first[name]]
    return Stood(stood.by, [stood.keys[row] for row in kept], stood.values[kept], stood.at_ms[kept])


class Rise(Protocol):
    """At what rate counters come to what they stood at."""

    def __call__(self, counters: FirstCounters, stood: Stood) -> np.ndarray:
        """float64[keys], shares of it a second; NaN where that cannot be determined."""


def over_seconds(seconds: float) -> Rise:
    """All counters within so many seconds."""
    return lambda counters, stood: np.full(len(stood.keys), 1.0 / seconds)


def over_life(counters: FirstCounters, stood: Stood) -> np.ndarray:
    """Each since its process started."""
    return 1.0 / counters.life_seconds(stood)


@dataclass
class SteadyRates(Readable):
    """Rates that bring counters to what they stood at; no gauges, no info metrics. Implements `Source`."""

    counters: FirstCounters
    pace: Rise

    def __post_init__(self) -> None:
        self.kind: SourceKind = self.counters.source.kind
        self.location = self.counters.source.location
        self.warnings: list[str] = []
        self.cost = Cost()

    def latest_ms(self) -> int | None:
        """That of the source."""
        return self.counters.source.latest_ms()

    def names(self, start_ms: int, end_ms: int) -> set[str]:
        """Series names of the source where the counters are first scraped."""
        grid = self.counters.grid
        return self.counters.source.names(grid.oldest_ms, grid.end_ms)

    def label_names(self, start_ms: int, end_ms: int) -> set[str] | None:
        """Those of the source."""
        return self.counters.source.label_names(start_ms, end_ms)

    def scrapes(self, start_ms: int, end_ms: int) -> list[Scrapes]:
        """None: nobody scraped then."""
        return []

    def info(self, name: str, grid: Grid, match: tuple[Matcher, ...] = ()) -> list[InfoSeries]:
        """None."""
        return []

    def evaluate(self, reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...] = ()) -> dict[Read, ReadResult]:
        """All reads on the grid, the same at every step. Raises SourceError."""
        stood = self.counters.of([read for read in reads if read.fn in OF_COUNTERS])
        return {
            read: self._steady(read, stood[read], grid)
            if read in stood
            else ReadResult(read.by, [], np.empty((0, grid.count)))
            for read in reads
        }

    def _steady(self, read: Read, stood: Stood, grid: Grid) -> ReadResult:
        seconds = grid.window_ms(read) / 1000 if read.fn == "increase" else 1.0
        level = stood.values * self.pace(self.counters, stood) * seconds
        outcome = np.flatnonzero(np.isfinite(level))
        rows = np.repeat(level[outcome][:, np.newaxis], grid.count, axis=1)
        return ReadResult(read.by, [stood.keys[row] for row in outcome], rows)
