"""Scrapes of one target as matrices, and how they become stretches of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.chunks import pack_chunk
from inferdoc.store.codec import Bits
from inferdoc.store.layouts import LayoutTable, Numbers
from inferdoc.store.stretches import Stretch, union

_MOST_CELLS = 4_000_000
"""A stretch has at most so many rows times columns (32 MB while it is made)."""
_WIDENED = 4
_WIDENED_BY = 256
"""A stretch has at most `_WIDENED` times the series of its widest page and `_WIDENED_BY` more: where every scrape
brings other series, a column for each of them would cost more than it saves."""


@dataclass
class LayoutScrapes:
    """Scrapes of one target and layout. times_ms: int64[n], ascending; values: uint64[n, width]."""

    layout: int
    times_ms: NDArray[np.int64]
    values: Bits


def one_per_time(
    scrapes: list[LayoutScrapes], layouts: LayoutTable, identify: Callable[[Numbers], int]
) -> list[LayoutScrapes]:
    """The same samples, with one item per layout and one scrape per time.

    Where two scrapes have one time, the series of both become one scrape; a series that both have is taken from the
    first. identify: finds or makes the layout of given series.
    """
    times_ms, source, row = _by_time(scrapes)
    same = np.zeros(len(times_ms), bool)
    if len(times_ms):
        same[1:] = times_ms[1:] == times_ms[:-1]
    joined: list[LayoutScrapes] = []
    doubled = same.copy()
    doubled[:-1] |= same[1:]
    for ts_ms in np.unique(times_ms[same]).tolist():
        places = np.flatnonzero(times_ms == ts_ms)
        pieces = [(scrapes[source[place]], row[place]) for place in places.tolist()]
        series = np.concatenate([layouts.series(each.layout) for each, _ in pieces])
        values = np.concatenate([each.values[at] for each, at in pieces])
        first = np.sort(np.unique(series, return_index=True)[1])
        joined.append(LayoutScrapes(identify(series[first]), np.array([ts_ms], np.int64), values[np.newaxis, first]))
    for number, each in enumerate(scrapes):
        kept = np.sort(row[(source == number) & ~doubled])
        joined.append(LayoutScrapes(each.layout, each.times_ms[kept], each.values[kept]))
    by_layout: dict[int, list[LayoutScrapes]] = {}
    for each in joined:
        if len(each.times_ms):
            by_layout.setdefault(each.layout, []).append(each)
    return [_in_order(layout, group) for layout, group in by_layout.items()]


def parts(scrapes: list[LayoutScrapes], layouts: LayoutTable) -> Iterator[list[LayoutScrapes]]:
    """The scrapes, cut into parts of consecutive ones, each to become a stretch."""
    times_ms, source, _ = _by_time(scrapes)
    cuts = []
    begin, widest = 0, 0
    held: set[int] = set()
    columns: Numbers = np.empty(0, np.int64)
    for place, number in enumerate(source.tolist()):
        if number not in held:
            series = layouts.series(scrapes[number].layout)
            columns, widest = np.union1d(columns, series), max(widest, len(series))
        wide = len(columns) > _WIDENED * widest + _WIDENED_BY
        if place > begin and (wide or (place + 1 - begin) * len(columns) > _MOST_CELLS):
            cuts.append(times_ms[place])
            begin, held = place, set()
            columns = layouts.series(scrapes[number].layout)
            widest = len(columns)
        held.add(number)
    bounds = [(each, [0, *np.searchsorted(each.times_ms, cuts).tolist(), len(each.times_ms)]) for each in scrapes]
    for number in range(len(cuts) + 1):
        part = [(each, slice(ends[number], ends[number + 1])) for each, ends in bounds]
        yield [
            LayoutScrapes(each.layout, each.times_ms[of], each.values[of]) for each, of in part if of.start < of.stop
        ]


def stretch_of(
    scrapes: list[LayoutScrapes], layouts: LayoutTable, grouping: Callable[[Numbers], NDArray[np.uint32]]
) -> tuple[Stretch, list[bytes]]:
    """A stretch of these scrapes (one item per layout, one scrape per time), and its chunks in order of number.

    grouping: the chunk of each of given series, uint32[series].
    """
    scrapes = sorted(scrapes, key=lambda each: int(each.times_ms[0]))
    times_ms, layout_of, _ = _by_time(scrapes)
    series = union([layouts.series(each.layout) for each in scrapes])
    values = np.zeros((len(series), len(times_ms)), np.uint64)
    there = np.zeros((len(series), len(scrapes)), bool)
    column_of = np.zeros(len(layouts.keys), np.intp)
    column_of[series] = np.arange(len(series))
    for place, each in enumerate(scrapes):
        columns = column_of[layouts.series(each.layout)]
        values[np.ix_(columns, np.flatnonzero(layout_of == place))] = each.values.T
        there[columns, place] = True
    _fill(values, there, layout_of)
    chunk_of = grouping(series)
    ids = tuple(each.layout for each in scrapes)
    order = np.argsort(chunk_of, kind="stable")
    ends = np.cumsum(np.bincount(chunk_of))
    chunks = [pack_chunk(values[places]) for places in np.split(order, ends[:-1]) if len(places)]
    return Stretch(0, times_ms, ids, layout_of.astype(np.uint32), chunk_of), chunks


def _by_time(scrapes: list[LayoutScrapes]) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.intp]]:
    """Of all scrapes in order of time: the time, the item it is from, and its row there. Each int64[n]."""
    times_ms = np.concatenate([np.empty(0, np.int64), *(each.times_ms for each in scrapes)])
    lengths = [len(each.times_ms) for each in scrapes]
    order = np.argsort(times_ms, kind="stable")
    source = np.repeat(np.arange(len(scrapes)), lengths)
    row = np.concatenate([np.empty(0, np.intp), *(np.arange(length) for length in lengths)])
    return times_ms[order], source[order], row[order]


def _in_order(layout: int, group: list[LayoutScrapes]) -> LayoutScrapes:
    if len(group) == 1:
        return group[0]
    times_ms = np.concatenate([each.times_ms for each in group])
    order = np.argsort(times_ms)
    return LayoutScrapes(layout, times_ms[order], np.concatenate([each.values for each in group])[order])


def _fill(values: Bits, there: NDArray[np.bool_], layout_of: NDArray[np.intp]) -> None:
    """Where a series was not on a page, put the value it had before, or else the first it has.

    values: uint64[columns, rows]; there: bool[columns, layouts]; layout_of: int64[rows].
    """
    columns = np.flatnonzero(~there.all(axis=1))
    present = there[columns][:, layout_of]
    rows = np.where(present, np.arange(present.shape[1]), -1)
    last = np.maximum.accumulate(rows, axis=1)
    last = np.where(last < 0, present.argmax(axis=1)[:, np.newaxis], last)
    values[columns] = np.take_along_axis(values[columns], last, axis=1)
