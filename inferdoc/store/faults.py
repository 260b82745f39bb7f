"""What goes wrong with a store, in one line."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from inferdoc.errors import SourceError

_MEANINGS = {
    sqlite3.SQLITE_FULL: "no space left for it; free some, or lower the retention; what was committed stays readable",
    sqlite3.SQLITE_NOTADB: "it is not an inferdoc store; give another --store",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a copy, or move it away and import again",
    sqlite3.SQLITE_READONLY: "it is read-only; change its permissions or give another --store",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the path and the permissions of the folder",
    sqlite3.SQLITE_PERM: "access is denied; check its permissions",
    sqlite3.SQLITE_BUSY: "it is locked by another process; try again",
    sqlite3.SQLITE_IOERR: "the disk reports an error; check space and hardware",
}


class StoreError(SourceError):
    """The embedded store could not be opened, read or written."""


def damaged(path: Path, what: str) -> StoreError:
    """what: is damaged, and how it shows."""
    return StoreError(f"cannot read the store {path}: {what}; restore a copy, or move it away and import again")


@contextlib.contextmanager
def guarded(path: Path, verb: str) -> Iterator[None]:
    """Turn SQLite's errors into one line. verb: "read" or "write"."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        meaning = _MEANINGS.get(code) or " ".join(str(error).split())[:200]
        raise StoreError(f"cannot {verb} the store {path}: {meaning}") from error
    except UnicodeDecodeError as error:  # sqlite3 quotes damaged bytes in its message
        raise damaged(path, "its text is not UTF-8") from error


def reason_of(error: OSError) -> str:
    """The reason in small letters, without number and path."""
    return (error.strerror or str(error)).lower()
