"""Single pages out of a chain, and cutting a chain so that a page before it can change or go."""

from __future__ import annotations

import sqlite3

import numpy as np

from inferdoc.store.codec import Bits, DamagedError, pack, unpack
from inferdoc.store.layouts import LayoutTable
from inferdoc.store.rows import fetch

EARLIEST_MS = -(2**63)


def chain_start(ts_ms: int, back_ms: int) -> int:
    """Time of the page that the chain of the page at `ts_ms` starts at."""
    if not 0 <= back_ms <= ts_ms - EARLIEST_MS:
        raise DamagedError("a chain of pages starts at no possible time")
    return ts_ms - back_ms


def page_at(connection: sqlite3.Connection, layouts: LayoutTable, target: int, layout: int, ts_ms: int) -> Bits:
    """Values uint64[width] of the page that this target and layout has at this very time."""
    page = fetch(connection, "SELECT back_ms FROM page WHERE target = ? AND ts_ms = ?", (target, ts_ms), int)
    if not page:
        raise DamagedError("a page is missing")
    rows = fetch(
        connection,
        "SELECT body, back_ms FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? AND layout = ? ORDER BY ts_ms",
        (target, chain_start(ts_ms, page[0][0]), ts_ms, layout),
        bytes,
        int,
    )
    complete = np.array([row[1] == 0 for row in rows], bool)
    values: Bits = unpack([row[0] for row in rows], complete, len(layouts.series(layout)), None)[:, -1]
    return values


def cut_after(connection: sqlite3.Connection, layouts: LayoutTable, target: int, layout: int, ts_ms: int) -> int | None:
    """Make the first page after `ts_ms` of this target and layout complete in itself. Returns its time, None if none.

    To be called before a page is put in front of it, or the pages before it are dropped.
    """
    after = fetch(
        connection,
        "SELECT ts_ms, back_ms FROM page WHERE target = ? AND ts_ms > ? AND layout = ? ORDER BY ts_ms LIMIT 1",
        (target, ts_ms, layout),
        int,
        int,
    )
    if not after:
        return None
    next_ms, back_ms = after[0]
    if back_ms:
        body = pack(page_at(connection, layouts, target, layout, next_ms), None)
        connection.execute(
            "UPDATE page SET back_ms = 0, body = ? WHERE target = ? AND ts_ms = ?", (body, target, next_ms)
        )
    return int(next_ms)
