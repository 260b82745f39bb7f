"""Evaluates reads on samples of the store with the numbers that a Prometheus server would give."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from inferdoc.source import window
from inferdoc.source.alike import SeriesRequest, SeriesResult, apply_all
from inferdoc.source.base import InfoSeries
from inferdoc.source.reads import Aggregation, Function, Grid, Matcher, Read, ReadResult
from inferdoc.source.tables import Key, Table
from inferdoc.source.window import Windows

AT_ONCE = 128
"""Targets to which a function is applied before its values are added up."""


@dataclass(frozen=True)
class Leaf:
    """One range function over one window, `offset_ms` back in time: what many reads have in common."""

    fn: str
    window_ms: int
    offset_ms: int
    agg: Aggregation


class Selection(NamedTuple):
    """Which series a read looks at and how they are grouped: what reads of one metric have in common."""

    name: str
    match: tuple[Matcher, ...]
    by: tuple[str, ...]

    @classmethod
    def of(cls, read: Read) -> Selection:
        """The selection of a read."""
        return cls(read.name, read.match, read.by)


@dataclass
class SelectionRows:
    """The rows of one selection: its `by` keys in the order met, and what each table adds to them."""

    index: dict[Key, int] = field(default_factory=dict)
    shares: list[Share] = field(default_factory=list)

    def row(self, key: Key) -> int:
        """The index of a key, a new one where it is new."""
        return self.index.setdefault(key, len(self.index))

    def settle(self) -> list[Key]:
        """The keys in their order; the rows of all shares are renumbered to follow it."""
        kept = sorted(self.index.items())
        rank = np.empty(len(kept), dtype=np.int64)
        rank[[row for _, row in kept]] = np.arange(len(kept))
        for share in self.shares:
            share.row_of_column = rank[share.row_of_column]
        return [key for key, _ in kept]


@dataclass
class Share:
    """What one table adds to a selection: columns of the table, and the row that each counts towards."""

    columns: np.ndarray
    row_of_column: np.ndarray


@dataclass
class Sums:
    """Aggregates of all selections of a leaf, or of one. values: float64[rows, steps], NaN where nothing; found: bool,
    whether any series had a value; places: the rows of each selection."""

    values: np.ndarray
    found: np.ndarray
    places: dict[Selection, slice] = field(default_factory=dict)

    def of(self, selection: Selection) -> Sums:
        """The rows of a selection, as arrays of their own: whoever keeps one selection keeps no other."""
        if len(self.places) == 1:
            return self
        return Sums(self.values[self.places[selection]].copy(), self.found[self.places[selection]].copy())


_FOLD: dict[Aggregation, tuple[np.ufunc, float]] = {
    "sum": (np.add, 0.0),
    "max": (np.fmax, np.nan),
    "min": (np.fmin, np.nan),
}
"""How series of one group combine, and what stands where a series has no value."""


def evaluate_tables(
    tables: Sequence[Table], reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...] = ()
) -> dict[Read, ReadResult]:
    """All reads on the grid, from tables that reach from grid.reach_ms before it to its end.

    match is added to the matchers of every read. Values: float64[keys, grid.count], NaN where no series of the group
    has a value; every read has a result, without rows where nothing matches.
    """
    selections = {Selection.of(read): SelectionRows() for read in reads}
    shares = [_shares(table, selections, match) for table in tables]
    keys = {selection: rows.settle() for selection, rows in selections.items()}
    by_leaf: dict[Leaf, list[Selection]] = {}
    users: Counter[Leaf] = Counter()
    for read in reads:
        for leaf in _leaves(read, grid):
            members = by_leaf.setdefault(leaf, [])
            if Selection.of(read) not in members:
                members.append(Selection.of(read))
            users[leaf] += 1
    sums: dict[Leaf, dict[Selection, Sums]] = {}
    windows = _TableWindows(tables, grid)
    results: dict[Read, ReadResult] = {}
    for leaf, members in by_leaf.items():
        whole = _evaluate_leaf(leaf, {own: len(keys[own]) for own in members}, tables, shares, windows)
        sums[leaf] = {own: whole.of(own) for own in members}
        del whole
        for read in reads:
            needed = _leaves(read, grid)
            if leaf in needed and read not in results and all(each in sums for each in needed):
                own = Selection.of(read)
                results[read] = _result(read, keys[own], [sums[each][own] for each in needed], grid)
                users.subtract(needed)
        for done in [each for each in sums if not users[each]]:
            del sums[done]  # its memory is needed for the next
    return {read: results[read] for read in reads}


class RowStack:
    """The rows of one read, of some targets after others. batches: about how many of these there will be: memory that
    is not written to yet costs nothing, and rows that are not moved leave no holes in it."""

    def __init__(self, steps: int, batches: int) -> None:
        self._keys: list[Key] = []
        self._values = np.empty((0, steps))
        self._batches = batches

    def add(self, part: ReadResult) -> None:
        """Put in the rows of further targets."""
        begin, end = len(self._keys), len(self._keys) + len(part.keys)
        if end > len(self._values):
            grown = np.empty((2 * end if begin else end * self._batches, self._values.shape[1]))
            grown[:begin] = self._values[:begin]
            self._values = grown
        self._values[begin:end] = part.values
        self._keys += part.keys

    @property
    def is_shared(self) -> bool:
        """Whether several targets have rows with one key."""
        return len(set(self._keys)) < len(self._keys)

    def result(self, by: tuple[str, ...]) -> ReadResult:
        """All rows, sorted by key; nothing can be added then."""
        order = sorted(range(len(self._keys)), key=self._keys.__getitem__)
        values = self._values[: len(order)]
        values[:] = values[order]
        return ReadResult(by, [self._keys[row] for row in order], values)


def _leaves(read: Read, grid: Grid) -> tuple[Leaf, ...]:
    function: Function = "last" if read.fn == "change" else read.fn
    now = Leaf(function, grid.window_ms(read), 0, read.agg)
    if read.fn != "change":
        return (now,)
    return now, Leaf(function, grid.window_ms(read), grid.rate_ms, read.agg)


def _result(read: Read, keys: list[Key], parts: list[Sums], grid: Grid) -> ReadResult:
    """The finished read: rows without any value left out."""
    values, found = parts[0].values, parts[0].found
    if read.fn == "change":
        found = found & parts[1].found
        with np.errstate(invalid="ignore"):
            values = (values - parts[1].values) / (grid.rate_ms / 1000.0)
    kept = np.any(found, axis=1)
    if not kept.all():
        keys, values = list(itertools.compress(keys, kept.tolist())), values[kept]
    return ReadResult(read.by, list(keys), values)


def _shares(
    table: Table, rows: Mapping[Selection, SelectionRows], match: tuple[Matcher, ...]
) -> dict[Selection, Share]:
    """Which columns of the table count towards which rows of which selections."""
    found = {}
    layout, target = table.layout, table.target
    for selection, own in rows.items():
        if not layout.has(selection.name):
            continue
        token, columns = layout.choose(selection.name, selection.match + match, target)
        if not len(columns):
            continue
        keys, key_of_column = layout.keys(token, columns, selection.by, table.values_of(selection.by))
        row_of_key = np.array([own.row(key) for key in keys], dtype=np.int64)
        found[selection] = Share(columns, row_of_key[key_of_column])
        own.shares.append(found[selection])
    return found


def _evaluate_leaf(
    leaf: Leaf,
    heights: Mapping[Selection, int],
    tables: Sequence[Table],
    shares: Sequence[dict[Selection, Share]],
    windows: _TableWindows,
) -> Sums:
    """The function on every table, for all selections of the leaf at once. heights: rows of each."""
    grid, places, height = windows.grid, dict[Selection, slice](), 0
    for selection, many in heights.items():
        places[selection] = slice(height, height + many)
        height += many
    sums = Sums(np.empty((height, grid.count)), np.empty((height, grid.count), dtype=bool), places)
    filled = np.zeros(height, dtype=bool)
    plans: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
    members = [
        (number, mine)
        for number, known in enumerate(shares)
        if (mine := [(places[own].start, known[own]) for own in heights if own in known])
    ]
    for begin in range(0, len(members), AT_ONCE):
        requested, where = list[SeriesRequest](), list[tuple[np.ndarray, np.ndarray]]()
        for number, mine in members[begin : begin + AT_ONCE]:
            columns = np.concatenate([share.columns for _, share in mine])
            plan = plans.get(columns.tobytes())
            if plan is None:
                plan = plans[columns.tobytes()] = np.unique(columns, return_inverse=True)
            requested.append(SeriesRequest(tables[number].samples, plan[0], windows.of(number, leaf)))
            where.append((plan[1], np.concatenate([share.row_of_column + start for start, share in mine])))
        for outcome, (place, rows) in zip(apply_all(leaf.fn, requested), where, strict=True):
            _add(sums, filled, leaf.agg, outcome, place, rows)
    return sums


@dataclass
class _TableWindows:
    """The windows over the scrapes of each table, which many leaves have in common."""

    tables: Sequence[Table]
    grid: Grid
    _known: dict[tuple[int, int, int], Windows] = field(default_factory=dict)

    def of(self, number: int, leaf: Leaf) -> Windows:
        """Those of a leaf over a table."""
        key = number, leaf.window_ms, leaf.offset_ms
        found = self._known.get(key)
        if found is None:
            times_ms = self.tables[number].samples.times_ms
            found = self._known[key] = Windows.over(times_ms, self.grid.times_ms - leaf.offset_ms, leaf.window_ms)
        return found


def _add(
    sums: Sums, filled: np.ndarray, agg: Aggregation, outcome: SeriesResult, place: np.ndarray, rows: np.ndarray
) -> None:
    """Fold what some columns of a table show into their rows. filled: bool[rows], which have a value or more already;
    place: of each that counts towards one of `rows`, among those columns."""
    if (rows[1:] > rows[:-1]).all():
        values, found = outcome.values[place], outcome.found[place]
    else:
        order = np.argsort(rows, kind="stable")
        rows, place = rows[order], place[order]
        starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
        values, found = outcome.values[place], outcome.found[place]
        if len(starts) < len(rows):
            values, found = _fold(agg, values, found, starts)
            rows = rows[starts]
    again = filled[rows]
    if again.any():
        both = np.repeat(rows[again], 2)
        pairs = np.empty((len(both), values.shape[1])), np.empty((len(both), values.shape[1]), dtype=bool)
        for pair, old, new in zip(pairs, (sums.values, sums.found), (values, found), strict=True):
            pair[0::2], pair[1::2] = old[rows[again]], new[again]
        values[again], found[again] = _fold(agg, *pairs, np.arange(0, len(both), 2))
    filled[rows] = True
    sums.values[rows] = values if found.all() else np.where(found, values, np.nan)
    sums.found[rows] = found


def _fold(agg: Aggregation, values: np.ndarray, found: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Series of one row, which stand together from each of `starts` on, as one: float64 and bool[starts, steps]."""
    fold, blank = _FOLD[agg]
    if not found.all():
        values = np.where(found, values, blank)
    with np.errstate(invalid="ignore"):
        return fold.reduceat(values, starts, axis=0), np.logical_or.reduceat(found, starts, axis=0)


def _folded(agg: Aggregation, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Values of the same rows from two sets of series as one: float64[rows, steps], NaN where neither has any."""
    fold, blank = _FOLD[agg]
    there, also = np.isfinite(one) | np.isinf(one), np.isfinite(other) | np.isinf(other)
    values = fold(np.where(there, one, blank), np.where(also, other, blank))
    return np.where(there | also, values, np.nan)


def folded_rows(read: Read, own: ReadResult, other: ReadResult) -> ReadResult:
    """The rows of a read of two sets of series, sorted by key; a row that both have is one of series of both."""
    if not own.keys or not other.keys:
        return own if own.keys else other
    keys = sorted({*own.keys, *other.keys})
    place = {key: row for row, key in enumerate(keys)}
    here, there = (np.array([place[key] for key in half.keys]) for half in (own, other))
    values = np.empty((len(keys), own.values.shape[1]))
    values[there] = other.values
    twice = np.isin(here, there)
    both = _folded(read.agg, own.values[twice], values[here[twice]])
    values[here] = own.values
    values[here[twice]] = both
    return ReadResult(own.by, keys, values)


def info_series(tables: Sequence[Table], name: str, grid: Grid, match: tuple[Matcher, ...] = ()) -> list[InfoSeries]:
    """Every series of one metric with all its labels, its newest sample within the gauge window at each step; sorted by
    labels."""
    found = []
    for table in tables:
        if not table.layout.has(name):
            continue
        _, columns = table.layout.choose(name, match, table.target)
        samples = table.samples.take(columns)
        windows = Windows.over(samples.times_ms, grid.times_ms, grid.gauge_ms)
        values, there = window.apply("last", samples, windows)
        for i, column in enumerate(columns):
            if there[:, i].any():
                found.append(InfoSeries(table.labels(int(column)), np.where(there[:, i], values[:, i], np.nan)))
    return sorted(found, key=lambda one: sorted(one.labels.items()))
