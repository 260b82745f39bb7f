"""Reading the incident record."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError, SourceError
from inferdoc.incidents.model import AlertScope, DiagnosisRun, Incident, ReceivedAlert, Story
from inferdoc.judging.model import Diagnosis
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


DAMAGED = (sqlite3.Error, UnicodeError, zlib.error, msgspec.MsgspecError)
"""What a damaged file raises. SQLite quotes its schema in messages, and damaged text has no encoding."""


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
        except (OSError, *DAMAGED) as error:
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


MOST_LISTED = 1000


class Record:
    """The incidents of a file. Safe to use from several threads, which take turns."""

    def __init__(self, path: str | Path, *, writing: bool = False) -> None:
        self.path = Path(path)
        self._database = Database(self.path, writing=writing)
        self._turn = threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time. Raises RecordError where the file fails."""
        with self._turn:
            try:
                yield self._database.connection
            except DAMAGED as error:
                raise RecordError(f"{self.path}: the incident record cannot be read or written: {error}") from None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The same within one transaction, which is on the disk at the end of the block, or undone by an error."""
        with self.reading() as connection:
            if connection.in_transaction:  # one that could not be undone, since the disk failed
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite undoes some itself, such as of a full disk
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file."""
        with self._turn:
            self._database.close()

    def incidents(self, *, only_open: bool = False, limit: int = MOST_LISTED) -> list[Incident]:
        """The newest first."""
        where = "WHERE resolved IS NULL" if only_open else ""
        with self.reading() as connection:
            rows = connection.execute(
                f"SELECT * FROM incident {where} ORDER BY opened DESC, id DESC LIMIT ?", (min(limit, MOST_LISTED),)
            ).fetchall()
            return [incident_from_row(connection, row) for row in rows]

    def incident(self, name: str) -> Incident:
        """By its id, or by a beginning that no other has. Raises InferdocError with the nearest."""
        with self.reading() as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM incident ORDER BY opened DESC")]
            there = [one for one in ids if one == name] or [one for one in ids if one.startswith(name)]
            if len(there) == 1:
                row = connection.execute("SELECT * FROM incident WHERE id = ?", (there[0],)).fetchone()
                return incident_from_row(connection, row)
        if there:
            raise InferdocError(
                f"{name}: {len(there)} incidents match, such as {there[0]} and {there[1]}; give more characters"
            )
        raise InferdocError(f"{name}: no such incident{nearest(name, ids)}; `inferdoc history` lists them")

    def runs(self, incident: str) -> list[DiagnosisRun]:
        """Finished and pending runs of an incident, in order."""
        with self.reading() as connection:
            rows = connection.execute("SELECT * FROM look WHERE incident = ? ORDER BY number", (incident,)).fetchall()
            return [run_from_row(row) for row in rows]

    def diagnosis(self, run: int) -> Diagnosis:
        """The document of a run. Raises InferdocError if it has none."""
        with self.reading() as connection:
            row = connection.execute("SELECT document FROM look WHERE number = ?", (run,)).fetchone()
            if row is None or row[0] is None:
                raise InferdocError(f"run {run} has no stored diagnosis")
            return msgspec.json.decode(zlib.decompress(row[0]), type=Diagnosis)

    def page(self, run: int) -> str | None:
        """The HTML report of a run; None if none is stored."""
        with self.reading() as connection:
            row = connection.execute("SELECT page FROM look WHERE number = ?", (run,)).fetchone()
            return None if row is None or row[0] is None else zlib.decompress(row[0]).decode()

    def newest_run(self, incident: str) -> DiagnosisRun | None:
        """The last finished run."""
        finished = [run for run in self.runs(incident) if run.state == "done"]
        return finished[-1] if finished else None

    def conclusive_run(self, incident: str) -> DiagnosisRun | None:
        """The last run with a cause, else the last finished run; None without one."""
        done = [run for run in self.runs(incident) if run.state == "done"]
        return next((run for run in reversed(done) if run.story and run.story.cause), done[-1] if done else None)

    def like(self, incident: Incident) -> Incident | None:
        """The last incident before this one with the same cause on the same pool; None without one."""
        if incident.story is None or incident.story.cause is None:
            return None
        with self.reading() as connection:
            row = connection.execute(
                "SELECT * FROM incident WHERE opened < ? AND id != ? AND tenant = ? AND cluster = ? AND namespace = ?"
                " AND model = ? AND json_extract(story, '$.cause') = ? ORDER BY opened DESC LIMIT 1",
                (incident.opened, incident.id, incident.tenant, *incident.place.pool, incident.story.cause),
            ).fetchone()
            return None if row is None else incident_from_row(connection, row)


def incident_from_row(connection: sqlite3.Connection, row: sqlite3.Row) -> Incident:
    """A row of the table of incidents, with its alerts."""
    alerts = connection.execute(
        "SELECT * FROM alert WHERE incident = ? ORDER BY starts, fingerprint", (row["id"],)
    ).fetchall()
    return Incident(
        row["id"],
        row["tenant"],
        AlertScope(row["cluster"], row["namespace"], row["model"], row["pod"]),
        row["opened"],
        row["resolved"],
        row["reopened"],
        row["ended_by"],
        [_alert(alert) for alert in alerts],
        decode_story(row["story"]),
    )


def run_from_row(row: sqlite3.Row) -> DiagnosisRun:
    """A row of the table `look`, without its document."""
    fields = ("number", "incident", "why", "state", "due", "ended", "from_", "until", "failure")
    return DiagnosisRun(
        **{name: row[name] for name in fields},
        requested=row["asked"],
        started=row["began"],
        story=decode_story(row["story"]),
    )


def decode_story(text: str | None) -> Story | None:
    """A story as it is kept."""
    return None if text is None else msgspec.json.decode(text, type=Story)


def _alert(row: sqlite3.Row) -> ReceivedAlert:
    labels, annotations = (msgspec.json.decode(row[name], type=dict[str, str]) for name in ("labels", "annotations"))
    return ReceivedAlert(row["fingerprint"], row["name"], labels, annotations, row["starts"], row["ends"], row["url"])


def alert_names(alerts: Sequence[ReceivedAlert]) -> list[str]:
    """The names of alerts, each once."""
    return list(dict.fromkeys(alert.name for alert in alerts))
