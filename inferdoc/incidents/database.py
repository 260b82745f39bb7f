"""The file of the incident record: SQLite, one process that writes, any number that read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from inferdoc.errors import SourceError
from inferdoc.store.faults import StoreError
from inferdoc.store.lock import FileHold, StoreFile

FORMAT = 1
APPLICATION_ID = 0x494E4649
"""`INFI` in the file header identifies an incident database."""
_TABLES = """
CREATE TABLE IF NOT EXISTS incident (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, cluster TEXT NOT NULL, namespace TEXT NOT NULL, model TEXT NOT NULL,
  pod TEXT NOT NULL, opened REAL NOT NULL, resolved REAL, reopened INTEGER NOT NULL DEFAULT 0, ended_by TEXT,
  story TEXT, posted TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS incident_opened ON incident (opened);
CREATE TABLE IF NOT EXISTS alert (
  incident TEXT NOT NULL REFERENCES incident (id) ON DELETE CASCADE, fingerprint TEXT NOT NULL, starts REAL NOT NULL,
  ends REAL, name TEXT NOT NULL, labels TEXT NOT NULL, annotations TEXT NOT NULL, url TEXT NOT NULL,
  PRIMARY KEY (incident, fingerprint, starts)
) STRICT;
CREATE INDEX IF NOT EXISTS alert_fingerprint ON alert (fingerprint);
CREATE TABLE IF NOT EXISTS look (
  number INTEGER PRIMARY KEY AUTOINCREMENT, incident TEXT NOT NULL REFERENCES incident (id) ON DELETE CASCADE,
  why TEXT NOT NULL, state TEXT NOT NULL, asked REAL NOT NULL, due REAL NOT NULL, began REAL, ended REAL,
  from_ TEXT, until TEXT, story TEXT, failure TEXT, document BLOB, page BLOB
) STRICT;
CREATE INDEX IF NOT EXISTS look_incident ON look (incident);
CREATE INDEX IF NOT EXISTS look_state ON look (state, due);
CREATE TABLE IF NOT EXISTS post (
  number INTEGER PRIMARY KEY AUTOINCREMENT, look INTEGER NOT NULL REFERENCES look (number) ON DELETE CASCADE,
  output TEXT NOT NULL, state TEXT NOT NULL, tries INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL, fault TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS post_state ON post (state, due);
CREATE TABLE IF NOT EXISTS reference (
  incident TEXT NOT NULL REFERENCES incident (id) ON DELETE CASCADE, output TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (incident, output)
) STRICT;
"""


class RecordError(SourceError):
    """The incident record cannot be read or written."""


class Database:
    """An open record. path: the file; connection: with autocommit; use it from one thread at a time."""

    def __init__(self, path: Path, *, writing: bool) -> None:
        self.path = path
        self._hold: FileHold | None = None
        try:
            place = StoreFile.of(path)
            if writing:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not place.file.exists():
                raise RecordError(f"there is no incident record at {path}; `inferdoc serve` writes one")
            self._hold = FileHold(place, writing=writing)
            self.connection = _opened(place.file, writing=writing)
        except StoreError as error:
            self._let_go()
            raise RecordError(str(error).replace("--store", "--record").replace("the store", "the record")) from error
        except (OSError, sqlite3.Error) as error:
            self._let_go()
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise RecordError(f"{path}: no incident record can be opened there: {why}; give another --record") from None
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        if self._hold is not None:
            self._hold.let_go()

    def close(self) -> None:
        """Close the file, and let another process write."""
        self.connection.close()
        self._let_go()


def _opened(file: Path, *, writing: bool) -> sqlite3.Connection:
    target = f"{file.absolute().as_uri()}?mode={'rwc' if writing else 'ro'}"
    connection = sqlite3.connect(target, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        blank = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
        kind, version = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if not (blank and writing) and (kind != APPLICATION_ID or version != FORMAT):
            raise RecordError(f"{file}: not an incident record of this release; give another --record")
        if writing:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # what was acknowledged is on the disk
            connection.executescript(_TABLES)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
    except BaseException:
        connection.close()
        raise
    return connection
