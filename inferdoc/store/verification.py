"""Reading every scrape of a store, to see which are damaged."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.store.damage import Damage, DamageLog
from inferdoc.store.faults import guarded
from inferdoc.store.pages import EARLIEST_MS
from inferdoc.store.reader import Reader
from inferdoc.store.schema import FORMAT_WITH_CHUNKS, check_format, check_tables, transaction
from inferdoc.store.stretches import HOUR_MS

_LAST_MS = 2**63 - 1


@dataclass(frozen=True)
class Verified:
    """scrapes: how many are whole; damages: what is not."""

    scrapes: int
    damages: list[Damage]


def verify(store: Reader) -> Verified:
    """Read every scrape of the store, an hour of a target at a time.

    Raises StoreError where the tables themselves cannot be read.
    """
    connection = store.connection
    scrapes = 0
    before, store.damages = store.damages, DamageLog()
    try:
        with guarded(store.path, "read"), transaction(connection, "DEFERRED"):
            check_tables(connection, store.path)
            store.types()
            hours = "SELECT DISTINCT ts_ms / ?1 FROM page WHERE target = ?2"
            if check_format(connection, store.path) >= FORMAT_WITH_CHUNKS:
                hours += " UNION SELECT start_ms / ?1 FROM stretch WHERE target = ?2"
            for owner, labels in store.owners():
                for (hour,) in connection.execute(f"{hours} ORDER BY 1", (HOUR_MS, owner.id)).fetchall():
                    first_ms = max(hour * HOUR_MS - (HOUR_MS if hour < 0 else 0), EARLIEST_MS)
                    for block in store.blocks(first_ms, min(first_ms + HOUR_MS - 1, _LAST_MS), None, labels.__eq__):
                        scrapes += len(block.times_ms)
        return Verified(scrapes, list(store.damages.found.values()))
    finally:
        store.damages = before
