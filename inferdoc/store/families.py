"""Declared types of metric families. Since format 4 each has a checksum in a table of its own: a name or a type that is
damaged would be read as another one, and written out by an export."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable

from inferdoc.store.codec import DamagedError
from inferdoc.store.rows import fetch


def read_types(connection: sqlite3.Connection, are_sealed: bool) -> dict[str, str]:
    """Type by the name on the TYPE line. are_sealed: whether the store's format has checksums. Raises DamagedError."""
    types = dict(fetch(connection, "SELECT name, type FROM family", (), str, str))
    if are_sealed:
        seals = dict(fetch(connection, "SELECT name, seal FROM family_seal", (), str, int))
        if seals != {name: _seal(name, kind) for name, kind in types.items()}:
            raise DamagedError("the declared types are damaged: a checksum does not match")
    return types


def write_types(connection: sqlite3.Connection, types: Iterable[tuple[str, str]]) -> None:
    """Add types by name; one that is declared otherwise than before replaces the older one."""
    pairs = list(types)
    for table, column, rows in (
        ("family", "type", pairs),
        ("family_seal", "seal", [(name, _seal(name, kind)) for name, kind in pairs]),
    ):
        connection.executemany(
            f"INSERT INTO {table} (name, {column}) VALUES (?, ?) ON CONFLICT (name)"
            f" DO UPDATE SET {column} = excluded.{column} WHERE {column} <> excluded.{column}",
            rows,
        )


def seal_all(connection: sqlite3.Connection) -> None:
    """Give every type its checksum: the format until now had none."""
    write_types(connection, read_types(connection, are_sealed=False).items())


def _seal(name: str, kind: str) -> int:
    return zlib.crc32(f"{name}\n{kind}".encode("utf-8", "surrogatepass"))
