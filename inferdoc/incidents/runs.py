"""The looks that are to be taken: which is next, what it told, and what is to be posted of it."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from inferdoc.incidents.model import DiagnosisRun, Incident, Story
from inferdoc.incidents.record import Record, decode_story, incident_from_row, run_from_row
from inferdoc.judging.model import Diagnosis

AGAIN_SECONDS = (10.0, 15.0, 30.0, 60.0, 180.0, 300.0)
"""When to look again after looks that told nothing, while an alert fires: what has just begun shows in few scrapes."""
SETTLED_SECONDS = 180.0
FARTHEST_SECONDS = 900.0
IS_DUE = f"(due <= :now OR due > :now + {FARTHEST_SECONDS})"
"""What is due later than anything can be was written by a clock that ran ahead and has been set back: now, then."""
"""After the first look that told a cause: the first minute of one often looks like another's."""
INCONCLUSIVE = ("healthy", "unknown")


@dataclass(frozen=True)
class RunOutcome:
    """What a look told. page: its HTML report; ended_by: what changed when it ended, in words."""

    diagnosis: Diagnosis
    page: str | None = None
    ended_by: str | None = None


@dataclass(frozen=True)
class PostDue:
    """A message that an output has yet to take. tries: made so far."""

    number: int
    run: int
    output: str
    tries: int


def story(answer: Diagnosis) -> Story:
    """A diagnosis in short."""
    if not answer.findings:
        return Story(answer.verdict, answer.summary)
    first = answer.findings[0]
    return Story(
        answer.verdict,
        answer.summary,
        first.id,
        first.title,
        first.severity,
        first.certainty,
        first.onset,
        tuple(first.scope.pods),
    )


def resume(record: Record) -> int:
    """After a start: looks that were under way when the process ended wait again. How many wait."""
    with record.writing() as connection:
        connection.execute("UPDATE look SET state = 'waiting', began = NULL WHERE state = 'running'")
        return int(connection.execute("SELECT count(*) FROM look WHERE state = 'waiting'").fetchone()[0])


def begin(record: Record, now: float) -> tuple[DiagnosisRun, Incident] | None:
    """Take the next look that is due; None where none is. An incident is looked at by one at a time."""
    with record.writing() as connection:
        row = connection.execute(
            f"SELECT * FROM look WHERE state = 'waiting' AND {IS_DUE} AND incident NOT IN"
            " (SELECT incident FROM look WHERE state = 'running') ORDER BY due, number LIMIT 1",
            {"now": now},
        ).fetchone()
        if row is None:
            return None
        connection.execute("UPDATE look SET state = 'running', began = ? WHERE number = ?", (now, row["number"]))
        incident = connection.execute("SELECT * FROM incident WHERE id = ?", (row["incident"],)).fetchone()
        return run_from_row(row), incident_from_row(connection, incident)


def requeue(record: Record, run: DiagnosisRun) -> None:
    """A look that was begun and could not be finished, since the process ends, waits again."""
    with record.writing() as connection:
        connection.execute("UPDATE look SET state = 'waiting', began = NULL WHERE number = ?", (run.number,))


def finish(record: Record, run: DiagnosisRun, outcome: RunOutcome, now: float, outputs: Sequence[str]) -> bool:
    """Keep what a look told. Whether it is to be posted."""
    new = story(outcome.diagnosis)
    window = outcome.diagnosis.window
    with record.writing() as connection:
        connection.execute(
            "UPDATE look SET state = 'done', ended = ?, from_ = ?, until = ?, story = ?, document = ?, page = ?"
            " WHERE number = ?",
            (
                now,
                window.from_,
                window.until,
                msgspec.json.encode(new).decode(),
                zlib.compress(msgspec.json.encode(outcome.diagnosis)),
                None if outcome.page is None else zlib.compress(outcome.page.encode()),
                run.number,
            ),
        )
        row = connection.execute(
            "SELECT story, posted, resolved FROM incident WHERE id = ?", (run.incident,)
        ).fetchone()
        before = decode_story(row["story"])
        # What a look at the end no longer shows is still what the incident was.
        kept = before if before is not None and before.cause is not None and new.cause is None else new
        connection.execute(
            "UPDATE incident SET story = ?, ended_by = coalesce(?, ended_by) WHERE id = ?",
            (msgspec.json.encode(kept).decode(), outcome.ended_by, run.incident),
        )
        if row["resolved"] is None and new.verdict in INCONCLUSIVE:
            _again(connection, run, now)
        elif row["resolved"] is None and (before is None or before.cause is None or run.why == "reopened"):
            _schedule_run(connection, run.incident, now, SETTLED_SECONDS)
        posted = decode_story(row["posted"])
        worth = not (run.why in ("joined", "again") and new.is_same_story(posted))
        if worth:
            connection.execute(
                "UPDATE incident SET posted = ? WHERE id = ?", (msgspec.json.encode(kept).decode(), run.incident)
            )
            _post(connection, run, now, outputs)
        return worth


def fail(record: Record, run: DiagnosisRun, why: str, now: float, outputs: Sequence[str]) -> None:
    """Keep why a look told nothing, post that once, and look again."""
    with record.writing() as connection:
        earlier = connection.execute(
            "SELECT failure FROM look WHERE incident = ? AND state = 'failed' ORDER BY number DESC LIMIT 1",
            (run.incident,),
        ).fetchone()
        connection.execute(
            "UPDATE look SET state = 'failed', ended = ?, failure = ? WHERE number = ?", (now, why, run.number)
        )
        if earlier is None or earlier[0] != why or run.why != "again":
            _post(connection, run, now, outputs)
        resolved = connection.execute("SELECT resolved FROM incident WHERE id = ?", (run.incident,)).fetchone()[0]
        if resolved is None:
            _again(connection, run, now)


def _again(connection: sqlite3.Connection, run: DiagnosisRun, now: float) -> None:
    """Look again a little later, a few times."""
    rows = connection.execute("SELECT why FROM look WHERE incident = ? ORDER BY number DESC", (run.incident,))
    made = 0
    for row in rows:
        if row["why"] != "again":
            break
        made += 1
    if made < len(AGAIN_SECONDS):
        _schedule_run(connection, run.incident, now, AGAIN_SECONDS[made])


def _schedule_run(connection: sqlite3.Connection, incident: str, now: float, after: float) -> None:
    """A look after so many seconds, unless one waits already."""
    connection.execute(
        "INSERT INTO look (incident, why, state, asked, due) SELECT ?, 'again', 'waiting', ?, ?"
        " WHERE NOT EXISTS (SELECT 1 FROM look WHERE incident = ? AND state = 'waiting')",
        (incident, now, now + after, incident),
    )


def _post(connection: sqlite3.Connection, run: DiagnosisRun, now: float, outputs: Sequence[str]) -> None:
    connection.executemany(
        "INSERT INTO post (look, output, state, due) VALUES (?, ?, 'waiting', ?)",
        [(run.number, output, now) for output in outputs],
    )


def next_due(record: Record) -> float | None:
    """When the next look is due, Unix seconds; None where none waits."""
    with record.reading() as connection:
        found = connection.execute("SELECT min(due) FROM look WHERE state = 'waiting'").fetchone()[0]
        return None if found is None else float(found)


def counts(record: Record) -> dict[str, int]:
    """Looks by state, and open incidents under `open`."""
    with record.reading() as connection:
        found = {row[0]: int(row[1]) for row in connection.execute("SELECT state, count(*) FROM look GROUP BY state")}
        found["open"] = int(connection.execute("SELECT count(*) FROM incident WHERE resolved IS NULL").fetchone()[0])
        return found


def prune(record: Record, before: float) -> int:
    """Forget incidents that were over before a time. How many."""
    with record.writing() as connection:
        return connection.execute("DELETE FROM incident WHERE resolved < ?", (before,)).rowcount
