"""Compaction: the pages of hours gone by become column chunks.

An hour of a target at a time: its pages, and the stretches that it has already when pages came late, become new
stretches, in the transaction that drops the old ones. So a crash leaves each hour as it was or compacted, never half,
and readers see the one or the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.chain import EARLIEST_MS, chain_start, cut_after
from inferdoc.store.chunks import unpack_chunk
from inferdoc.store.codec import DamagedError, unpack
from inferdoc.store.grouping import chunks_of
from inferdoc.store.layouts import LayoutWriter, Numbers
from inferdoc.store.rows import NOTHING, fetch
from inferdoc.store.schema import damaged, guarded, transaction
from inferdoc.store.scrapes import LayoutScrapes, one_per_time, parts, stretch_of
from inferdoc.store.space import free_bytes, give_back, used_bytes
from inferdoc.store.store import Store
from inferdoc.store.stretches import (
    CHUNKS_PER_STRETCH,
    HOUR_MS,
    Stretch,
    delete_stretch,
    insert_stretch,
    overlapping,
)

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
    """Turn the scrapes of every hour before the one of `now_ms` (default: the clock) into column chunks.

    seconds: stop after about so long, and leave the rest to the next call. Not to be called inside a `round`. Raises
    StoreError; the store then still holds all that it held, and is readable.
    """
    began = time.monotonic()
    now = int(time.time() * 1000) if now_ms is None else now_ms
    done = Compacted()
    with guarded(store.path, "write"):
        store.writer.forget()
        try:
            _Compaction(store, now // HOUR_MS * HOUR_MS, None if seconds is None else began + seconds).run(done)
        except DamagedError as error:
            raise damaged(store.path, str(error)) from error
        finally:
            store.writer.forget()
        if done.pages and free_bytes(store.connection) > _MOST_FREE * used_bytes(store.connection):
            give_back(store.connection)
    done.seconds = time.monotonic() - began
    return done


@dataclass
class _Compaction:
    """One run. cutoff_ms: the first moment that stays in pages; until: when to stop, by the monotonic clock."""

    store: Store
    cutoff_ms: int
    until: float | None
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
                while unit is not None and samples < _COMMIT_SAMPLES:
                    scrapes = self._hour(*unit)
                    pages += sum(len(each.times_ms) for each in scrapes)
                    samples += sum(each.values.size for each in scrapes)
                    unit = next(work, None)
            done.pages += pages
            done.samples += samples

    def _hours(self) -> Iterator[tuple[int, int]]:
        """Every target with the beginning of each hour before the cutoff in which it has pages, the latest first: a
        page whose chain began in the hour is then found at once behind it."""
        connection = self.store.connection
        query = "SELECT max(ts_ms) FROM page WHERE target = ? AND ts_ms < ?"
        for (target,) in fetch(connection, "SELECT id FROM target ORDER BY id", (), int):
            hour_ms = self.cutoff_ms
            while hour_ms > EARLIEST_MS:
                ((last_ms,),) = fetch(connection, query, (target, hour_ms), (int, NOTHING))
                if last_ms is None:
                    break
                hour_ms = last_ms // HOUR_MS * HOUR_MS
                yield target, hour_ms

    def _hour(self, target: int, hour_ms: int) -> list[LayoutScrapes]:
        """Compact an hour of a target. Returns what its pages were."""
        connection, layouts = self.store.connection, self.store.layouts
        between = (target, max(hour_ms, EARLIEST_MS), hour_ms + HOUR_MS - 1)
        pages = self._pages(*between)
        old = overlapping(connection, *between)
        whole = [part for stretch in old for part in self._scrapes(stretch)] + pages
        if not pages:
            raise DamagedError("a page is missing")
        for each in pages:
            cut_after(connection, layouts, target, each.layout, between[2])
        # Dropped first, so that the chunks fill the room of the pages and the file need not grow.
        connection.execute("DELETE FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ?", between)
        for stretch in old:
            delete_stretch(connection, stretch.id)
        for part in parts(one_per_time(whole, layouts, self._identify), layouts):
            insert_stretch(connection, target, *stretch_of(part, layouts, self._grouping))
        return pages

    def _pages(self, target: int, first_ms: int, last_ms: int) -> list[LayoutScrapes]:
        connection = self.store.connection
        # SQLite takes the bare column back_ms from the row that min() found (https://sqlite.org/lang_select.html).
        query = (
            "SELECT layout, min(ts_ms), back_ms FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? GROUP BY layout"
        )
        chain = (
            "SELECT ts_ms, back_ms, body FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? AND layout = ?"
            " ORDER BY ts_ms"
        )
        found = []
        for layout, start_ms, back_ms in fetch(connection, query, (target, first_ms, last_ms), int, int, int):
            window = (target, chain_start(start_ms, back_ms), last_ms, layout)
            rows = fetch(connection, chain, window, int, int, bytes)
            complete = np.array([row[1] == 0 for row in rows], bool)
            values = unpack([row[2] for row in rows], complete, len(self.store.layouts.series(layout)), None)
            times_ms = np.array([row[0] for row in rows], np.int64)
            inside = times_ms >= first_ms
            found.append(LayoutScrapes(layout, times_ms[inside], values.T[inside]))
        return found

    def _scrapes(self, stretch: Stretch) -> list[LayoutScrapes]:
        """What a stretch holds, as the scrapes it was made of."""
        layouts = self.store.layouts
        series = stretch.series(layouts)
        values = np.empty((len(series), len(stretch.times_ms)), np.uint64)
        first = stretch.id * CHUNKS_PER_STRETCH
        query = "SELECT id, body FROM chunk WHERE id >= ? AND id < ? ORDER BY id"
        bodies = fetch(self.store.connection, query, (first, first + CHUNKS_PER_STRETCH), int, bytes)
        if [row[0] - first for row in bodies] != np.unique(stretch.chunk_of).tolist():
            raise DamagedError("a stretch has lost chunks")
        for number, body in bodies:
            places = np.flatnonzero(stretch.chunk_of == number - first)
            values[places] = unpack_chunk(body, len(places), values.shape[1], np.arange(len(places)))
        column_of = np.zeros(len(layouts.keys), np.intp)
        column_of[series] = np.arange(len(series))
        found = []
        for place, layout in enumerate(stretch.layouts):
            rows = np.flatnonzero(stretch.layout_of == place)
            columns = column_of[layouts.series(layout)]
            found.append(LayoutScrapes(layout, stretch.times_ms[rows], values[np.ix_(columns, rows)].T))
        return found

    def _identify(self, series: Numbers) -> int:
        """The layout of these series."""
        layouts = self.store.layouts
        return LayoutWriter(self.store.connection).identify([layouts.keys[number] for number in series.tolist()])

    def _grouping(self, series: Numbers) -> NDArray[np.uint32]:
        """The chunk of each of these series."""
        known = self._groupings.get(series.tobytes())
        if known is None:
            if len(self._groupings) >= _GROUPINGS_KEPT:
                self._groupings.clear()
            known = chunks_of([self.store.layouts.keys[number] for number in series.tolist()])
            self._groupings[series.tobytes()] = known
        return known
