"""The samples of one target put together from pages and column chunks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.block import STALE_BITS
from inferdoc.store.codec import Bits
from inferdoc.store.layouts import LayoutTable, Numbers

NameFilter = Callable[[str], bool] | Collection[str] | None
_LAYOUTS_KEPT = 256


class SeriesFilter:
    """Which series are requested; every distinct name is tested once. Those that the layouts left out never are."""

    def __init__(self, names: NameFilter, layouts: LayoutTable) -> None:
        self._test = names if callable(names) else None if names is None else frozenset(names).__contains__
        self._layouts = layouts
        self._by_name: dict[str, bool] = {}
        self._by_number = np.empty(0, bool)
        self._chosen: dict[int, tuple[Numbers, NDArray[np.intp]]] = {}

    def wants(self, name: str) -> bool:
        """Whether series of this name are requested."""
        return self._test is None or bool(self._test(name))

    def without(self, names: Collection[str]) -> SeriesFilter:
        """The same filter, but for some names."""
        return SeriesFilter(lambda name: name not in names and self.wants(name), self._layouts)

    def columns(self, series: Numbers) -> NDArray[np.intp]:
        """Places of the requested ones among these series. Those of a layout are worked out once for all who ask."""
        known = self._chosen.get(id(series))
        if known is not None and known[0] is series:
            return known[1]
        if len(self._chosen) >= _LAYOUTS_KEPT:
            self._chosen.clear()
        chosen = self._columns(series)
        self._chosen[id(series)] = series, chosen
        return chosen

    def _columns(self, series: Numbers) -> NDArray[np.intp]:
        kept = series >= 0
        if self._test is not None:
            self._extend(self._test)
            kept &= self._by_number[np.where(kept, series, 0)] if len(self._by_number) else False
        return np.flatnonzero(kept)

    def _extend(self, test: Callable[[str], bool]) -> None:
        fresh = self._layouts.keys[len(self._by_number) :]
        if not fresh:
            return
        for key in fresh:
            if key[0] not in self._by_name:
                self._by_name[key[0]] = bool(test(key[0]))
        known = np.array([self._by_name[key[0]] for key in fresh], bool)
        self._by_number = np.concatenate([self._by_number, known])


@dataclass(frozen=True)
class ColumnLookup:
    """Finds the column of a series: a target has some hundred of the hundreds of thousands of series of a fleet.
    series: their numbers, ascending; column: of each; in_order: whether column and place are the same."""

    series: Numbers
    column: NDArray[np.intp]
    in_order: bool

    @classmethod
    def of(cls, columns: Numbers) -> ColumnLookup:
        """columns: number of the series of each column, each once."""
        if (columns[1:] > columns[:-1]).all():
            return cls(columns, np.arange(len(columns)), True)
        order = np.argsort(columns)
        return cls(columns[order], order, False)

    def columns(self, series: Numbers) -> NDArray[np.intp]:
        """The columns of series, -1 for those that have none."""
        places = np.searchsorted(self.series, series)
        places[places == len(self.series)] = 0
        found = places if self.in_order else self.column[places]
        missing = self.series[places] != series
        if missing.any():
            found = np.where(missing, -1, found)
        return found


@dataclass(frozen=True)
class Matrix:
    """times_ms: int64[rows], ascending; series: int64[columns], numbers; values: uint64[columns, rows], STALE where
    nothing was put, unless there is but one layout, which fills all of it; has_one: whether there is but one."""

    times_ms: NDArray[np.int64]
    series: Numbers
    values: Bits
    has_one: bool = False

    @classmethod
    def of(cls, times_ms: list[NDArray[np.int64]], layouts: list[Numbers], selected: SeriesFilter) -> Matrix | None:
        """A matrix for scrapes at these times, with these layouts (each once); None if none has a requested series."""
        chosen = [series[selected.columns(series)] for series in layouts]
        if not sum(map(len, chosen)):
            return None
        columns = chosen[0] if len(chosen) == 1 else np.unique(np.concatenate(chosen))
        times = np.concatenate(times_ms)
        if len(times) > 1 and not (np.diff(times) > 0).all():
            times = np.unique(times)
        shape = (len(columns), len(times))
        values = np.empty(shape, np.uint64) if len(layouts) == 1 else np.full(shape, STALE_BITS, np.uint64)
        return cls(times, columns, values, len(layouts) == 1)

    def columns(self, series: Numbers) -> NDArray[np.intp]:
        """The columns of series, -1 for those that have none."""
        return self._lookup.columns(series)

    @cached_property
    def _lookup(self) -> ColumnLookup:
        return ColumnLookup.of(self.series)

    def rows(self, times_ms: NDArray[np.int64]) -> slice | NDArray[np.intp]:
        """Where these times are: a slice where they follow each other."""
        first = int(np.searchsorted(self.times_ms, times_ms[0]))
        last = int(np.searchsorted(self.times_ms, times_ms[-1]))
        if last + 1 - first == len(times_ms):
            return slice(first, last + 1)
        return np.searchsorted(self.times_ms, times_ms)

    def put(self, times_ms: NDArray[np.int64], series: Numbers, values: Bits) -> None:
        """values: uint64[series, times_ms], of series that all have a column."""
        self.fill(self.rows(times_ms), self.columns(series), values)

    def fill(self, rows: slice | NDArray[np.intp], columns: NDArray[np.intp], values: Bits | np.uint64) -> None:
        """values: uint64[columns, rows], or one for all."""
        if isinstance(rows, slice):
            self.values[columns, rows] = values
        else:
            self.values[columns[:, np.newaxis], rows] = values
