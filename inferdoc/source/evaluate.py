"""Evaluates reads on samples of the store with the numbers that a Prometheus server would give."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

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
class Rows:
    """The rows of one selection: its `by` keys in the order met."""

    index: dict[Key, int] = field(default_factory=dict)

    def row(self, key: Key) -> int:
        """The index of a key, a new one where it is new."""
        return self.index.setdefault(key, len(self.index))

    @cached_property
    def ranked(self) -> tuple[list[Key], np.ndarray]:
        """The keys in their order and the row of each, once all are known."""
        kept = sorted(self.index.items())
        return [key for key, _ in kept], np.array([row for _, row in kept], dtype=np.int64)


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
        """The rows of a selection."""
        return Sums(self.values[self.places[selection]], self.found[self.places[selection]])


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
    selections = {Selection.of(read): Rows() for read in reads}
    shares = [_shares(table, selections, match) for table in tables]
    by_leaf: dict[Leaf, list[Selection]] = {}
    users: Counter[Leaf] = Counter()
    for read in reads:
        for leaf in _leaves(read, grid):
            members = by_leaf.setdefault(leaf, [])
            if Selection.of(read) not in members:
                members.append(Selection.of(read))
            users[leaf] += 1
    sums: dict[Leaf, Sums] = {}
    results: dict[Read, ReadResult] = {}
    for leaf, members in by_leaf.items():
        sums[leaf] = _evaluate_leaf(leaf, {own: selections[own] for own in members}, tables, shares, grid)
        for read in reads:
            needed = _leaves(read, grid)
            if leaf in needed and read not in results and all(each in sums for each in needed):
                own = Selection.of(read)
                results[read] = _result(read, selections[own], [sums[each].of(own) for each in needed], grid)
                users.subtract(needed)
        for done in [each for each in sums if not users[each]]:
            del sums[done]  # its memory is needed for the next
    return {read: results[read] for read in reads}


def _leaves(read: Read, grid: Grid) -> tuple[Leaf, ...]:
    function: Function = "last" if read.fn == "change" else read.fn
    now = Leaf(function, grid.window_ms(read), 0, read.agg)
    if read.fn != "change":
        return (now,)
    return now, Leaf(function, grid.window_ms(read), grid.rate_ms, read.agg)


def _result(read: Read, rows: Rows, parts: list[Sums], grid: Grid) -> ReadResult:
    """The finished read: rows in the order of their keys, those without any value left out."""
    values, found = parts[0].values, parts[0].found
    if read.fn == "change":
        found = found & parts[1].found
        with np.errstate(invalid="ignore"):
            values = (values - parts[1].values) / (grid.rate_ms / 1000.0)
    keys, order = rows.ranked
    kept = np.any(found, axis=1)[order]
    return ReadResult(read.by, list(itertools.compress(keys, kept.tolist())), values[order[kept]])


def _shares(table: Table, rows: Mapping[Selection, Rows], match: tuple[Matcher, ...]) -> dict[Selection, Share]:
    """Which columns of the table count towards which rows of which selections."""
    found = {}
    layout, target = table.layout, table.target
    for selection, own in rows.items():
        if not layout.has(selection.name):
            continue
        token, columns = layout.choose(selection.name, selection.match + match, target)
        if not len(columns):
            continue
        keys, key_of_column = layout.keys(token, columns, selection.by, target)
        row_of_key = np.array([own.row(key) for key in keys], dtype=np.int64)
        found[selection] = Share(columns, row_of_key[key_of_column])
    return found


def _evaluate_leaf(
    leaf: Leaf,
    members: Mapping[Selection, Rows],
    tables: Sequence[Table],
    shares: Sequence[dict[Selection, Share]],
    grid: Grid,
) -> Sums:
    """The function on every table, for all selections of the leaf at once."""
    places, height = {}, 0
    for selection, rows in members.items():
        places[selection] = slice(height, height + len(rows.index))
        height += len(rows.index)
    _, blank = _FOLD[leaf.agg]
    values, found = np.full((height, grid.count), blank), np.zeros((height, grid.count), dtype=bool)
    ends = grid.times_ms - leaf.offset_ms
    for table, known in zip(tables, shares, strict=True):
        mine = [(places[own].start, known[own]) for own in members if own in known]
        if mine:
            columns = np.concatenate([share.columns for _, share in mine])
            rows_of = np.concatenate([share.row_of_column + start for start, share in mine])
            _add(values, found, leaf, table, columns, rows_of, ends)
    if not np.isnan(blank):
        values[~found] = np.nan
    return Sums(values, found, places)


def _add(
    sums: np.ndarray,
    known: np.ndarray,
    leaf: Leaf,
    table: Table,
    columns: np.ndarray,
    rows: np.ndarray,
    ends: np.ndarray,
) -> None:
    """Evaluate some columns of a table and fold them into their rows of sums, float64[rows, steps]; known: bool of the
    same shape, whether any series had a value."""
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
        sums[rows] = fold(sums[rows], values)
    known[rows] |= found


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
