"""The SQLite file: format version 2, how it is opened, and what its faults mean in one line.

    target  labels shared by every series of one scraped endpoint, as JSON, unique
    layout  the series of a page in page order, compressed; `base` set: kept as a difference from that layout
    family  declared type of a metric family
    page    one scrape: the values in the layout's order (codec.py). back_ms 0: complete in itself; else XORed with the
            page before it of the same target and layout, and the complete page its chain starts at lies back_ms earlier
    stretch scrapes that were compacted (since format 2): those of a target in [start_ms, end_ms], inside one hour.
            layouts: their ids; body: times, layout of each row, chunk of each series (stretches.py); bytes: size of all
    chunk   values of some series of a stretch, by columns (chunks.py). id: stretch id * CHUNKS_PER_STRETCH + number

Invariants that every writer keeps: of the pages of one target and layout at or after `ts_ms - back_ms`, the first is
complete, so any page is decoded from one short range of rows; the stretches of a target do not overlap; a page may lie
beside a stretch (it came late), even at the time of one of its rows, but then they share no series.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from inferdoc.errors import SourceError

FORMAT = 2
FORMAT_WITH_CHUNKS = 2
APPLICATION_ID = 0x494E4644
"""`INFD` in the file header: tells an inferdoc store from any other SQLite file."""

_TABLES = (
    "CREATE TABLE target (id INTEGER PRIMARY KEY AUTOINCREMENT, labels TEXT NOT NULL UNIQUE)",
    """CREATE TABLE layout (id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE,
    base INTEGER REFERENCES layout (id), series BLOB NOT NULL)""",
    "CREATE TABLE family (name TEXT PRIMARY KEY, type TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE page (target INTEGER NOT NULL, ts_ms INTEGER NOT NULL, layout INTEGER NOT NULL,
    back_ms INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (target, ts_ms))""",
)
_ADDED_BY_2 = (
    """CREATE TABLE stretch (id INTEGER PRIMARY KEY, target INTEGER NOT NULL, start_ms INTEGER NOT NULL,
    end_ms INTEGER NOT NULL, bytes INTEGER NOT NULL, layouts BLOB NOT NULL, body BLOB NOT NULL,
    UNIQUE (target, start_ms))""",
    "CREATE TABLE chunk (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
)
_BUSY_SECONDS = 10.0
_CREATION_SECONDS = 2.0
_WAL_LIMIT_BYTES = 64 << 20
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


class WriterLock:
    """Held by the one writer of a store; dies with its process, however that ends.

    An flock on a file beside the store: on the store itself it would interfere with SQLite's own locks.
    """

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + ".lock")
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"cannot write the store {store}: {_reason(error)}; give another --store") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._fd, 32).decode("ascii", "replace").strip()
            os.close(self._fd)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreError(f"cannot lock {self._path}: {_reason(error)}; use a local disk") from error
            who = f"process {holder}" if holder else "another process"
            raise StoreError(f"the store {store} is being written by {who}; stop it or give another --store") from None
        with contextlib.suppress(OSError):  # the pid is a courtesy: a full disk must not keep a pruning writer out
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)


def is_file(path: Path) -> bool:
    """Whether there is anything at the path of a store. Raises StoreError for a folder, or if that cannot be seen."""
    try:
        if path.is_dir():
            raise StoreError(f"{path} is a folder, not a store; give the file")
        return path.exists()
    except (OSError, ValueError) as error:
        reason = _reason(error) if isinstance(error, OSError) else str(error)
        raise StoreError(f"cannot look for a store at {path}: {reason}; give another --store") from error


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open or create the store. The caller holds the `WriterLock`.

    synchronous=FULL: a commit is on the disk before it returns, so that neither a killed process nor a power cut loses
    an acknowledged scrape (with NORMAL a power cut loses those since the last checkpoint). It costs one fsync a round.
    """
    with guarded(path, "write"):
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            if _is_blank(connection):
                _create(connection)
            version = check_format(connection, path)
            connection.execute("PRAGMA synchronous = FULL")
            if version < FORMAT:
                _upgrade(connection, path)
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
            connection.execute("PRAGMA cache_size = -16384")
        except BaseException:
            connection.close()
            raise
    return connection


def open_for_reading(path: Path) -> tuple[sqlite3.Connection, list[str]]:
    """Open an existing store read-only, beside a writer if there is one. Returns the connection and warnings."""
    if not is_file(path):
        raise StoreError(f"there is no store at {path}; fill one with `inferdoc collect` or `inferdoc import`")
    warnings: list[str] = []
    with guarded(path, "read"):
        try:
            connection = _connect_read_only(path, "mode=ro")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            # A folder that cannot be written has no room for the shared-memory file of the write-ahead log.
            connection = _connect_read_only(path, "mode=ro&immutable=1")
            wal = path.with_name(path.name + "-wal")
            if wal.exists() and wal.stat().st_size:
                warnings.append(
                    f"{path}: its write-ahead log cannot be read in a read-only folder, so the newest scrapes are"
                    " missing; copy the store and its -wal file to a folder that can be written"
                )
        try:
            if warnings and _is_blank(connection):
                raise StoreError(warnings[0])
            _await_creation(connection)
            check_format(connection, path)
            connection.execute("PRAGMA cache_size = -65536")
        except BaseException:
            connection.close()
            raise
    return connection, warnings


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """kind: "IMMEDIATE" to write, "DEFERRED" to read one consistent state. Joins a transaction already begun."""
    if connection.in_transaction:
        yield
        return
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _connect_read_only(path: Path, options: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _is_blank(connection: sqlite3.Connection) -> bool:
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    return not tables and not _pragma(connection, "application_id") and not _pragma(connection, "user_version")


def _await_creation(connection: sqlite3.Connection) -> None:
    """Give a writer that is just creating the store the moment it needs: its file exists before its tables do."""
    end = time.monotonic() + _CREATION_SECONDS
    while _is_blank(connection) and time.monotonic() < end:
        time.sleep(0.02)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection, "IMMEDIATE"):
        for statement in (*_TABLES, *_ADDED_BY_2):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a store of format 1 to format 2: all of it or nothing."""
    with transaction(connection, "IMMEDIATE"):
        if check_format(connection, path) < FORMAT:
            for statement in _ADDED_BY_2:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {FORMAT}")


def check_format(connection: sqlite3.Connection, path: Path) -> int:
    """The format of the store; refuses what is none, or a newer one than this release knows."""
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise StoreError(f"{path} is not an inferdoc store; give another --store")
    version = _pragma(connection, "user_version")
    if version > FORMAT:
        raise StoreError(
            f"the store {path} has format {version}, this inferdoc reads up to {FORMAT}; update inferdoc-toolkit"
        )
    return version


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
