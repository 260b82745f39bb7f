"""Rows out of the file, with the types the format promises: a damaged file can hold anything."""

from __future__ import annotations

import sqlite3
from typing import Any

from inferdoc.store.codec import DamagedError

NOTHING = type(None)


def fetch(
    connection: sqlite3.Connection, query: str, values: tuple[object, ...], *kinds: type | tuple[type, ...]
) -> list[tuple[Any, ...]]:
    """All rows of the query; `kinds` gives the type, or types, of each column. Raises DamagedError."""
    rows = connection.execute(query, values).fetchall()
    for kind, column in zip(kinds, zip(*rows, strict=True), strict=bool(rows)):
        allowed = kind if isinstance(kind, tuple) else (kind,)
        if not set(map(type, column)).issubset(allowed):
            raise DamagedError("a row holds values of the wrong type")
    return rows
