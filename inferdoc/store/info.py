"""What a store contains: how much of which origin, from when to when, and what of it is damaged."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from inferdoc.store.codec import DamagedError
from inferdoc.store.damage import Damage, DamageLog
from inferdoc.store.faults import damaged, guarded
from inferdoc.store.origin import apart_from, imported_spans
from inferdoc.store.pages import EARLIEST_MS
from inferdoc.store.reader import Reader
from inferdoc.store.retention import ROW_BYTES
from inferdoc.store.rows import NOTHING, fetch
from inferdoc.store.schema import FORMAT_WITH_CHUNKS, FORMAT_WITH_ORIGIN, check_format, check_tables, transaction
from inferdoc.store.seal import Owner, owners
from inferdoc.store.segments import HOUR_MS, segments_inside
from inferdoc.store.space import free_bytes, used_bytes

_LAST_MS = 2**63 - 1


@dataclass
class Holding:
    """Scrapes of one origin: of how many targets, how many, their bytes, and the first and last time in ms."""

    targets: int = 0
    scrapes: int = 0
    bytes: int = 0
    first_ms: int | None = None
    last_ms: int | None = None

    def add(self, scrapes: int, size: int, first_ms: int, last_ms: int) -> None:
        """Count some more of the same target."""
        self.scrapes += scrapes
        self.bytes += size
        self.first_ms = first_ms if self.first_ms is None else min(self.first_ms, first_ms)
        self.last_ms = last_ms if self.last_ms is None else max(self.last_ms, last_ms)


@dataclass
class Inventory:
    """What a store holds. bytes: of its data; free_bytes: of the file that hold nothing now; log_bytes: of the
    write-ahead log beside it; series: distinct label sets; imported: also what is older than format 3, which does not
    tell."""

    path: str
    format: int
    bytes: int
    free_bytes: int
    log_bytes: int
    targets: int
    series: int
    samples: int
    collected: Holding
    imported: Holding

    def document(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return asdict(self)


def inventory(store: Reader) -> Inventory:
    """Look through a store. Raises StoreError."""
    connection = store.connection
    with guarded(store.path, "read"), transaction(connection, "DEFERRED"):
        version = check_format(connection, store.path)
        collected, imported = Holding(), Holding()
        try:
            every = owners(connection)
            for owner in every:
                _add(store, owner, version, collected, imported)
        except DamagedError as error:
            raise damaged(store.path, str(error)) from error
        samples = sum(store.sample_counts(EARLIEST_MS, _LAST_MS).values())
        log = store.path.with_name(store.path.name + "-wal")
        return Inventory(
            str(store.path),
            version,
            used_bytes(connection),
            free_bytes(connection),
            log.stat().st_size if log.exists() else 0,
            len(every),
            len(store.layouts.keys),
            samples,
            collected,
            imported,
        )


def _add(store: Reader, owner: Owner, version: int, collected: Holding, imported: Holding) -> None:
    """Count what a target has."""
    spans = imported_spans(store.connection, owner) if version >= FORMAT_WITH_ORIGIN else [(EARLIEST_MS, _LAST_MS)]
    own = {False: Holding(targets=1), True: Holding(targets=1)}
    query = "SELECT count(*), sum(length(body) + ?), min(ts_ms), max(ts_ms) FROM page WHERE target = ? AND ts_ms"
    kinds = (int, (int, NOTHING), (int, NOTHING), (int, NOTHING))
    for kept, intervals in ((True, spans), (False, apart_from(spans, _LAST_MS))):
        for first_ms, last_ms in intervals:
            values = (ROW_BYTES, owner.id, first_ms, last_ms)
            ((scrapes, *rest),) = fetch(store.connection, f"{query} BETWEEN ? AND ?", values, *kinds)
            if scrapes:
                own[kept].add(scrapes, *rest)
    if version >= FORMAT_WITH_CHUNKS:
        for segment, size in segments_inside(store.connection, owner, EARLIEST_MS, _LAST_MS):
            first_ms, last_ms = int(segment.times_ms[0]), int(segment.times_ms[-1])
            kept = any(start <= last_ms and first_ms <= end for start, end in spans)
            own[kept].add(len(segment.times_ms), size, first_ms, last_ms)
    for share, part in ((imported, own[True]), (collected, own[False])):
        if part.scrapes and part.first_ms is not None and part.last_ms is not None:
            share.targets += 1
            share.add(part.scrapes, part.bytes, part.first_ms, part.last_ms)


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
