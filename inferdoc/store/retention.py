"""Dropping the oldest scrapes, by age and by size."""

from __future__ import annotations

import time
from dataclasses import dataclass

from inferdoc.store.chain import cut_after
from inferdoc.store.codec import DamagedError
from inferdoc.store.schema import damaged, guarded, transaction
from inferdoc.store.store import Store

_SLOTS = 256
_PASSES = 8
_ROW_BYTES = 40
"""What a row of `page` and its index entry take beside the body."""
_VACUUM_PAGES = 4096
_NOT_A_BASE = "SELECT id FROM layout WHERE id NOT IN (SELECT base FROM layout WHERE base IS NOT NULL)"


@dataclass
class Pruned:
    """pages: scrapes dropped; first_ms: nothing older is kept (None: nothing was dropped); bytes: size now."""

    pages: int
    first_ms: int | None
    bytes: int


def prune(
    store: Store, max_age_ms: int | None = None, max_bytes: int | None = None, now_ms: int | None = None
) -> Pruned:
    """Drop what is older than `max_age_ms`, then the oldest until the store is no larger than `max_bytes`, and give the
    space back to the file system.

    Age counts back from now or from the newest sample, whichever is earlier: an imported recording of last year is not
    dropped at once, and one sample with a clock in the future does not drop everything. The newest scrapes always
    stay, however small `max_bytes`. Not to be called inside a `round`. Raises StoreError.
    """
    connection = store.connection
    pages, cutoff = 0, None
    with guarded(store.path, "write"):
        store.writer.forget()
        newest = store.latest_ms()
        if newest is not None and max_age_ms is not None:
            now = int(time.time() * 1000) if now_ms is None else now_ms
            cutoff = min(now, newest) - max_age_ms
            pages += _drop_before(store, cutoff)
        if newest is not None and max_bytes is not None:
            for _ in range(_PASSES):
                before = _slot_to_keep(store, newest, _used_bytes(store) - max_bytes)
                if before is None:
                    break
                cutoff = before
                pages += _drop_before(store, before)
                _drop_unused(store)
        if pages:
            _drop_unused(store)
            while int(connection.execute("PRAGMA freelist_count").fetchone()[0]):
                connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        store.writer.forget()
    return Pruned(pages, cutoff if pages else None, _used_bytes(store))


def _drop_before(store: Store, cutoff_ms: int) -> int:
    """Delete the pages before the cutoff, a target at a time; chains that cross it begin anew behind it."""
    connection = store.connection
    dropped = 0
    for (target,) in connection.execute("SELECT id FROM target").fetchall():
        try:
            with transaction(connection, "IMMEDIATE"):
                layouts = connection.execute(
                    "SELECT DISTINCT layout FROM page WHERE target = ? AND ts_ms < ?", (target, cutoff_ms)
                ).fetchall()
                for (layout,) in layouts:
                    cut_after(connection, store.layouts, target, layout, cutoff_ms - 1)
                gone = connection.execute("DELETE FROM page WHERE target = ? AND ts_ms < ?", (target, cutoff_ms))
                dropped += gone.rowcount
        except DamagedError as error:
            raise damaged(store.path, str(error)) from error
    return dropped


def _slot_to_keep(store: Store, newest_ms: int, excess_bytes: int) -> int | None:
    """The time before which some `excess_bytes` of pages lie; None if nothing is to be dropped, or no more can be."""
    first_ms = store.first_ms()
    if excess_bytes <= 0 or first_ms is None or first_ms >= newest_ms:
        return None
    slot_ms = (newest_ms - first_ms) // _SLOTS + 1
    sizes = store.connection.execute(
        "SELECT (ts_ms - ?) / ? AS slot, sum(length(body)) + count(*) * ? FROM page GROUP BY slot ORDER BY slot",
        (first_ms, slot_ms, _ROW_BYTES),
    ).fetchall()
    for slot, size in sizes:
        excess_bytes -= size
        if excess_bytes <= 0:
            return int(min(first_ms + (slot + 1) * slot_ms, newest_ms))
    return newest_ms


def _drop_unused(store: Store) -> None:
    """Delete targets without pages, and layouts that no page and no other layout uses.

    Looks for each layout from the newest page back, so that only layouts really unused cost a look at every page.
    """
    connection = store.connection
    with transaction(connection, "IMMEDIATE"):
        connection.execute("DELETE FROM target WHERE NOT EXISTS (SELECT 1 FROM page WHERE target = target.id)")
        unused = {row[0] for row in connection.execute(_NOT_A_BASE)}
        for (layout,) in connection.execute("SELECT layout FROM page ORDER BY rowid DESC"):
            unused.discard(layout)
            if not unused:
                break
        connection.executemany("DELETE FROM layout WHERE id = ?", [(layout,) for layout in unused])


def _used_bytes(store: Store) -> int:
    read = {
        name: int(store.connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    }
    return (read["page_count"] - read["freelist_count"]) * read["page_size"]
