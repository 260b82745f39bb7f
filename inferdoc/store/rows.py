"""Rows out of the file, with the types the format promises: a damaged file can hold anything."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from inferdoc.store.codec import DamagedError

NOTHING = type(None)
WRONG_TYPE = "a row holds values of the wrong type"


def fetch(
    connection: sqlite3.Connection, query: str, values: tuple[object, ...], *kinds: type | tuple[type, ...]
) -> list[tuple[Any, ...]]:
    """All rows of the query; `kinds` gives the type, or types, of each column. Raises DamagedError."""
    rows = connection.execute(query, values).fetchall()
    for kind, column in zip(kinds, zip(*rows, strict=True), strict=bool(rows)):
        allowed = kind if isinstance(kind, tuple) else (kind,)
        if not set(map(type, column)).issubset(allowed):
            raise DamagedError(WRONG_TYPE)
    return rows


def fetch_typed(
    connection: sqlite3.Connection, query: str, values: tuple[object, ...], *kinds: type
) -> tuple[list[tuple[Any, ...]], int]:
    """The rows of the query whose values have the right types, and how many others there are."""
    rows = connection.execute(query, values).fetchall()
    # A column at a time takes a tenth of the time of a row at a time, and nearly always all is as it should be.
    if all(set(map(type, column)) == {kind} for kind, column in zip(kinds, zip(*rows, strict=True), strict=bool(rows))):
        return rows, 0
    typed = [row for row in rows if is_typed(row, kinds)]
    return typed, len(rows) - len(typed)


def is_typed(row: tuple[Any, ...], kinds: Iterable[type]) -> bool:
    """Whether each value of a row has its type."""
    return all(type(value) is kind for value, kind in zip(row, kinds, strict=True))
