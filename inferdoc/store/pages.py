"""The pages of a target in a time range, and their values."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.codec import Bits, DamagedError, pack, unpack
from inferdoc.store.layouts import LayoutTable
from inferdoc.store.rows import fetch, fetch_typed, is_typed
from inferdoc.store.seal import Owner, PageRow, check_page, reseal_complete, unseal_pages

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


_KINDS = (int, int, int, bytes)
_IN_WINDOW = "SELECT ts_ms, layout, back_ms, body FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? ORDER BY ts_ms"
_LEAD_IN = (
    "SELECT ts_ms, layout, back_ms, body FROM page"
    " WHERE target = ? AND ts_ms >= ? AND ts_ms < ? AND layout = ? ORDER BY ts_ms"
)
_OUTERMOST = "SELECT ts_ms, layout, back_ms, body FROM page WHERE target = ? ORDER BY ts_ms"
_OF_PAGE_ROW = itemgetter(0, 2, 3)
"""The values of a `PageRow`, of a `StoredPage`."""


class StoredPage(NamedTuple):
    """A page of a target: its time, its layout, how far before it its chain begins, and its bytes."""

    ts_ms: int
    layout: int
    back_ms: int
    body: bytes


_AS_STORED: Callable[[tuple[int, int, int, bytes]], StoredPage] = partial(tuple.__new__, StoredPage)
"""What `StoredPage._make` does, in a third of the time: it is done for every page that is read."""


def pages_between(connection: sqlite3.Connection, owner: Owner, start_ms: int, end_ms: int) -> list[StoredPage]:
    """The pages of a target in [start_ms, end_ms], in order of time. Raises DamagedError."""
    return _stored(fetch(connection, _IN_WINDOW, (owner.id, start_ms, end_ms), *_KINDS))


def typed_pages_between(
    connection: sqlite3.Connection, owner: Owner, start_ms: int, end_ms: int
) -> tuple[list[StoredPage], int]:
    """As `pages_between`, without rows that hold values of the wrong type, and how many those are."""
    typed, others = fetch_typed(connection, _IN_WINDOW, (owner.id, start_ms, end_ms), *_KINDS)
    return _stored(typed), others


def outermost_ms(connection: sqlite3.Connection, owner: Owner, newest: bool) -> int | None:
    """Time of the newest (or oldest) page of a target whose checksum holds; None if there is none."""
    for row in connection.execute(f"{_OUTERMOST} {'DESC' if newest else 'ASC'}", (owner.id,)):
        if is_intact_page(owner, StoredPage(*row)):
            return int(row[0])
    return None


def is_intact_page(owner: Owner, page: StoredPage) -> bool:
    """Whether the row is what was written, apart from the page that it differs from."""
    if not is_typed(page, _KINDS):
        return False
    try:
        check_page(owner, page.layout, PageRow(page.ts_ms, page.back_ms, page.body))
    except DamagedError:
        return False
    return True


def page_values(
    connection: sqlite3.Connection,
    owner: Owner,
    pages: Sequence[StoredPage],
    width: int,
    columns: NDArray[np.intp] | None,
) -> Bits:
    """uint64[columns, pages] of consecutive pages of one layout with `width` series. columns: places, None for all.
    Raises DamagedError."""
    lead = _lead(connection, owner, pages[0])
    return decode(owner, pages[0].layout, _rows([*lead, *pages]), width, columns)[:, len(lead) :]


def intact_values(
    connection: sqlite3.Connection,
    owner: Owner,
    pages: Sequence[StoredPage],
    width: int,
    columns: NDArray[np.intp] | None,
) -> tuple[Bits, NDArray[np.bool_], list[tuple[slice, DamagedError]]]:
    """As `page_values`, of the pages that are intact: their values, bool[pages] which these are, and what is wrong with
    each run of the others. What differs from a damaged page, or from one that does, cannot be determined."""
    try:
        lead = _lead(connection, owner, pages[0])
    except DamagedError:
        lead = []
    every, skipped = [*lead, *pages], len(lead)
    begins = [place for place, page in enumerate(every) if place == 0 or page.back_ms == 0]
    values: list[Bits] = []
    kept = np.zeros(len(every), np.bool_)
    faults = []
    for begin, end in zip(begins, [*begins[1:], len(every)], strict=True):
        own, error = _longest(owner, every[begin:end], width, columns)
        whole = begin + own.shape[1]
        kept[begin:whole] = True
        values.append(own[:, max(skipped - begin, 0) :])
        if error is not None and end > skipped:
            faults.append((slice(max(whole - skipped, 0), end - skipped), error))
    return np.concatenate(values, axis=1), kept[skipped:], faults


def _longest(
    owner: Owner, chain: Sequence[StoredPage], width: int, columns: NDArray[np.intp] | None
) -> tuple[Bits, DamagedError | None]:
    """The values of a chain up to the first page that is damaged, and what is wrong with that. Chains are short."""
    values = np.empty((width if columns is None else len(columns), 0), np.uint64)
    try:
        return decode(owner, chain[0].layout, _rows(chain), width, columns), None
    except DamagedError:
        for number in range(1, len(chain) + 1):
            try:
                values = decode(owner, chain[0].layout, _rows(chain[:number]), width, columns)
            except DamagedError as error:
                return values, error
    return values, None


def _lead(connection: sqlite3.Connection, owner: Owner, first: StoredPage) -> list[StoredPage]:
    """The pages before one that it is a difference from."""
    if not first.back_ms:
        return []
    window = (owner.id, chain_start(first.ts_ms, first.back_ms), first.ts_ms, first.layout)
    return _stored(fetch(connection, _LEAD_IN, window, *_KINDS))


def _stored(rows: Sequence[tuple[int, int, int, bytes]]) -> list[StoredPage]:
    return list(map(_AS_STORED, rows))


def _rows(pages: Sequence[StoredPage]) -> list[tuple[int, int, bytes]]:
    return list(map(_OF_PAGE_ROW, pages))
