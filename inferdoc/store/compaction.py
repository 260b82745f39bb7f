"""Compaction: pages become column chunks, of which a read decodes only the columns that it needs.

An hour of a target at a time: its pages, and the segments that it has already, become new segments, in the
transaction that drops the old ones. So a crash leaves each hour as it was or compacted, never half, and readers see the
one or the other. The current hour is compacted every ten minutes up to the last full ten minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.chunks import chunks_of, pack_chunk, unpack_chunk
from inferdoc.store.codec import Bits, DamagedError
from inferdoc.store.faults import damaged, guarded
from inferdoc.store.layouts import LayoutTable, LayoutWriter, Numbers
from inferdoc.store.pages import EARLIEST_MS, chain, chain_start, cut_after, decode
from inferdoc.store.rows import NOTHING, fetch
from inferdoc.store.schema import transaction
from inferdoc.store.seal import Owner, owners
from inferdoc.store.segments import (
    CHUNKS_PER_SEGMENT,
    HOUR_MS,
    Segment,
    chunk_data,
    delete_segment,
    insert_segment,
    overlapping,
    union,
)
from inferdoc.store.space import free_bytes, give_back, used_bytes
from inferdoc.store.store import Store

COMPACT_EVERY_MS = 600_000
"""What is newer stays in pages. Reading pages costs twice the CPU of reading chunks; an hour is compacted six times, at
3.5 times the CPU of once."""
_MOST_CELLS = 4_000_000
"""A segment has at most so many rows times columns (32 MB while it is made)."""
_WIDENED = 4
_WIDENED_BY = 256
"""A segment has at most `_WIDENED` times the series of its widest page and `_WIDENED_BY` more: where every scrape
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
    """The scrapes, cut into parts of consecutive ones, each to become a segment."""
    times_ms, source, _ = _by_time(scrapes)
    cuts = []
    begin, widest = 0, 0
    included: set[int] = set()
    columns: Numbers = np.empty(0, np.int64)
    for place, number in enumerate(source.tolist()):
        if number not in included:
            series = layouts.series(scrapes[number].layout)
            columns, widest = np.union1d(columns, series), max(widest, len(series))
        wide = len(columns) > _WIDENED * widest + _WIDENED_BY
        if place > begin and (wide or (place + 1 - begin) * len(columns) > _MOST_CELLS):
            cuts.append(times_ms[place])
            begin, included = place, set()
            columns = layouts.series(scrapes[number].layout)
            widest = len(columns)
        included.add(number)
    bounds = [(each, [0, *np.searchsorted(each.times_ms, cuts).tolist(), len(each.times_ms)]) for each in scrapes]
    for number in range(len(cuts) + 1):
        part = [(each, slice(ends[number], ends[number + 1])) for each, ends in bounds]
        yield [
            LayoutScrapes(each.layout, each.times_ms[of], each.values[of]) for each, of in part if of.start < of.stop
        ]


def segment_of(
    scrapes: list[LayoutScrapes], layouts: LayoutTable, grouping: Callable[[Numbers], NDArray[np.uint32]]
) -> tuple[Segment, list[bytes]]:
    """A segment of these scrapes (one item per layout, one scrape per time), and its chunks in order of number.

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
    return Segment(0, times_ms, ids, layout_of.astype(np.uint32), chunk_of), chunks


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


_COMMIT_SAMPLES = 4_000_000
"""So many samples are compacted in one transaction: a few tenths of a second."""
_GROUPINGS_KEPT = 64
_MOST_FREE = 0.25
"""Free space beyond this share of the data goes back to the file system; below, the next pages fill it."""


@dataclass
class Compacted:
    """pages: scrapes that were pages and are in column chunks now; samples: theirs; seconds: it took; complete: False
    if some were left for want of time."""

    pages: int = 0
    samples: int = 0
    seconds: float = 0.0
    complete: bool = True


def compact(store: Store, now_ms: int | None = None, seconds: float | None = None) -> Compacted:
    """Turn the scrapes before the last full ten minutes of `now_ms` (default: the clock) into column chunks.

    seconds: stop after about so long, and leave the rest to the next call. Not to be called inside a `round`. Raises
    StoreError; the store then still has all that it had, and is readable.
    """
    started = time.monotonic()
    now = int(time.time() * 1000) if now_ms is None else now_ms
    done = Compacted()
    with guarded(store.path, "write"):
        store.writer.forget()
        try:
            cutoff_ms = now // COMPACT_EVERY_MS * COMPACT_EVERY_MS
            run = _Compaction(store, cutoff_ms, None if seconds is None else started + seconds)
            run.run(done)
            if run.damage:
                more = f" (and {len(run.damage) - 1} hours more)" if len(run.damage) > 1 else ""
                raise DamagedError(f"{run.damage[0]}{more}")
        except DamagedError as error:
            raise damaged(store.path, str(error)) from error
        finally:
            store.writer.forget()
        if done.pages and free_bytes(store.connection) > _MOST_FREE * used_bytes(store.connection):
            give_back(store.connection)
    done.seconds = time.monotonic() - started
    return done


@dataclass
class _Compaction:
    """One run. cutoff_ms: the first moment that stays in pages; until: when to stop, by the monotonic clock;
    damage: what is wrong with hours that were left as they are."""

    store: Store
    cutoff_ms: int
    until: float | None
    damage: list[str] = field(default_factory=list)
    _groupings: dict[bytes, NDArray[np.uint32]] = field(default_factory=dict)

    def run(self, done: Compacted) -> None:
        """All hours of all targets, some in each transaction, counted in `done` when committed."""
        connection = self.store.connection
        work = self._hours()
        unit = next(work, None)
        while unit is not None:
            if self.until is not None and time.monotonic() >= self.until:
                done.complete = False
                return
            pages = samples = 0
            with transaction(connection, "IMMEDIATE"):
                while unit is not None and samples < _COMMIT_SAMPLES and not self.store.writer.layouts.is_large():
                    scrapes = self._hour_or_damage(*unit)
                    pages += sum(len(each.times_ms) for each in scrapes)
                    samples += sum(each.values.size for each in scrapes)
                    unit = next(work, None)
            done.pages += pages
            done.samples += samples
            if self.store.writer.layouts.is_large():
                self.store.writer.layouts.reset()
                self._groupings.clear()

    def _hours(self) -> Iterator[tuple[Owner, int]]:
        """Every target with the beginning of each hour before the cutoff in which it has pages, the latest first: a
        page whose chain starts in the hour is then found at once behind it."""
        connection = self.store.connection
        query = "SELECT max(ts_ms) FROM page WHERE target = ? AND ts_ms < ?"
        for owner in owners(connection):
            hour_ms = self.cutoff_ms
            while hour_ms > EARLIEST_MS:
                ((last_ms,),) = fetch(connection, query, (owner.id, hour_ms), (int, NOTHING))
                if last_ms is None:
                    break
                hour_ms = last_ms // HOUR_MS * HOUR_MS
                yield owner, hour_ms

    def _hour_or_damage(self, owner: Owner, hour_ms: int) -> list[LayoutScrapes]:
        """Compact an hour of a target; one that is damaged stays as it is, and does not hold up the others."""
        connection = self.store.connection
        connection.execute("SAVEPOINT hour")
        try:
            scrapes = self._hour(owner, hour_ms)
        except DamagedError as error:
            connection.execute("ROLLBACK TO hour")
            self.store.writer.layouts.forget()
            self.damage.append(str(error))
            scrapes = []
        connection.execute("RELEASE hour")
        return scrapes

    def _hour(self, owner: Owner, hour_ms: int) -> list[LayoutScrapes]:
        """Compact an hour of a target. Returns what its pages were."""
        connection, layouts = self.store.connection, self.store.writer.layouts
        first_ms, last_ms = max(hour_ms, EARLIEST_MS), min(hour_ms + HOUR_MS, self.cutoff_ms) - 1
        pages = self._pages(owner, first_ms, last_ms)
        old = overlapping(connection, owner, first_ms, last_ms)
        whole = [part for segment in old for part in self._scrapes(segment)] + pages
        if not pages:
            raise DamagedError("a page is missing")
        for each in pages:
            cut_after(connection, layouts, owner, each.layout, last_ms)
        # Dropped first, so that the chunks fill the room of the pages and the file need not grow.
        drop = "DELETE FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ?"
        connection.execute(drop, (owner.id, first_ms, last_ms))
        for segment in old:
            delete_segment(connection, segment.id)
        for part in parts(one_per_time(whole, layouts, self._identify), layouts):
            insert_segment(connection, owner, *segment_of(part, layouts, self._grouping))
        return pages

    def _pages(self, owner: Owner, first_ms: int, last_ms: int) -> list[LayoutScrapes]:
        connection = self.store.connection
        # SQLite takes the bare column back_ms from the row that min() found (https://sqlite.org/lang_select.html).
        query = (
            "SELECT layout, min(ts_ms), back_ms FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? GROUP BY layout"
        )
        found = []
        for layout, start_ms, back_ms in fetch(connection, query, (owner.id, first_ms, last_ms), int, int, int):
            rows = chain(connection, owner, layout, chain_start(start_ms, back_ms), last_ms)
            values = decode(owner, layout, rows, len(self.store.writer.layouts.series(layout)))
            times_ms = np.array([row.ts_ms for row in rows], np.int64)
            inside = times_ms >= first_ms
            found.append(LayoutScrapes(layout, times_ms[inside], values.T[inside]))
        return found

    def _scrapes(self, segment: Segment) -> list[LayoutScrapes]:
        """What a segment holds, as the scrapes it was made of."""
        layouts = self.store.writer.layouts
        series = segment.series(layouts)
        values = np.empty((len(series), len(segment.times_ms)), np.uint64)
        first = segment.id * CHUNKS_PER_SEGMENT
        query = "SELECT id, body FROM chunk WHERE id >= ? AND id < ? ORDER BY id"
        bodies = fetch(self.store.connection, query, (first, first + CHUNKS_PER_SEGMENT), int, bytes)
        if [row[0] - first for row in bodies] != np.unique(segment.chunk_of).tolist():
            raise DamagedError("a segment has lost chunks")
        for number, body in bodies:
            places = np.flatnonzero(segment.chunk_of == number - first)
            values[places] = unpack_chunk(
                chunk_data(number, body), len(places), values.shape[1], np.arange(len(places))
            )
        column_of = np.zeros(len(layouts.keys), np.intp)
        column_of[series] = np.arange(len(series))
        found = []
        for place, layout in enumerate(segment.layouts):
            rows = np.flatnonzero(segment.layout_of == place)
            columns = column_of[layouts.series(layout)]
            found.append(LayoutScrapes(layout, segment.times_ms[rows], values[np.ix_(columns, rows)].T))
        return found

    def _identify(self, series: Numbers) -> int:
        """The layout of these series."""
        layouts = self.store.writer.layouts
        return LayoutWriter(self.store.connection).identify([layouts.keys[number] for number in series.tolist()])

    def _grouping(self, series: Numbers) -> NDArray[np.uint32]:
        """The chunk of each of these series."""
        known = self._groupings.get(series.tobytes())
        if known is None:
            if len(self._groupings) >= _GROUPINGS_KEPT:
                self._groupings.clear()
            known = chunks_of([self.store.writer.layouts.keys[number] for number in series.tolist()])
            self._groupings[series.tobytes()] = known
        return known
