"""Dropping the oldest scrapes, by age and by size."""

from __future__ import annotations

import time
from dataclasses import dataclass

from inferdoc.store.chain import cut_after
from inferdoc.store.codec import DamagedError
from inferdoc.store.faults import damaged, guarded
from inferdoc.store.schema import transaction
from inferdoc.store.seal import owners
from inferdoc.store.space import give_back, used_bytes
from inferdoc.store.store import Store
from inferdoc.store.stretches import delete_stretch, layout_ids

_SLOTS = 256
_PASSES = 8
_ROW_BYTES = 40
"""What a row of `page` and its index entry take beside the body."""
_NOT_A_BASE = "SELECT id FROM layout WHERE id NOT IN (SELECT base FROM layout WHERE base IS NOT NULL)"


@dataclass
class Pruned:
    """pages: scrapes dropped; stretches: of hours in column chunks dropped; first_ms: nothing older is kept (None:
    nothing was dropped); bytes: size now."""

    pages: int
    stretches: int
    first_ms: int | None
    bytes: int


def prune(
    store: Store, max_age_ms: int | None = None, max_bytes: int | None = None, now_ms: int | None = None
) -> Pruned:
    """Drop what is older than `max_age_ms`, then the oldest until the store is no larger than `max_bytes`, and give the
    space back to the file system.

    Age counts back from now or from the newest sample, whichever is earlier: an imported recording of last year is not
    dropped at once, and one sample with a clock in the future does not drop everything. The newest scrapes always
    stay, however small `max_bytes`. An hour in column chunks that crosses the limit stays whole until all of it is
    beyond. Not to be called inside a `round`. Raises StoreError.
    """
    connection = store.connection
    pages = stretches = 0
    cutoff = None
    with guarded(store.path, "write"):
        store.writer.forget()
        newest = store.latest_ms()
        if newest is not None and max_age_ms is not None:
            now = int(time.time() * 1000) if now_ms is None else now_ms
            cutoff = min(now, newest) - max_age_ms
            pages, stretches = _drop_before(store, cutoff)
        if newest is not None and max_bytes is not None:
            for _ in range(_PASSES):
                before = _slot_to_keep(store, newest, used_bytes(connection) - max_bytes)
                if before is None:
                    break
                cutoff = before
                more_pages, more_stretches = _drop_before(store, before)
                pages, stretches = pages + more_pages, stretches + more_stretches
                _drop_unused(store)
        if pages or stretches:
            _drop_unused(store)
            give_back(connection)
        store.writer.forget()
    first_ms = store.first_ms() if pages or stretches else None
    if first_ms is not None and cutoff is not None:
        first_ms = min(first_ms, cutoff)
    return Pruned(pages, stretches, first_ms, used_bytes(connection))


def _drop_before(store: Store, cutoff_ms: int) -> tuple[int, int]:
    """Delete the pages and stretches before the cutoff, a target at a time; chains that cross it begin anew behind it.

    Returns how many pages and how many stretches.
    """
    connection = store.connection
    pages = stretches = 0
    for owner in owners(connection):
        try:
            with transaction(connection, "IMMEDIATE"):
                layouts = connection.execute(
                    "SELECT DISTINCT layout FROM page WHERE target = ? AND ts_ms < ?", (owner.id, cutoff_ms)
                ).fetchall()
                for (layout,) in layouts:
                    cut_after(connection, store.layouts, owner, layout, cutoff_ms - 1)
                gone = connection.execute("DELETE FROM page WHERE target = ? AND ts_ms < ?", (owner.id, cutoff_ms))
                old = "SELECT id FROM stretch WHERE target = ? AND start_ms < ? AND end_ms < ?"
                ended = connection.execute(old, (owner.id, cutoff_ms, cutoff_ms)).fetchall()
                for (stretch,) in ended:
                    delete_stretch(connection, stretch)
                pages, stretches = pages + gone.rowcount, stretches + len(ended)
        except DamagedError as error:
            raise damaged(store.path, str(error)) from error
    return pages, stretches


def _slot_to_keep(store: Store, newest_ms: int, excess_bytes: int) -> int | None:
    """The time before which some `excess_bytes` lie; None if nothing is to be dropped, or no more can be."""
    first_ms = store.first_ms()
    if excess_bytes <= 0 or first_ms is None or first_ms >= newest_ms:
        return None
    slot_ms = (newest_ms - first_ms) // _SLOTS + 1
    sizes = store.connection.execute(
        "SELECT (ts_ms - ?) / ? AS slot, sum(size) FROM (SELECT ts_ms, length(body) + ? AS size FROM page"
        " UNION ALL SELECT end_ms, bytes FROM stretch) GROUP BY slot ORDER BY slot",
        (first_ms, slot_ms, _ROW_BYTES),
    ).fetchall()
    for slot, size in sizes:
        excess_bytes -= size
        if excess_bytes <= 0:
            return int(min(first_ms + (slot + 1) * slot_ms, newest_ms))
    return newest_ms


def _drop_unused(store: Store) -> None:
    """Delete targets that have nothing, and layouts that no page, stretch or other layout uses.

    Looks for each layout from the newest back, so that only layouts really unused cost a look at all of them.
    """
    connection = store.connection
    with transaction(connection, "IMMEDIATE"):
        connection.execute(
            "DELETE FROM target WHERE NOT EXISTS (SELECT 1 FROM page WHERE target = target.id)"
            " AND NOT EXISTS (SELECT 1 FROM stretch WHERE target = target.id)"
        )
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
