"""What was imported, so that retention leaves it alone.

Spans of time of a target. Scrapes that were collected inside such a span are kept with it.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib

from inferdoc.store.codec import DamagedError
from inferdoc.store.pages import EARLIEST_MS
from inferdoc.store.rows import fetch
from inferdoc.store.seal import Owner, owners

Span = tuple[int, int]
"""[start, end], milliseconds since 1970 UTC."""

HOUR_MS = 3_600_000
_SPAN = struct.Struct("<qqq")


def imported_spans(connection: sqlite3.Connection, owner: Owner) -> list[Span]:
    """The spans of a target, in order of time, apart from each other. Raises DamagedError."""
    query = "SELECT start_ms, end_ms, seal FROM imported WHERE target = ? ORDER BY start_ms"
    spans = []
    for start_ms, end_ms, check in fetch(connection, query, (owner.id,), int, int, int):
        if check != _check(owner, (start_ms, end_ms)):
            raise DamagedError("what it knows of imported scrapes is damaged: a checksum does not match")
        spans.append((start_ms, end_ms))
    return spans


def apart_from(spans: list[Span], cutoff_ms: int) -> list[Span]:
    """The time before the cutoff, without the spans (in order, apart from each other)."""
    intervals = []
    begin = EARLIEST_MS
    for start, end in spans:
        if begin < min(start, cutoff_ms):
            intervals.append((begin, min(start, cutoff_ms) - 1))
        begin = max(begin, end + 1)
    if begin < cutoff_ms:
        intervals.append((begin, cutoff_ms - 1))
    return intervals


def mark_imported(connection: sqlite3.Connection, owner: Owner, span: Span) -> None:
    """Add a span; it becomes one with those less than an hour away."""
    start_ms, end_ms = span
    apart = []
    for other in imported_spans(connection, owner):
        if other[1] < start_ms - HOUR_MS or end_ms + HOUR_MS < other[0]:
            apart.append(other)
        else:
            start_ms, end_ms = min(start_ms, other[0]), max(end_ms, other[1])
    _replace(connection, owner, sorted([*apart, (start_ms, end_ms)]))


def unmark_before(connection: sqlite3.Connection, owner: Owner, cutoff_ms: int) -> None:
    """Forget spans before a time, since their scrapes are dropped."""
    spans = imported_spans(connection, owner)
    _replace(connection, owner, [(max(start, cutoff_ms), end) for start, end in spans if end >= cutoff_ms])


def keep_all(connection: sqlite3.Connection) -> None:
    """Mark everything in a store: its format did not record what was imported."""
    query = (
        "SELECT min(first), max(last) FROM (SELECT min(ts_ms) AS first, max(ts_ms) AS last FROM page WHERE target = ?1"
        " UNION ALL SELECT min(start_ms), max(end_ms) FROM stretch WHERE target = ?1)"
    )
    for owner in owners(connection):
        for first_ms, last_ms in connection.execute(query, (owner.id,)).fetchall():
            if first_ms is not None:
                mark_imported(connection, owner, (first_ms, last_ms))


def _replace(connection: sqlite3.Connection, owner: Owner, spans: list[Span]) -> None:
    connection.execute("DELETE FROM imported WHERE target = ?", (owner.id,))
    connection.executemany(
        "INSERT INTO imported (target, start_ms, end_ms, seal) VALUES (?, ?, ?, ?)",
        [(owner.id, *span, _check(owner, span)) for span in spans],
    )


def _check(owner: Owner, span: Span) -> int:
    return zlib.crc32(_SPAN.pack(owner.seal, *span))
