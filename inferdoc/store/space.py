"""Room in the file of a store: what is used, what is free, and giving it back."""

from __future__ import annotations

import sqlite3

_VACUUM_PAGES = 4096


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold data."""
    return (pragma(connection, "page_count") - pragma(connection, "freelist_count")) * pragma(connection, "page_size")


def free_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold nothing now."""
    return pragma(connection, "freelist_count") * pragma(connection, "page_size")


def give_back(connection: sqlite3.Connection) -> None:
    """Shrink the file to what holds data. Not inside a transaction."""
    while pragma(connection, "freelist_count"):
        connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """A number that SQLite keeps of the file."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
