"""Evaluates reads on samples of the store with the numbers that a Prometheus server would give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferdoc.source import window
from inferdoc.source.base import InfoSeries
from inferdoc.source.reads import Aggregation, Function, Grid, Matcher, Read, ReadResult
from inferdoc.source.tables import Key, Table, join
from inferdoc.source.window import Windows
from inferdoc.store.block import Block


@dataclass(frozen=True)
class Leaf:
    """One range function over one window, `offset_ms` back in time: what many reads have in common."""

    fn: str
    window_ms: int
    offset_ms: int
    agg: Aggregation


@dataclass
class Rows:
    """The rows of one read: its `by` keys in the order met. base: where they begin among the rows of a leaf."""

    read: Read
    index: dict[Key, int] = field(default_factory=dict)
    base: int = 0

    def row(self, key: Key) -> int:
        """The index of a key, a new one where it is new."""
        return self.index.setdefault(key, len(self.index))


@dataclass
class Share:
    """What one table adds to one read: columns of the table, and the row of the read that each counts towards."""

    rows: Rows
    columns: np.ndarray
    row_of_column: np.ndarray


@dataclass
class Sums:
    """Aggregates of all reads of a leaf. values: float64[rows, steps]; found: bool, whether any series had a value."""

    values: np.ndarray
    found: np.ndarray

    def rows(self, base: int, count: int) -> Sums:
        """Some of the rows: float64[count, steps]."""
        return Sums(self.values[base : base + count], self.found[base : base + count])


_FOLD: dict[Aggregation, tuple[np.ufunc, float]] = {
    "sum": (np.add, 0.0),
    "max": (np.fmax, np.nan),
    "min": (np.fmin, np.nan),
}
"""How series of one group combine, and what stands where a series has no value."""


def evaluate_blocks(
    blocks: Iterable[Block], reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...] = ()
) -> dict[Read, ReadResult]:
    """All reads on the grid, from the blocks of the store that reach from grid.reach_ms before it to its end.

    match is added to the matchers of every read. Values: float64[keys, grid.count], NaN where no series of the group
    has a value; every read has a result, without rows where nothing matches.
    """
    return evaluate_tables(join(blocks), reads, grid, match)


def evaluate_tables(
    tables: Sequence[Table], reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...] = ()
) -> dict[Read, ReadResult]:
    """As evaluate_blocks, from tables already joined."""
    rows = {read: Rows(read) for read in reads}
    shares = [_shares(table, rows.values(), match) for table in tables]
    by_leaf: dict[Leaf, list[Rows]] = {}
    for read, own in rows.items():
        for leaf in _leaves(read, grid):
            by_leaf.setdefault(leaf, []).append(own)
    sums: dict[Leaf, Sums] = {}
    offsets: dict[tuple[Read, Leaf], int] = {}
    for leaf, members in by_leaf.items():
        height = 0
        for own in members:
            offsets[own.read, leaf] = own.base = height
            height += len(own.index)
        sums[leaf] = _evaluate_leaf(leaf, height, members, tables, shares, grid)
    return {
        read: _result(own, [sums[leaf].rows(offsets[read, leaf], len(own.index)) for leaf in _leaves(read, grid)], grid)
        for read, own in rows.items()
    }


def _leaves(read: Read, grid: Grid) -> tuple[Leaf, ...]:
    function: Function = "last" if read.fn == "change" else read.fn
    now = Leaf(function, grid.window_ms(read), 0, read.agg)
    if read.fn != "change":
        return (now,)
    return now, Leaf(function, grid.window_ms(read), grid.rate_ms, read.agg)


def _result(own: Rows, parts: list[Sums], grid: Grid) -> ReadResult:
    """The finished read: rows in the order of their keys, those without any value left out."""
    values, found = parts[0].values, parts[0].found
    if own.read.fn == "change":
        found = found & parts[1].found
        with np.errstate(invalid="ignore"):
            values = (values - parts[1].values) / (grid.rate_ms / 1000.0)
    any_value: list[bool] = np.any(found, axis=1).tolist()
    kept = sorted((key, row) for key, row in own.index.items() if any_value[row])
    order = np.array([row for _, row in kept], dtype=np.int64)
    return ReadResult(own.read.by, [key for key, _ in kept], np.where(found[order], values[order], np.nan))


def _shares(table: Table, rows: Iterable[Rows], match: tuple[Matcher, ...]) -> dict[Read, Share]:
    """Which columns of the table count towards which rows of which reads."""
    found = {}
    layout, target = table.layout, table.target
    for own in rows:
        read = own.read
        if not layout.has(read.name):
            continue
        token, columns = layout.choose(read.name, read.match + match, target)
        if not len(columns):
            continue
        keys, key_of_column = layout.keys(token, columns, read.by, target)
        row_of_key = np.array([own.row(key) for key in keys], dtype=np.int64)
        found[read] = Share(own, columns, row_of_key[key_of_column])
    return found


def _evaluate_leaf(
    leaf: Leaf, height: int, members: list[Rows], tables: Sequence[Table], shares: list[dict[Read, Share]], grid: Grid
) -> Sums:
    """The function on every table, for all reads of the leaf at once. height: rows of all members together."""
    _, blank = _FOLD[leaf.agg]
    sums = Sums(np.full((height, grid.count), blank), np.zeros((height, grid.count), dtype=bool))
    ends = grid.times_ms - leaf.offset_ms
    for table, known in zip(tables, shares, strict=True):
        mine = [known[own.read] for own in members if own.read in known]
        if mine:
            columns = np.concatenate([share.columns for share in mine])
            rows = np.concatenate([share.row_of_column + share.rows.base for share in mine])
            _add(sums, leaf, table, columns, rows, ends)
    return sums


def _add(sums: Sums, leaf: Leaf, table: Table, columns: np.ndarray, rows: np.ndarray, ends: np.ndarray) -> None:
    """Evaluate some columns of a table and fold them into their rows."""
    distinct, place = np.unique(columns, return_inverse=True)
    samples = table.samples.take(distinct)
    values, found = window.apply(leaf.fn, samples, Windows.over(samples.times_ms, ends, leaf.window_ms))
    fold, blank = _FOLD[leaf.agg]
    if not found.all():
        values = np.where(found, values, blank)
    order = np.argsort(rows, kind="stable")
    rows, place = rows[order], place[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    values, found = values.T[place], found.T[place]
    with np.errstate(invalid="ignore"):
        if len(starts) < len(rows):
            values = fold.reduceat(values, starts, axis=0)
            found = np.logical_or.reduceat(found, starts, axis=0)
            rows = rows[starts]
        sums.values[rows] = fold(sums.values[rows], values)
    sums.found[rows] |= found


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
