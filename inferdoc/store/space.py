"""Room in the file of a store: what is used, what is free, and giving it back."""

from __future__ import annotations

import sqlite3

_VACUUM_PAGES = 4096


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold data."""
    return (_pragma(connection, "page_count") - _pragma(connection, "freelist_count")) * _pragma(
        connection, "page_size"
    )


def free_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold nothing now."""
    return _pragma(connection, "freelist_count") * _pragma(connection, "page_size")


def give_back(connection: sqlite3.Connection) -> None:
    """Shrink the file to what holds data. Not inside a transaction."""
    while _pragma(connection, "freelist_count"):
        connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
