"""Dropping the oldest scrapes, by age and by size; never what was imported, unless that is requested."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass, field

from inferdoc.store.codec import DamagedError
from inferdoc.store.faults import damaged, guarded
from inferdoc.store.origin import Span, apart_from, imported_spans, unmark_before
from inferdoc.store.pages import cut_after
from inferdoc.store.reader import Reader
from inferdoc.store.rows import NOTHING, fetch
from inferdoc.store.schema import FORMAT_WITH_ORIGIN, check_format, transaction
from inferdoc.store.seal import Owner, owners
from inferdoc.store.segments import delete_segment, layout_ids, segments_inside
from inferdoc.store.space import give_back, used_bytes
from inferdoc.store.store import Store

_SLOTS = 256
_PASSES = 8
ROW_BYTES = 40
"""What a row of `page` and its index entry take beside the body."""
_PACE_SLACK_MS = 3_600_000
_NOT_A_BASE = "SELECT id FROM layout WHERE id NOT IN (SELECT base FROM layout WHERE base IS NOT NULL)"


@dataclass
class Pruned:
    """What went, or would go. scrapes: how many; targets: of how many targets; first_ms, last_ms: their oldest and
    newest time (None: nothing); freed: bytes they took; bytes: size of the data now (before, where nothing was done);
    over: bytes beyond the limit that could not go, because they are imported or newest."""

    scrapes: int = 0
    targets: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    freed: int = 0
    bytes: int = 0
    over: int = 0

    def add(self, other: Pruned) -> None:
        """Count a further round of dropping."""
        self.scrapes += other.scrapes
        self.targets = max(self.targets, other.targets)
        self.freed += other.freed
        times = [each for each in (self.first_ms, self.last_ms, other.first_ms, other.last_ms) if each is not None]
        self.first_ms, self.last_ms = (min(times), max(times)) if times else (None, None)


@dataclass(frozen=True)
class _Cut:
    """What goes of a target: whole intervals of time (pages), and segments that lie in them."""

    owner: Owner
    intervals: list[Span]
    pages: int
    bytes: int
    first_ms: int
    last_ms: int
    segments: list[tuple[int, int]] = field(default_factory=list)
    """Number and scrapes of each."""


class Keeper:
    """The retention of a running collector.

    Age counts back from the newest sample, but that may move on only as fast as time passes while the collector runs:
    a clock that jumps ahead, and samples stamped by it, do not make everything else old.
    """

    def __init__(self, max_age_ms: int | None = None, max_bytes: int | None = None) -> None:
        self._max_age_ms, self._max_bytes = max_age_ms, max_bytes
        self._started: tuple[int, float] | None = None

    def prune(self, store: Store, now_ms: int | None = None, running_s: float | None = None) -> Pruned:
        """Drop what is too old or too much now. now_ms, running_s: the clocks, for tests."""
        now = int(time.time() * 1000) if now_ms is None else now_ms
        running = time.monotonic() if running_s is None else running_s
        newest = store.newest_ms()
        if newest is None:
            return Pruned(bytes=used_bytes(store.connection))
        if self._started is None:
            self._started = min(now, newest), running
        started_ms, started = self._started
        pace = started_ms + int((running - started) * 1000) + _PACE_SLACK_MS
        return prune(store, self._max_age_ms, self._max_bytes, now_ms=min(now, pace))


def prune(
    store: Store,
    max_age_ms: int | None = None,
    max_bytes: int | None = None,
    now_ms: int | None = None,
    imported: bool = False,
) -> Pruned:
    """Drop what is older than `max_age_ms`, then the oldest until the store is no larger than `max_bytes`, and give the
    space back to the file system.

    imported: also what was imported; else that stays, whatever its age and size. Age counts back from now or from the
    newest sample, whichever is earlier: one sample with a clock in the future does not drop everything. The newest
    scrapes always stay, however small `max_bytes`. An hour in column chunks that crosses the limit stays whole until
    all of it is beyond. Not to be called inside a `round`. Raises StoreError.
    """
    connection = store.connection
    done = Pruned()
    with guarded(store.path, "write"):
        store.writer.forget()
        newest = store.newest_ms()
        if newest is not None and max_age_ms is not None:
            done.add(_drop_before(store, _age_limit(newest, max_age_ms, now_ms), imported))
        if newest is not None and max_bytes is not None:
            for _ in range(_PASSES):
                before = _slot_to_keep(store, newest, used_bytes(connection) - max_bytes, imported)
                if before is None:
                    break
                dropped = _drop_before(store, before, imported)
                if not dropped.scrapes:
                    break
                done.add(dropped)
                _drop_unused(connection)
        if done.scrapes:
            _drop_unused(connection)
            give_back(connection)
        store.writer.forget()
    done.bytes = used_bytes(connection)
    done.over = 0 if max_bytes is None else max(0, done.bytes - max_bytes)
    return done


def would_prune(
    store: Reader,
    max_age_ms: int | None = None,
    max_bytes: int | None = None,
    now_ms: int | None = None,
    imported: bool = False,
) -> Pruned:
    """What `prune` would drop; of the size limit about so much. Changes nothing."""
    done = Pruned()
    with guarded(store.path, "read"), transaction(store.connection, "DEFERRED"):
        newest = store.newest_ms()
        done.bytes = used_bytes(store.connection)
        limits = []
        if check_format(store.connection, store.path) < FORMAT_WITH_ORIGIN and not imported:
            newest = None  # its format does not record what was imported: all of it stays
        if newest is not None and max_age_ms is not None:
            limits.append(_age_limit(newest, max_age_ms, now_ms))
        if newest is not None and max_bytes is not None:
            before = _slot_to_keep(store, newest, done.bytes - max_bytes, imported)
            limits += [] if before is None else [before]
        if limits:
            try:
                done.add(_counted(_cuts(store.connection, max(limits), imported)))
            except DamagedError as error:
                raise damaged(store.path, str(error)) from error
        done.over = 0 if max_bytes is None else max(0, done.bytes - done.freed - max_bytes)
    return done


def _age_limit(newest_ms: int, max_age_ms: int, now_ms: int | None) -> int:
    now = int(time.time() * 1000) if now_ms is None else now_ms
    return min(now, newest_ms) - max_age_ms


def _cuts(connection: sqlite3.Connection, cutoff_ms: int, imported: bool) -> list[_Cut]:
    """What goes of each target, where all before the cutoff goes but what is to be kept."""
    cuts = []
    sums = "SELECT count(*), sum(length(body) + ?), min(ts_ms), max(ts_ms) FROM page WHERE target = ? AND ts_ms"
    for owner in owners(connection):
        intervals = apart_from([] if imported else imported_spans(connection, owner), cutoff_ms)
        pages = size = 0
        times: list[int] = []
        segments: list[tuple[int, int]] = []
        for first_ms, last_ms in intervals:
            values = (ROW_BYTES, owner.id, first_ms, last_ms)
            kinds = (int, (int, NOTHING), (int, NOTHING), (int, NOTHING))
            ((count, taken, *edges),) = fetch(connection, f"{sums} BETWEEN ? AND ?", values, *kinds)
            if count:
                pages, size, times = pages + count, size + taken, times + edges
            for segment, taken in segments_inside(connection, owner, first_ms, last_ms):
                segments.append((segment.id, len(segment.times_ms)))
                size += taken
                times += [int(segment.times_ms[0]), int(segment.times_ms[-1])]
        if times:
            cuts.append(_Cut(owner, intervals, pages, size, min(times), max(times), segments))
    return cuts


def _counted(cuts: list[_Cut]) -> Pruned:
    if not cuts:
        return Pruned()
    scrapes = sum(cut.pages + sum(rows for _, rows in cut.segments) for cut in cuts)
    first_ms, last_ms = min(cut.first_ms for cut in cuts), max(cut.last_ms for cut in cuts)
    return Pruned(scrapes, len(cuts), first_ms, last_ms, sum(cut.bytes for cut in cuts))


def _drop_before(store: Store, cutoff_ms: int, imported: bool) -> Pruned:
    """Delete the pages and segments before the cutoff, a target at a time; chains that cross it begin anew."""
    connection = store.connection
    layouts = "SELECT DISTINCT layout FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ?"
    drop = "DELETE FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ?"
    try:
        cuts = _cuts(connection, cutoff_ms, imported)
        for cut in cuts:
            with transaction(connection, "IMMEDIATE"):
                for first_ms, last_ms in cut.intervals:
                    between = (cut.owner.id, first_ms, last_ms)
                    for (layout,) in connection.execute(layouts, between).fetchall():
                        cut_after(connection, store.writer.layouts, cut.owner, layout, last_ms)
                    connection.execute(drop, between)
                for segment, _ in cut.segments:
                    delete_segment(connection, segment)
                if imported:
                    unmark_before(connection, cut.owner, cutoff_ms)
    except DamagedError as error:
        raise damaged(store.path, str(error)) from error
    return _counted(cuts)


def _slot_to_keep(store: Reader, newest_ms: int, excess_bytes: int, imported: bool) -> int | None:
    """The time before which some `excess_bytes` lie that may go; None if none are to go, or no more can."""
    first_ms = store.first_ms()
    if excess_bytes <= 0 or first_ms is None or first_ms >= newest_ms:
        return None
    slot_ms = (newest_ms - first_ms) // _SLOTS + 1
    kept = (
        ""
        if imported
        else (
            " WHERE NOT EXISTS (SELECT 1 FROM imported WHERE imported.target = each.target"
            " AND each.ts_ms BETWEEN start_ms AND end_ms)"
        )
    )
    sizes = store.connection.execute(
        "SELECT (ts_ms - ?) / ? AS slot, sum(size) FROM (SELECT target, ts_ms, length(body) + ? AS size FROM page"
        f" UNION ALL SELECT target, end_ms, bytes FROM stretch) AS each{kept} GROUP BY slot ORDER BY slot",
        (first_ms, slot_ms, ROW_BYTES),
    ).fetchall()
    for slot, size in sizes:
        excess_bytes -= size
        if excess_bytes <= 0:
            return int(min(first_ms + (slot + 1) * slot_ms, newest_ms))
    return newest_ms


def _drop_unused(connection: sqlite3.Connection) -> None:
    """Delete targets that have nothing, and layouts that no page, segment or other layout uses.

    Looks for each layout from the newest back, so that only layouts really unused cost a look at all of them.
    """
    with transaction(connection, "IMMEDIATE"):
        connection.execute(
            "DELETE FROM target WHERE NOT EXISTS (SELECT 1 FROM page WHERE target = target.id)"
            " AND NOT EXISTS (SELECT 1 FROM stretch WHERE target = target.id)"
        )
        connection.execute("DELETE FROM imported WHERE target NOT IN (SELECT id FROM target)")
        unused = {row[0] for row in connection.execute(_NOT_A_BASE)}
        for (layout,) in connection.execute("SELECT layout FROM page ORDER BY rowid DESC"):
            unused.discard(layout)
            if not unused:
                break
        seen: set[bytes] = set()
        for (blob,) in connection.execute("SELECT layouts FROM stretch ORDER BY id DESC") if unused else ():
            if blob not in seen:
                seen.add(blob)
                unused.difference_update(layout_ids(blob))
            if not unused:
                break
        connection.executemany("DELETE FROM layout WHERE id = ?", [(layout,) for layout in unused])
