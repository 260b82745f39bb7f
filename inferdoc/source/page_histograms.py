"""Quantiles of histograms that stand whole on the pages of one target, without the rates of all buckets of a fleet.

A fleet of 512 pods has a hundred thousand buckets: their rates take more memory than all samples, and their labels more
time than the quantiles. The buckets of one histogram stand on one page, so a few targets at a time are enough, and what
the series of a page are called is worked out once for all pages of a layout. Where buckets of one histogram are spread
over several targets, or one of its bounds stands there twice, the buckets must be added up first (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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


@dataclass(frozen=True)
class _OnPage:
    """A histogram on the page of a target. table: its number; cells: where its buckets are."""

    table: int
    cells: Cells


def page_quantiles(
    tables: Sequence[Table],
    requested: Mapping[Read, tuple[Sequence[float], Called]],
    grid: Grid,
    match: tuple[Matcher, ...] = (),
) -> dict[Read, dict[float, Quantiles | None]]:
    """Some quantiles of the histograms of each read of bucket rates, `le` the last of its labels: those that
    `histograms.quantiles` makes of what `evaluate_tables` answers. Reads whose buckets must be added up first are left
    out. tables: from grid.reach_ms before the grid to its end."""
    known: dict[object, list[Cells] | None] = {}
    places = {read: _places(tables, read, named, match, known) for read, (_, named) in requested.items()}
    whole = {read: found for read, found in places.items() if found is not None}
    answers = {read: _Answer(read, requested[read][0], grid, found) for read, found in whole.items()}
    for width in dict.fromkeys(read.width for read in whole):
        of_width = [answers[read] for read in whole if read.width == width]
        for begin in range(0, len(tables), AT_ONCE):
            _take_in(of_width, tables, range(begin, min(begin + AT_ONCE, len(tables))), grid)
    return {read: answer.quantiles() for read, answer in answers.items()}


def _places(
    tables: Sequence[Table],
    read: Read,
    named: Called,
    match: tuple[Matcher, ...],
    known: dict[object, list[Cells] | None],
) -> dict[Key, _OnPage] | None:
    """Where each histogram stands; None where one stands in several places, or one of its bounds does. known: the cells
    of layouts, added to."""
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
            known[place] = None if "le" in target else _cells(layout, columns, key_of_column, len(keys))
        cells = known[place]
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
    """The quantiles of the histograms of one read, filled in target by target."""

    def __init__(self, read: Read, shares: Sequence[float], grid: Grid, places: Mapping[Key, _OnPage]) -> None:
        self.read, self.shares, self.grid = read, shares, grid
        self.keys = sorted(places)
        self.of_table: dict[int, list[tuple[int, Cells]]] = {}
        for row, key in enumerate(self.keys):
            self.of_table.setdefault(places[key].table, []).append((row, places[key].cells))
        self.values = {q: np.empty((len(self.keys), grid.count)) for q in shares}
        self.bounds: list[Bounds] = [()] * len(self.keys)

    def put(self, bounds: Bounds, rows: Sequence[int], cumulative: np.ndarray) -> None:
        """Rates of buckets, float64[bounds, rows, T], of histograms with the same bounds."""
        settle = settling(self.grid, self.read.width)
        answers, resolved = quantile_outcome(self.shares, np.array(bounds), cumulative, settle)
        for q, values in zip(self.shares, answers, strict=True):
            self.values[q][rows] = values
        for row in rows:
            self.bounds[row] = resolved

    def quantiles(self) -> dict[float, Quantiles | None]:
        """By share. Histograms of which nothing could be determined are left out."""
        kept = [row for row, bounds in enumerate(self.bounds) if bounds]
        if not kept:
            return dict.fromkeys(self.shares)
        keys, fewest = [self.keys[row] for row in kept], min((self.bounds[row] for row in kept), key=len)
        whole = len(kept) == len(self.keys)
        return {
            q: Quantiles(keys, values if whole else values[kept], np.array(fewest[:-1]))
            for q, values in self.values.items()
        }


def _take_in(answers: Iterable[_Answer], tables: Sequence[Table], some: Sequence[int], grid: Grid) -> None:
    """Put what some of the tables hold into the answers, whose reads all have one width."""
    alike: dict[tuple[int, Bounds], list[tuple[int, np.ndarray]]] = {}
    by_number = dict(enumerate(answers))
    selected = list[list[tuple[int, int, Cells]]]()
    requested = list[SeriesRequest]()
    for number in some:
        own = [(place, row, cells) for place, each in by_number.items() for row, cells in each.of_table.get(number, ())]
        if own:
            samples, read = tables[number].samples, by_number[own[0][0]].read
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
