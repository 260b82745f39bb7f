"""Quantiles of histograms that stand whole on the pages of one target, without the rates of all buckets of a fleet.

A fleet of 512 pods has a hundred thousand buckets: their rates take more memory than all samples, and their labels more
time than the quantiles. The buckets of one histogram stand on one page, so a few targets at a time are enough, and what
the series of a page are called is worked out once for all pages of a layout. Where buckets of one histogram are spread
over several targets, or one of its bounds stands there twice, the buckets must be added up first (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.source.alike import SeriesRequest, SeriesResult, apply_all
from inferdoc.source.histograms import AT_ONCE, Quantiles, settling
from inferdoc.source.histograms import outcome as quantile_outcome
from inferdoc.source.reads import Grid, Matcher, Read
from inferdoc.source.tables import Key, Table, TableLayout
from inferdoc.source.window import Windows

Called = Callable[[Key], Key]
"""What a histogram is called that is labelled so; both without `le`."""
Bounds = tuple[float, ...]
Cells = tuple[Bounds, np.ndarray]
"""The bounds of one histogram, ascending, and int64[bounds]: their columns on the page."""


_LayoutCells = tuple[TableLayout, list[Cells] | None]


@dataclass(frozen=True)
class _OnPage:
    """A histogram on the page of a target. table: its number; cells: where its buckets are."""

    table: int
    cells: Cells


def page_quantiles(
    batches: Iterable[Sequence[Table]],
    requested: Mapping[Read, tuple[Sequence[float], Called]],
    grid: Grid,
    match: tuple[Matcher, ...] = (),
) -> dict[Read, dict[float, Quantiles | None]]:
    """Some quantiles of the histograms of each read of bucket rates, `le` the last of its labels: those that
    `histograms.quantiles` makes of what `evaluate_tables` answers. Reads whose buckets must be added up first are left
    out. batches: tables from grid.reach_ms before the grid to its end, so many at a time that they stay in the cache;
    those of one batch are released before the next is taken."""
    answers = {read: _Answer(read, shares, grid) for read, (shares, _) in requested.items()}
    known: dict[object, _LayoutCells] = {}
    for tables in batches:
        for read, answer in list(answers.items()):
            places = _places(tables, read, requested[read][1], match, known)
            if places is None or not answer.begin(places):
                del answers[read]
        for width in dict.fromkeys(read.width for read in answers):
            _take_in([answer for read, answer in answers.items() if read.width == width], tables, grid)
    return {read: answer.quantiles() for read, answer in answers.items()}


def in_batches(tables: Sequence[Table]) -> Iterator[Sequence[Table]]:
    """The tables, so many at a time."""
    return (tables[begin : begin + AT_ONCE] for begin in range(0, len(tables), AT_ONCE))


def _places(
    tables: Sequence[Table],
    read: Read,
    named: Called,
    match: tuple[Matcher, ...],
    known: dict[object, _LayoutCells],
) -> dict[Key, _OnPage] | None:
    """Where each histogram stands; None where one stands in several places, or one of its bounds does. known: the cells
    of layouts by their ids, and the layouts, added to."""
    places: dict[Key, _OnPage] = {}
    by = read.by[:-1]
    for number, table in enumerate(tables):
        layout, target = table.layout, table.target
        if not layout.has(read.name):
            continue
        token, columns = layout.choose(read.name, read.match + match, target)
        if not len(columns):
            continue
        keys, key_of_column = layout.keys(token, columns, by, table.values_of(by))
        place = (id(layout), token, by)
        if place not in known:
            cells = None if "le" in target else _cells(layout, columns, key_of_column, len(keys))
            known[place] = layout, cells
        _, cells = known[place]
        if cells is None:
            return None
        for key, own in zip(keys, cells, strict=True):
            if not own[0]:
                continue
            name = named(key)
            if name in places:
                return None
            places[name] = _OnPage(number, own)
    return places


def _cells(layout: TableLayout, columns: np.ndarray, key_of_column: np.ndarray, keys: int) -> list[Cells] | None:
    """The buckets of each histogram; None where a bound stands there twice."""
    found: list[dict[float, int]] = [{} for _ in range(keys)]
    for column, key in zip(columns.tolist(), key_of_column.tolist(), strict=True):
        try:
            bound = float(layout.labels[column].get("le", ""))
        except ValueError:
            continue
        if bound in found[key]:
            return None
        found[key][bound] = column
    ranked = [sorted(each.items()) for each in found]
    return [(tuple(bound for bound, _ in each), np.array([column for _, column in each], np.int64)) for each in ranked]


class _Answer:
    """The quantiles of the histograms of one read, filled in batch by batch. rows: of each histogram; of_table: those
    on each table of the batch."""

    def __init__(self, read: Read, shares: Sequence[float], grid: Grid) -> None:
        self.read, self.shares, self.grid = read, shares, grid
        self.rows: dict[Key, int] = {}
        self.of_table: dict[int, list[tuple[int, Cells]]] = {}
        self.values: dict[float, list[np.ndarray]] = {q: [] for q in shares}
        self.bounds: list[Bounds] = []

    def begin(self, places: Mapping[Key, _OnPage]) -> bool:
        """Make room for the histograms of a batch; whether none of them was in an earlier one."""
        if not self.rows.keys().isdisjoint(places):
            return False
        self.of_table = {}
        for key, place in places.items():
            row = self.rows[key] = len(self.rows)
            self.of_table.setdefault(place.table, []).append((row, place.cells))
        for parts in self.values.values():
            parts.append(np.empty((len(places), self.grid.count)))
        self.bounds += [()] * len(places)
        return True

    def put(self, bounds: Bounds, rows: Sequence[int], cumulative: np.ndarray) -> None:
        """Rates of buckets, float64[bounds, rows, T], of histograms with the same bounds."""
        settle = settling(self.grid, self.read.width)
        answers, resolved = quantile_outcome(self.shares, np.array(bounds), cumulative, settle)
        begin = len(self.rows) - len(self.values[self.shares[0]][-1])
        own = [row - begin for row in rows]
        for q, values in zip(self.shares, answers, strict=True):
            self.values[q][-1][own] = values
        for row in rows:
            self.bounds[row] = resolved

    def quantiles(self) -> dict[float, Quantiles | None]:
        """By share. Histograms of which nothing could be determined are left out."""
        kept = [(key, row) for key, row in sorted(self.rows.items()) if self.bounds[row]]
        if not kept:
            return dict.fromkeys(self.shares)
        keys, rows = [key for key, _ in kept], [row for _, row in kept]
        fewest = min((self.bounds[row] for row in rows), key=len)
        return {
            q: Quantiles(keys, np.concatenate(parts)[rows], np.array(fewest[:-1])) for q, parts in self.values.items()
        }


def _take_in(answers: Iterable[_Answer], tables: Sequence[Table], grid: Grid) -> None:
    """Put what the tables hold into the answers, whose reads all have one width."""
    alike: dict[tuple[int, Bounds], list[tuple[int, np.ndarray]]] = {}
    by_number = dict(enumerate(answers))
    selected = list[list[tuple[int, int, Cells]]]()
    requested = list[SeriesRequest]()
    for number, table in enumerate(tables):
        own = [(place, row, cells) for place, each in by_number.items() for row, cells in each.of_table.get(number, ())]
        if own:
            samples, read = table.samples, by_number[own[0][0]].read
            windows = Windows.over(samples.times_ms, grid.times_ms, grid.window_ms(read))
            requested.append(SeriesRequest(samples, np.concatenate([columns for _, _, (_, columns) in own]), windows))
            selected.append(own)
    if not requested:
        return
    for own, outcome in zip(selected, apply_all(by_number[selected[0][0][0]].read.fn, requested), strict=True):
        rates, there = _rates(outcome)
        first = 0
        for place, row, (bounds, columns) in own:
            cut = slice(first, first + len(columns))
            first += len(columns)
            mine = rates[cut]
            if not there[cut].all():  # a bucket without any value is none
                mine, bounds = mine[there[cut]], tuple(np.array(bounds)[there[cut]].tolist())
            if len(bounds) >= 2 and np.isposinf(bounds[-1]):
                alike.setdefault((place, bounds), []).append((row, mine))
    for (place, bounds), members in alike.items():
        cumulative = np.empty((len(bounds), len(members), grid.count))
        for at, (_, mine) in enumerate(members):
            cumulative[:, at] = mine
        by_number[place].put(bounds, [row for row, _ in members], cumulative)


def _rates(outcome: SeriesResult) -> tuple[np.ndarray, np.ndarray]:
    """float64[columns, T], NaN where nothing; bool[columns], where there is anything."""
    rates = outcome.values if outcome.found.all() else np.where(outcome.found, outcome.values, np.nan)
    return rates, np.asarray(outcome.found.any(axis=1))
