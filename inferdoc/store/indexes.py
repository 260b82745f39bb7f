"""Whether the indexes of a store lead to every row: one that is damaged would hide scrapes from a read.

Looked at whenever a store is opened to be read. Out of order, a search goes astray; with too few entries, rows are not
found: then nothing can be read. An entry with another time than its row hides that row alone. What else an entry leads
to need not be looked at: a row that is not there is an error of SQLite, and another one does not have the checksum of
the place that the entry names.
"""

from __future__ import annotations

import itertools
import operator
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferdoc.cycles import no_cycle_search
from inferdoc.store.faults import damaged
from inferdoc.store.pages import StoredPage, is_intact_page
from inferdoc.store.rows import is_typed
from inferdoc.store.seal import Owner, owner_of
from inferdoc.store.segments import is_intact_segment


@dataclass(frozen=True)
class _LookedUp:
    """A table whose rows are found by target and time. begin, end: columns with the first and the last time of a row;
    columns: what `is_intact` takes, which checks the checksum of a row."""

    table: str
    begin: str
    end: str
    columns: str
    is_intact: Callable[[Owner, tuple[Any, ...]], bool]

    @property
    def index(self) -> str:
        return f"sqlite_autoindex_{self.table}_1"


@dataclass(frozen=True)
class Hidden:
    """Scrapes that the index does not lead to. target: its id; span_ms: their first and last time; scrapes: how many,
    None if unknown; what: in words."""

    target: int
    span_ms: tuple[int, int]
    scrapes: int | None
    what: str


_PAGE = _LookedUp(
    "page", "ts_ms", "ts_ms", "ts_ms, layout, back_ms, body", lambda owner, row: is_intact_page(owner, StoredPage(*row))
)
_SEGMENT = _LookedUp("stretch", "start_ms", "end_ms", "id, start_ms, end_ms, layouts, body", is_intact_segment)
_MOST_CHECKED = 500_000
"""Rows of `page` up to which the indexes are checked (a microsecond each); hours gone by are no pages any more."""


@no_cycle_search()
def hidden_scrapes(connection: sqlite3.Connection, path: Path, has_chunks: bool) -> list[Hidden]:
    """The scrapes that are intact, but not where the index says. Raises StoreError where an index has not as many
    entries as its table rows, or is out of order."""
    ends = (connection.execute(f"SELECT {each}(rowid) FROM page NOT INDEXED").fetchone()[0] for each in ("max", "min"))
    newest, oldest = ends  # of the table: one damaged entry of the index would make it as long as it likes
    if newest is not None and newest - oldest > _MOST_CHECKED:
        return []
    found = []
    for each in (_PAGE, _SEGMENT) if has_chunks else (_PAGE,):
        _check_order(connection, path, each)
        if _sums(connection, each, f"INDEXED BY {each.index}") != _sums(connection, each, "NOT INDEXED"):
            found += _hidden(connection, each)
    return found


def _check_order(connection: sqlite3.Connection, path: Path, of: _LookedUp) -> None:
    entries = connection.execute(f"SELECT target, {of.begin} FROM {of.table} INDEXED BY {of.index}").fetchall()
    ((rows,),) = connection.execute(f"SELECT count(*) FROM {of.table} NOT INDEXED").fetchall()
    try:
        in_order = all(map(operator.lt, entries, itertools.islice(entries, 1, None)))
    except TypeError:
        in_order = False
    if len(entries) != rows or not in_order:
        raise damaged(path, f"the file is damaged (the index of {of.table} does not lead to every row)")


def _sums(connection: sqlite3.Connection, of: _LookedUp, how: str) -> list[tuple[object, ...]]:
    """Of the targets and the times, in halves that no sum of 2^31 of them overflows: they distinguish two lists that
    differ in one place, in a tenth of the time of comparing them."""
    halves = f"sum(target & 0xffffffff), sum(target >> 32), sum({of.begin} & 0xffffffff), sum({of.begin} >> 32)"
    return connection.execute(f"SELECT {halves} FROM {of.table} {how}").fetchall()


def _hidden(connection: sqlite3.Connection, of: _LookedUp) -> list[Hidden]:
    """The intact rows that stand in the index under another target or time. A row that is damaged itself is found by
    what the index says, and its checksum shows it."""
    columns = ", ".join(f"hidden.{each}" for each in of.columns.split(", "))
    query = (
        f"SELECT target.id, target.labels, hidden.{of.begin}, hidden.{of.end}, {columns}"
        f" FROM {of.table} AS hidden NOT INDEXED JOIN target ON target.id = hidden.target WHERE NOT EXISTS ("
        f"SELECT 1 FROM {of.table} AS entry INDEXED BY {of.index}"
        f" WHERE entry.target = hidden.target AND entry.{of.begin} = hidden.{of.begin})"
    )
    found = []
    for number, labels, begin_ms, end_ms, *row in connection.execute(query):
        is_owned = is_typed((number, labels, begin_ms, end_ms), (int, str, int, int))
        if is_owned and of.is_intact(owner_of(number, labels), tuple(row)):
            what = f"the index of {of.table} does not lead to what stands at {begin_ms} ms"
            found.append(Hidden(number, (begin_ms, end_ms), 1 if begin_ms == end_ms else None, what))
    return found
