"""Single pages out of a chain, and cutting a chain so that a page before it can change or go."""

from __future__ import annotations

import sqlite3

import numpy as np

from inferdoc.store.codec import Bits, DamagedError, pack, unpack
from inferdoc.store.layouts import LayoutTable


def page_at(connection: sqlite3.Connection, layouts: LayoutTable, target: int, layout: int, ts_ms: int) -> Bits:
    """Values uint64[width] of the page that this target and layout has at this very time."""
    back = connection.execute("SELECT back_ms FROM page WHERE target = ? AND ts_ms = ?", (target, ts_ms)).fetchone()
    if back is None:
        raise DamagedError("a page is missing")
    rows = connection.execute(
        "SELECT body, back_ms = 0 FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? AND layout = ? ORDER BY ts_ms",
        (target, ts_ms - back[0], ts_ms, layout),
    ).fetchall()
    complete = np.array([row[1] for row in rows], bool)
    values: Bits = unpack([row[0] for row in rows], complete, len(layouts.series(layout)), None)[-1]
    return values


def cut_after(
    connection: sqlite3.Connection, layouts: LayoutTable, target: int, layout: int, ts_ms: int
) -> int | None:
    """Make the first page after `ts_ms` of this target and layout complete in itself. Returns its time, None if none.

    To be called before a page is put in front of it, or the pages before it are dropped.
    """
    after = connection.execute(
        "SELECT ts_ms, back_ms FROM page WHERE target = ? AND ts_ms > ? AND layout = ? ORDER BY ts_ms LIMIT 1",
        (target, ts_ms, layout),
    ).fetchone()
    if after is None:
        return None
    if after[1]:
        body = pack(page_at(connection, layouts, target, layout, after[0]), None)
        connection.execute(
            "UPDATE page SET back_ms = 0, body = ? WHERE target = ? AND ts_ms = ?", (body, target, after[0])
        )
    return int(after[0])
