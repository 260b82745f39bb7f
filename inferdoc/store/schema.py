"""The SQLite file: format version 4, and how it is opened.

    target  labels shared by every series of one scraped endpoint, as JSON, unique
    layout  the series of a page in page order, compressed; `base` set: kept as a difference from that layout
    family  declared type of a metric family
    family_seal  checksum of each name and type (since format 4; families.py)
    page    one scrape: the values in the layout's order (codec.py). back_ms 0: complete in itself; else XORed with the
            page before it of the same target and layout, and the complete page its chain starts at lies back_ms earlier
    stretch scrapes that were compacted (since format 2): those of a target in [start_ms, end_ms], inside one hour.
            layouts: their ids; body: times, layout of each row, chunk of each series (segments.py); bytes: size of all
    chunk   values of some series of a segment, by columns (chunks.py). id: segment id * CHUNKS_PER_SEGMENT + number
    imported  what retention leaves alone (since format 3): scrapes of a target in [start_ms, end_ms] that were
            imported, or stored before format 3, which did not record it (origin.py)

Since format 3 the blobs `layout.series`, `page.body`, `stretch.body` and `chunk.body` begin with a checksum (seal.py);
those written before stay as they are, and are read without one.

Invariants that every writer keeps: of the pages of one target and layout at or after `ts_ms - back_ms`, the first is
complete, so any page is decoded from one short range of rows; the segments of a target do not overlap; a page may lie
beside a segment (it came late), even at the time of one of its rows, but then they share no series.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from inferdoc.store.families import seal_all
from inferdoc.store.faults import StoreError, damaged, guarded
from inferdoc.store.indexes import Hidden, hidden_scrapes
from inferdoc.store.lock import StoreFile, check_reading
from inferdoc.store.origin import keep_all
from inferdoc.store.space import pragma

FORMAT = 4
FORMAT_WITH_CHUNKS = 2
FORMAT_WITH_ORIGIN = 3
FORMAT_WITH_SEALED_TYPES = 4
APPLICATION_ID = 0x494E4644
"""`INFD` in the file header: distinguishes an inferdoc store from any other SQLite file."""

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
_ADDED_BY_3 = (
    """CREATE TABLE imported (target INTEGER NOT NULL, start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL,
    seal INTEGER NOT NULL, PRIMARY KEY (target, start_ms)) WITHOUT ROWID""",
)
_ADDED_BY_4 = ("CREATE TABLE family_seal (name TEXT PRIMARY KEY, seal INTEGER NOT NULL) WITHOUT ROWID",)
_TABLES_OF = {1: _TABLES, 2: _ADDED_BY_2, 3: _ADDED_BY_3, 4: _ADDED_BY_4}
"""What each format added."""
_FILLS = "with `inferdoc collect` or `inferdoc import`"
_BUSY_SECONDS = 10.0
_CREATION_SECONDS = 2.0
_WAL_LIMIT_BYTES = 64 << 20


def open_for_writing(place: StoreFile) -> sqlite3.Connection:
    """Open or create the store. The caller holds the `WriterLock`.

    synchronous=FULL: a commit is on the disk before it returns, so that neither a killed process nor a power cut loses
    an acknowledged scrape (with NORMAL a power cut loses those since the last checkpoint). It costs one fsync a round.
    """
    path = place.given
    with guarded(path, "write"):
        connection = sqlite3.connect(place.file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
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


def open_for_reading(
    place: StoreFile, known: Sequence[Hidden] | None = None
) -> tuple[sqlite3.Connection, list[str], Sequence[Hidden]]:
    """Open an existing store read-only, beside a writer if there is one. Returns the connection, warnings, and the
    scrapes that no index leads to. known: these, where they were looked for a moment ago."""
    path = place.given
    if not place.file.exists():
        raise StoreError(f"there is no store at {path}; fill one {_FILLS}")
    with guarded(path, "read"):
        other_name = check_reading(place)
        warnings = [other_name] if other_name else []
        try:
            connection = _connect_read_only(place.file, "mode=ro")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            # A folder that cannot be written has no room for the shared-memory file of the write-ahead log.
            connection = _connect_read_only(place.file, "mode=ro&immutable=1")
            if place.log.exists() and place.log.stat().st_size:
                warnings.append(
                    f"{path}: its write-ahead log cannot be read in a read-only folder, so the newest scrapes are"
                    " missing; copy the store and its -wal file to a folder that can be written"
                )
        try:
            if warnings and _is_blank(connection):
                raise StoreError(warnings[-1])
            _await_creation(connection)
            if _is_blank(connection):
                raise StoreError(f"the store {path} is empty: whoever created it was stopped at once; fill it {_FILLS}")
            with transaction(connection, "DEFERRED"):
                version = check_format(connection, path)
                _check_tables(connection, path, version)
                has_chunks = version >= FORMAT_WITH_CHUNKS
                hidden = hidden_scrapes(connection, path, has_chunks) if known is None else known
            connection.execute("PRAGMA cache_size = -65536")
        except BaseException:
            connection.close()
            raise
    return connection, warnings, hidden


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """kind: "IMMEDIATE" to write, "DEFERRED" to read one consistent state. Joins a transaction that is open."""
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


def _is_blank(connection: sqlite3.Connection) -> bool:
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    return not tables and not pragma(connection, "application_id") and not pragma(connection, "user_version")


def _await_creation(connection: sqlite3.Connection) -> None:
    """Give a writer that is just creating the store the moment it needs: its file exists before its tables do."""
    end = time.monotonic() + _CREATION_SECONDS
    while _is_blank(connection) and time.monotonic() < end:
        time.sleep(0.02)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection, "IMMEDIATE"):
        for statement in (each for statements in _TABLES_OF.values() for each in statements):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a store of an older format to this one: all of it or nothing."""
    with transaction(connection, "IMMEDIATE"):
        version = check_format(connection, path)
        for added in range(version + 1, FORMAT + 1):
            for statement in _TABLES_OF[added]:
                connection.execute(statement)
        if version < FORMAT_WITH_ORIGIN:
            keep_all(connection)
        seal_all(connection)
        connection.execute(f"PRAGMA user_version = {FORMAT}")


def _check_tables(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Raises StoreError where the tables are not those of the format."""
    tables = dict(connection.execute("SELECT sql, name FROM sqlite_master WHERE type = 'table'").fetchall())
    for added, statements in _TABLES_OF.items():
        for statement in statements:
            if (statement in tables) != (added <= version):
                raise damaged(path, "its tables are not those of its format")
    _check_whole(connection, path, "target")


def _check_whole(connection: sqlite3.Connection, path: Path, table: str) -> None:
    """Raises StoreError where SQLite finds a fault in a table or its indexes."""
    for (verdict,) in connection.execute(f"PRAGMA integrity_check({table})").fetchall():
        if verdict != "ok":
            raise damaged(path, f"the file is damaged ({' '.join(str(verdict).split())[:120]})")


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError where SQLite finds a fault in any table or index: reads the whole file."""
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        _check_whole(connection, path, table)


def check_format(connection: sqlite3.Connection, path: Path) -> int:
    """The format of the store; refuses what is none, or a newer one than this release knows."""
    if pragma(connection, "application_id") != APPLICATION_ID:
        raise StoreError(f"{path} is not an inferdoc store; give another --store")
    version = pragma(connection, "user_version")
    if version > FORMAT:
        raise StoreError(
            f"the store {path} has format {version}, this inferdoc reads up to {FORMAT}; update inferdoc-toolkit"
        )
    return version
