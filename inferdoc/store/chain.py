"""Pages out of a chain, and cutting a chain so that a page before it can change or go."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.codec import Bits, DamagedError, pack, unpack
from inferdoc.store.layouts import LayoutTable
from inferdoc.store.rows import fetch
from inferdoc.store.seal import Owner, PageRow, reseal_complete, unseal_pages

EARLIEST_MS, LATEST_MS = -(2**63), 2**63 - 1
_CHAIN = (
    "SELECT ts_ms, back_ms, body FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? AND layout = ? ORDER BY ts_ms"
)


def chain_start(ts_ms: int, back_ms: int) -> int:
    """Time of the page that the chain of the page at `ts_ms` starts at."""
    if not 0 <= back_ms <= ts_ms - EARLIEST_MS:
        raise DamagedError("a chain of pages starts at no possible time")
    return ts_ms - back_ms


def chain(connection: sqlite3.Connection, owner: Owner, layout: int, first_ms: int, last_ms: int) -> list[PageRow]:
    """The pages of a target and layout in [first_ms, last_ms], in order of time."""
    window = (owner.id, first_ms, last_ms, layout)
    return [PageRow(*row) for row in fetch(connection, _CHAIN, window, int, int, bytes)]


def decode(
    owner: Owner,
    layout: int,
    rows: Sequence[PageRow | tuple[int, int, bytes]],
    width: int,
    columns: NDArray[np.intp] | None = None,
) -> Bits:
    """Consecutive pages of one target and layout, the first one complete: uint64[columns, rows], None: all columns."""
    complete = np.array([not back_ms for _, back_ms, _ in rows], bool)
    bodies, checked = unseal_pages(owner, layout, rows)
    return unpack(bodies, complete, width, columns, checked)


def page_at(connection: sqlite3.Connection, layouts: LayoutTable, owner: Owner, layout: int, ts_ms: int) -> Bits:
    """Values uint64[width] of the page that this target and layout has at this very time."""
    page = fetch(connection, "SELECT back_ms FROM page WHERE target = ? AND ts_ms = ?", (owner.id, ts_ms), int)
    if not page:
        raise DamagedError("a page is missing")
    rows = chain(connection, owner, layout, chain_start(ts_ms, page[0][0]), ts_ms)
    values: Bits = decode(owner, layout, rows, len(layouts.series(layout)))[:, -1]
    return values


def cut_after(
    connection: sqlite3.Connection, layouts: LayoutTable, owner: Owner, layout: int, ts_ms: int
) -> int | None:
    """Make the first page after `ts_ms` of this target and layout complete in itself. Returns its time, None if none.

    To be called before a page is put in front of it, or the pages before it are dropped.
    """
    after = fetch(
        connection,
        "SELECT ts_ms, back_ms, body FROM page WHERE target = ? AND ts_ms > ? AND layout = ? ORDER BY ts_ms LIMIT 1",
        (owner.id, ts_ms, layout),
        int,
        int,
        bytes,
    )
    if not after:
        return None
    next_ms, back_ms, before = after[0]
    if back_ms:
        data = pack(page_at(connection, layouts, owner, layout, next_ms), None)
        body = reseal_complete(owner, layout, next_ms, before, data)
        connection.execute(
            "UPDATE page SET back_ms = 0, body = ? WHERE target = ? AND ts_ms = ?", (body, owner.id, next_ms)
        )
    return int(next_ms)
