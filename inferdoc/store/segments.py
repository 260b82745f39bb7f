"""What is known of a segment of compacted scrapes without reading its chunks: times, layouts, which series are where.

A segment is what one target has in one hour, or a part of that: scrapes that follow each other. Its columns are the
series of all its layouts, in the order in which they first appear. A column has a value in every row; where the series
was not on that page, it is whatever compresses best, and the layout of the row shows that it is not one.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.chunks import from_planes, inflate, to_planes
from inferdoc.store.codec import DamagedError
from inferdoc.store.layouts import LayoutTable, Numbers
from inferdoc.store.pages import EARLIEST_MS
from inferdoc.store.rows import WRONG_TYPE, fetch, fetch_typed, is_typed
from inferdoc.store.seal import Owner, seal, unseal

HOUR_MS = 3_600_000
CHUNKS_PER_SEGMENT = 1 << 20
"""A chunk's id is that of its segment times this, plus its number."""

_COUNTS = struct.Struct("<II")
_PLACE = struct.Struct("<qqq")
_STEP = np.dtype("<i4")
_NUMBER = np.dtype("<u4")
_LAYOUT_ID = np.dtype("<i8")
_LEVEL = 9
_UNPACKED = 4096
"""Segments that stay unpacked (up to 40 MB): those of a diagnosis of 512 pods, which reads each of them four times."""
_COLUMNS = "id, start_ms, end_ms, layouts, body"
_KINDS = (int, int, int, bytes, bytes)
_BEGINNING = f"SELECT {_COLUMNS} FROM stretch WHERE target = ? AND start_ms BETWEEN ? AND ? ORDER BY start_ms"
_AT = f"SELECT {_COLUMNS} FROM stretch WHERE target = ? AND start_ms BETWEEN ? AND ? ORDER BY start_ms DESC LIMIT 1"


@dataclass(frozen=True)
class Segment:
    """id: in the file; times_ms: int64[rows], ascending; layouts: ids in the order in which they first appear;
    layout_of: uint32[rows], the place of each row's layout among them; chunk_of: uint32[columns], the number of the
    chunk that each column is in."""

    id: int
    times_ms: NDArray[np.int64]
    layouts: tuple[int, ...]
    layout_of: NDArray[np.uint32]
    chunk_of: NDArray[np.uint32]

    def series(self, layouts: LayoutTable) -> Numbers:
        """int64[columns]: number of the series of each column."""
        columns = union([layouts.series(layout) for layout in self.layouts])
        if len(columns) != len(self.chunk_of):
            raise DamagedError("a segment does not fit its layouts")
        return columns

    def rows(self, start_ms: int, end_ms: int) -> slice:
        """The rows in [start_ms, end_ms]."""
        times_ms = self.times_ms
        if start_ms <= times_ms[0] and times_ms[-1] <= end_ms:
            return slice(0, len(times_ms))
        return slice(int(np.searchsorted(times_ms, start_ms)), int(np.searchsorted(times_ms, end_ms, "right")))

    def layouts_in(self, rows: slice) -> list[int]:
        """The layouts of these rows."""
        if len(self.layouts) == 1:
            return list(self.layouts)
        return [self.layouts[place] for place in np.unique(self.layout_of[rows]).tolist()]

    def layout_at(self, ts_ms: int) -> int | None:
        """The layout of the scrape at this very time; None if there is none."""
        row = int(np.searchsorted(self.times_ms, ts_ms))
        if row == len(self.times_ms) or self.times_ms[row] != ts_ms:
            return None
        return self.layouts[int(self.layout_of[row])]


def union(layouts: list[Numbers]) -> Numbers:
    """The series of all the layouts, each once, in the order in which they first appear."""
    if len(layouts) == 1:
        return layouts[0]
    together = np.concatenate(layouts)
    _, first = np.unique(together, return_index=True)
    columns: Numbers = together[np.sort(first)]
    return columns


def overlapping(
    connection: sqlite3.Connection,
    owner: Owner,
    start_ms: int,
    end_ms: int,
    note: Callable[[int, int, DamagedError], None] | None = None,
) -> list[Segment]:
    """The segments of a target with a scrape in or around [start_ms, end_ms], in order of time.

    note: gets begin and end of each that is damaged and left out; without it the first one raises DamagedError.
    """
    earliest = max(start_ms - HOUR_MS, EARLIEST_MS)
    rows, others = fetch_typed(connection, _BEGINNING, (owner.id, earliest, end_ms), *_KINDS)
    if others:
        if note is None:
            raise DamagedError(WRONG_TYPE)
        note(start_ms, end_ms, DamagedError(WRONG_TYPE))
    found = []
    for row in rows:
        try:
            if row[2] >= start_ms:
                found.append(_unpack(owner, *row))
            else:  # no index holds the end, so only the checksum shows whether it is what was written
                _sealed(owner, *row[1:])
        except DamagedError as error:
            if note is None:
                raise
            note(row[1], row[2] if row[1] <= row[2] else row[1] + HOUR_MS - 1, error)
    for before, after in pairwise(found):
        if after.times_ms[0] <= before.times_ms[-1]:
            raise DamagedError("segments of a target overlap")
    return found


def plain_spans(
    connection: sqlite3.Connection, owner: Owner, start_ms: int, end_ms: int
) -> list[tuple[int, int, int]] | None:
    """Layout, first and last time of the segments of a target in [start_ms, end_ms], where each has one layout and
    lies wholly inside; None where one does not, and has to be unpacked for that."""
    query = "SELECT start_ms, end_ms, layouts FROM stretch WHERE target = ? AND start_ms BETWEEN ? AND ?"
    rows = fetch_typed(connection, query, (owner.id, max(start_ms - HOUR_MS, EARLIEST_MS), end_ms), int, int, bytes)[0]
    found = []
    for first, last, layouts in rows:
        if len(layouts) != _LAYOUT_ID.itemsize or not start_ms <= first <= last <= end_ms:
            if first <= last < start_ms:
                continue
            return None
        found.append((layout_ids(layouts)[0], first, last))
    return found


def segments_inside(
    connection: sqlite3.Connection, owner: Owner, start_ms: int, end_ms: int
) -> Iterator[tuple[Segment, int]]:
    """The segments of a target that lie wholly in [start_ms, end_ms], and the bytes of each."""
    query = f"SELECT {_COLUMNS}, bytes FROM stretch WHERE target = ? AND start_ms BETWEEN ? AND ? AND end_ms <= ?"
    for *row, size in fetch(connection, query, (owner.id, start_ms, end_ms, end_ms), *_KINDS, int):
        yield _unpack(owner, *row), size


def segment_at(connection: sqlite3.Connection, owner: Owner, ts_ms: int) -> Segment | None:
    """The segment that the time falls into; None if none."""
    rows = fetch(connection, _AT, (owner.id, max(ts_ms - HOUR_MS, EARLIEST_MS), ts_ms), *_KINDS)
    return _unpack(owner, *rows[0]) if rows and rows[0][2] >= ts_ms else None


def outermost_segment(connection: sqlite3.Connection, owner: Owner, newest: bool) -> Segment | None:
    """The newest (or oldest) segment of a target that is intact; None if there is none."""
    query = f"SELECT {_COLUMNS} FROM stretch WHERE target = ? ORDER BY start_ms {'DESC' if newest else 'ASC'}"
    for row in connection.execute(query, (owner.id,)):
        segment = _intact(owner, row)
        if segment is not None:
            return segment
    return None


def is_intact_segment(owner: Owner, row: tuple[Any, ...]) -> bool:
    """Whether what stands in the row (id, start_ms, end_ms, layouts, body) is what was written."""
    return _intact(owner, row) is not None


def insert_segment(connection: sqlite3.Connection, owner: Owner, segment: Segment, chunks: list[bytes]) -> None:
    """Add a segment, whose id does not count, and its chunks in order of number."""
    layouts = np.array(segment.layouts, _LAYOUT_ID).tobytes()
    start_ms, end_ms = int(segment.times_ms[0]), int(segment.times_ms[-1])
    body = seal(_context(owner, start_ms, end_ms, layouts), _pack(segment))
    size = len(body) + len(layouts) + sum(map(len, chunks))
    values = (owner.id, start_ms, end_ms, size, layouts, body)
    insert = "INSERT INTO stretch (target, start_ms, end_ms, bytes, layouts, body) VALUES (?, ?, ?, ?, ?, ?)"
    first = int(connection.execute(insert, values).lastrowid or 0) * CHUNKS_PER_SEGMENT
    rows = ((number, seal(_chunk_context(number), chunk)) for number, chunk in enumerate(chunks, first))
    connection.executemany("INSERT INTO chunk (id, body) VALUES (?, ?)", rows)


def chunk_data(number: int, body: bytes) -> bytes:
    """What `insert_segment` was given, from the row of a chunk. Raises DamagedError."""
    return unseal(_chunk_context(number), body, "a chunk")


def delete_segment(connection: sqlite3.Connection, number: int) -> None:
    """Remove a segment and its chunks."""
    first = number * CHUNKS_PER_SEGMENT
    connection.execute("DELETE FROM chunk WHERE id >= ? AND id < ?", (first, first + CHUNKS_PER_SEGMENT))
    connection.execute("DELETE FROM stretch WHERE id = ?", (number,))


def layout_ids(blob: bytes) -> tuple[int, ...]:
    """Ids of the layouts of a segment, from its column `layouts`."""
    if not blob or len(blob) % _LAYOUT_ID.itemsize:
        raise DamagedError("the layouts of a segment do not decode")
    return tuple(np.frombuffer(blob, _LAYOUT_ID).tolist())


def _intact(owner: Owner, row: tuple[Any, ...]) -> Segment | None:
    if is_typed(row, _KINDS):
        with suppress(DamagedError):
            return _unpack(owner, *row)
    return None


def _context(owner: Owner, start_ms: int, end_ms: int, layouts: bytes) -> bytes:
    return _PLACE.pack(owner.seal, start_ms, end_ms) + layouts


def _chunk_context(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


def _pack(segment: Segment) -> bytes:
    steps = np.diff(np.diff(segment.times_ms, prepend=segment.times_ms[:1]), prepend=0)
    parts = [
        _COUNTS.pack(len(segment.times_ms), len(segment.chunk_of)),
        to_planes(steps, _STEP),
        to_planes(segment.layout_of, _NUMBER),
        to_planes(segment.chunk_of, _NUMBER),
    ]
    return zlib.compress(b"".join(parts), _LEVEL)


def _sealed(owner: Owner, start_ms: int, end_ms: int, layouts: bytes, body: bytes) -> bytes:
    return unseal(_context(owner, start_ms, end_ms, layouts), body, f"the hour of {start_ms} ms")


@lru_cache(maxsize=_UNPACKED)
def _unpack(owner: Owner, number: int, start_ms: int, end_ms: int, layouts: bytes, body: bytes) -> Segment:
    data = inflate(_sealed(owner, start_ms, end_ms, layouts, body), f"the hour of {start_ms} ms")
    rows, columns = _COUNTS.unpack_from(data) if len(data) >= _COUNTS.size else (0, 0)
    if not rows or len(data) != _COUNTS.size + rows * 8 + columns * 4:
        raise DamagedError("a segment does not decode")
    offset = _COUNTS.size
    steps = from_planes(data, offset, rows, _STEP).astype(np.int64)
    layout_of = from_planes(data, offset + rows * 4, rows, _NUMBER).astype(np.uint32, copy=False)
    chunk_of = from_planes(data, offset + rows * 8, columns, _NUMBER).astype(np.uint32, copy=False)
    offsets_ms = steps.cumsum().cumsum()
    times_ms = start_ms + offsets_ms
    ids = layout_ids(layouts)
    ascending = rows == 1 or bool((np.diff(offsets_ms) > 0).all())
    if not ascending or offsets_ms[0] or times_ms[-1] != end_ms or int(layout_of.max()) >= len(ids):
        raise DamagedError("a segment does not fit its times and layouts")
    if columns and int(chunk_of.max()) >= min(columns, CHUNKS_PER_SEGMENT):
        raise DamagedError("a segment names chunks that cannot be")
    return Segment(number, times_ms, ids, layout_of, chunk_of)
