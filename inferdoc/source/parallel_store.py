"""A large store, read by two processes at once.

Most of the time for a fleet of hundreds of pods goes into decoding pages and evaluating reads, target by target. Where
there is a second core and enough to read, another process (`part_process`) does so for nearly half of the targets, and
here the answers are put together: rows that both have are folded as the series of one row are. Whatever that process
cannot do, one process does alone: the answer is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.source.base import InfoSeries, Scrapes, SourceKind
from inferdoc.source.evaluate import folded_rows
from inferdoc.source.histograms import Quantiles
from inferdoc.source.page_histograms import Called
from inferdoc.source.part_process import PartEndedError, PartProcess
from inferdoc.source.readable import Readable
from inferdoc.source.reads import Grid, Matcher, Read, ReadResult
from inferdoc.source.scrape_times import gather
from inferdoc.source.store_source import Part, StoreSource

LEAST_SCRAPES = 200_000
"""From so many on, half of the work takes longer than a process takes to begin."""
HERE, THERE = Part(0.0, 0.55), Part(0.55, 1.0)
"""The other process begins later, and its answers are handed over."""
T = TypeVar("T")
ByShare = Mapping[float, Quantiles | None]


class ParallelStore(Readable):
    """Reads signals from an embedded store; implements `Source` as `StoreSource` does. processes: at most so many, 1 or
    2; timeout: seconds that one call may read in each."""

    kind: SourceKind = "store"

    def __init__(self, path: str | Path, *, timeout: float = 600.0, processes: int | None = None) -> None:
        self._own = StoreSource(path, timeout=timeout)
        self._timeout = timeout
        self._may_share = (usable_cores() if processes is None else processes) > 1
        self._other: PartProcess | None = None
        self._expected: tuple[Collection[str], int | None] | None = None
        self._along: Collection[str] = ()
        self._told: tuple[str, ...] = ()
        self._unheard = 0
        self._without: Sequence[Mapping[str, str]] = ()
        self._few_ms = -1
        self._samples = 0
        self.location, self.warnings, self.cost = self._own.location, self._own.warnings, self._own.cost

    def __repr__(self) -> str:
        return repr(self._own)

    def close(self) -> None:
        """Close the file, and end the other process."""
        self._end_other()
        self._own.close()

    def expect(self, names: Collection[str], since_ms: int | None = None) -> None:
        """Read these series along with the next ones."""
        self._expected = (set(names) | set(self._expected[0] if self._expected else ()), since_ms)
        self._own.expect(names, since_ms)
        if self._other is not None:
            self._both("expect", (names, since_ms), lambda own, other: None)

    def read_along(self, names: Collection[str]) -> None:
        """Read these series too whenever samples are read and all fit into memory."""
        self._along = set(names)
        self._both("read_along", (self._along,), lambda own, other: None)

    def target_count(self) -> int | None:
        """How many targets the store holds, of whatever time."""
        return self._own.target_count()

    def leave_out(
        self, targets: Sequence[Mapping[str, str]], kept: Sequence[Mapping[str, str]], engines: Collection[str]
    ) -> bool:
        """From now on read nothing of these targets."""
        self._without = list(targets)
        return self._both("leave_out", (self._without, (), ()), lambda own, other: True)

    def latest_ms(self) -> int | None:
        """Time of the newest sample that is not in the future, milliseconds since the epoch; None without any."""
        return self._own.latest_ms()

    def names(self, start_ms: int, end_ms: int) -> set[str]:
        """Series names that have a sample in the stretch."""
        return self._own.names(start_ms, end_ms)

    def label_names(self, start_ms: int, end_ms: int) -> set[str] | None:
        """Names of the labels of the stretch."""
        self._share(start_ms, end_ms)
        return self._both("label_names", (start_ms, end_ms), lambda own, other: (own or set()) | (other or set()))

    def scrapes(self, start_ms: int, end_ms: int) -> list[Scrapes]:
        """Every scrape of every target."""
        self._share(start_ms, end_ms)
        return self._both("scrapes", (start_ms, end_ms), lambda own, other: gather([*own, *other]))

    def info(self, name: str, grid: Grid, match: tuple[Matcher, ...] = ()) -> list[InfoSeries]:
        """Every series of an info metric."""
        self._share(grid.start_ms, grid.end_ms)
        return self._both("info", (name, grid, match), _series)

    def evaluate(self, reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...] = ()) -> dict[Read, ReadResult]:
        """All reads on the grid."""
        self._share(grid.start_ms, grid.end_ms)
        return self._both("evaluate", (list(reads), grid, match), _results)

    def page_quantiles(
        self,
        asked: Mapping[Read, tuple[Sequence[float], Called]],
        grid: Grid,
        match: tuple[Matcher, ...] = (),
    ) -> dict[Read, dict[float, Quantiles | None]]:
        """Some quantiles of the histograms of each read, as far as they can be told page by page."""
        self._share(grid.start_ms, grid.end_ms)
        if self._other is None:
            return self._own.page_quantiles(asked, grid, match)
        as_stored = {read: (shares, _as_stored) for read, (shares, _) in asked.items()}
        halves: dict[Read, tuple[ByShare, ByShare]] = self._both(
            "page_quantiles",
            (as_stored, grid, match),
            lambda own, other: {r: (own[r], other[r]) for r in own if r in other},
        )
        if self._other is None:
            return self._own.page_quantiles(asked, grid, match)
        named = {read: _named(both, asked[read][1]) for read, both in halves.items()}
        return {read: found for read, found in named.items() if found is not None}

    def _share(self, start_ms: int, end_ms: int) -> None:
        """Have half of the targets read by another process, from now on, where it is worth it."""
        if not self._may_share or self._other is not None:
            return
        since_ms = self._expected[1] if self._expected else None
        begin_ms = min(start_ms, since_ms or start_ms)
        if end_ms - begin_ms <= self._few_ms:  # every call asks, and counting is a query for each target
            return
        if self._own.scrape_count(begin_ms, end_ms) < LEAST_SCRAPES:
            self._few_ms = end_ms - begin_ms
            return
        self._may_share = False
        try:
            self._other = PartProcess(self.location, THERE, self._timeout, self._own.hidden)
            if self._without:
                self._other.ask("leave_out", self._without, (), ())
                self._unheard += 1
            if self._along:
                self._other.ask("read_along", self._along)
                self._unheard += 1
            if self._expected is not None:
                self._other.ask("expect", *self._expected)
                self._unheard += 1
        except PartEndedError:
            self._end_other()
            return
        self._own.read_only(HERE)

    def _both(self, method: str, args: tuple[Any, ...], put_together: Callable[[Any, Any], T]) -> T:
        """The answer of both processes, or of this one where it is alone."""
        call = getattr(self._own, method)
        if self._other is not None:
            own = None
            error: Exception | None = None
            try:
                self._other.ask(method, *args)
                try:
                    own = call(*args)
                except InferdocError as raised:
                    error = raised  # the other answer is taken all the same, or it would be that of the next call
                for _ in range(self._unheard):  # of calls before that nobody waited for
                    self._other.answer()
                self._unheard = 0
                other = self._other.answer()
            except PartEndedError:
                self._end_other()
            else:
                error = error or other.error
                if error is not None:
                    raise error
                if not (other.left_out or self._own.left_out):
                    self._tell(other.warnings, other.samples)
                    return put_together(own, other.value)
                self._end_other()  # what does not fit must be left out of both halves alike
        return call(*args)  # type: ignore[no-any-return]

    def _tell(self, warnings: tuple[str, ...], samples: int) -> None:
        """The warnings and the cost of the other process along with those of this one."""
        if warnings != self._told:
            self.warnings[:] = [line for line in self.warnings if line not in self._told]
            self.warnings += [line for line in warnings if line not in self.warnings]
            self._told = warnings
        self.cost.samples += samples - self._samples
        self._samples = samples

    def _end_other(self) -> None:
        if self._other is not None:
            self._other.close()
            self._other, self._unheard = None, 0
        if self._own.part is not None:
            self._own.read_only(None)


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _as_stored(key: tuple[str, ...]) -> tuple[str, ...]:
    return key


def _series(own: list[InfoSeries], other: list[InfoSeries]) -> list[InfoSeries]:
    return sorted([*own, *other], key=lambda one: sorted(one.labels.items()))


def _results(own: Mapping[Read, ReadResult], other: Mapping[Read, ReadResult]) -> dict[Read, ReadResult]:
    return {read: folded_rows(read, own[read], other[read]) for read in own}


def _named(halves: tuple[ByShare, ByShare], named: Called) -> dict[float, Quantiles | None] | None:
    """The quantiles of both halves under the usual names; None where two histograms have one name: their buckets must
    be added up first."""
    found: dict[float, Quantiles | None] = {}
    for q in halves[0]:
        parts = [part for half in halves if (part := half[q]) is not None]
        keys = [named(key) for part in parts for key in part.keys]
        if len(set(keys)) < len(keys):
            return None
        order = sorted(range(len(keys)), key=keys.__getitem__)
        found[q] = None
        if parts:
            values = np.vstack([part.values for part in parts])
            bounds = min((part.bounds for part in parts), key=len)
            found[q] = Quantiles([keys[row] for row in order], values[order], bounds)
    return found
