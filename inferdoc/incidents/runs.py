"""The queue of diagnosis runs: take the next, store its result, queue notifications."""

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
"""Follow-up runs after an inconclusive run while an alert fires: a new fault shows in few scrapes."""
SETTLED_SECONDS = 180.0
"""Follow-up run after the first cause: causes look similar in their first minute."""
FARTHEST_SECONDS = 900.0
IS_DUE = f"(due <= :now OR due > :now + {FARTHEST_SECONDS})"
"""What is due later than anything can be was written by a clock that ran ahead and has been set back: now, then."""
INCONCLUSIVE = ("healthy", "unknown")


@dataclass(frozen=True)
class RunOutcome:
    """Result of a run. page: its HTML report; ended_by: the change before the end, in words."""

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
    """After a start: interrupted runs are pending again. Returns the number of pending runs."""
    with record.writing() as connection:
        connection.execute("UPDATE look SET state = 'waiting', began = NULL WHERE state = 'running'")
        return int(connection.execute("SELECT count(*) FROM look WHERE state = 'waiting'").fetchone()[0])


def begin(record: Record, now: float) -> tuple[DiagnosisRun, Incident] | None:
    """Take the next due run; None if there is none. An incident has one run at a time."""
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
    """Put an interrupted run back into the queue."""
    with record.writing() as connection:
        connection.execute("UPDATE look SET state = 'waiting', began = NULL WHERE number = ?", (run.number,))


def finish(record: Record, run: DiagnosisRun, outcome: RunOutcome, now: float, outputs: Sequence[str]) -> bool:
    """Store the result of a run. Whether a notification is queued."""
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
        # A run after the end may find no cause; the incident keeps its own.
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
        nothing_new = posted is not None and (new.verdict, new.cause) == (posted.verdict, posted.cause)
        worth = not (run.why in ("joined", "again") and nothing_new)
        if worth:
            connection.execute(
                "UPDATE incident SET posted = ? WHERE id = ?", (msgspec.json.encode(kept).decode(), run.incident)
            )
            _post(connection, run, now, outputs)
        return worth


def fail(record: Record, run: DiagnosisRun, why: str, now: float, outputs: Sequence[str]) -> None:
    """Store the error of a run, notify once, and queue a follow-up."""
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
    """Queue a follow-up run, a few times."""
    rows = connection.execute("SELECT why FROM look WHERE incident = ? ORDER BY number DESC", (run.incident,))
    made = 0
    for row in rows:
        if row["why"] != "again":
            break
        made += 1
    if made < len(AGAIN_SECONDS):
        _schedule_run(connection, run.incident, now, AGAIN_SECONDS[made])


def _schedule_run(connection: sqlite3.Connection, incident: str, now: float, after: float) -> None:
    """Queue a run after some seconds, unless one is pending."""
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
    """When the next run is due, Unix seconds; None if none is pending."""
    with record.reading() as connection:
        found = connection.execute("SELECT min(due) FROM look WHERE state = 'waiting'").fetchone()[0]
        return None if found is None else float(found)


def counts(record: Record) -> dict[str, int]:
    """Runs by state, and open incidents under `open`."""
    with record.reading() as connection:
        found = {row[0]: int(row[1]) for row in connection.execute("SELECT state, count(*) FROM look GROUP BY state")}
        found["open"] = int(connection.execute("SELECT count(*) FROM incident WHERE resolved IS NULL").fetchone()[0])
        return found


def newest(record: Record) -> float | None:
    """When the newest run was due, Unix seconds; None without any."""
    with record.reading() as connection:
        found = connection.execute("SELECT max(due) FROM look").fetchone()[0]
        return None if found is None else float(found)


def prune(record: Record, before: float) -> int:
    """Delete incidents that ended before a time. Returns their number."""
    with record.writing() as connection:
        return connection.execute("DELETE FROM incident WHERE resolved < ?", (before,)).rowcount


PAUSES = (2.0, 10.0, 60.0, 300.0, FARTHEST_SECONDS)
"""Seconds between tries; the last one again and again."""
_FIRST = """SELECT min(post.number) FROM post JOIN look ON look.number = look
WHERE output = :output AND post.state = 'waiting' GROUP BY incident"""

_FAILED_SINCE_SUCCESS = """SELECT max(tries) FROM post WHERE output = :output AND number >
(SELECT coalesce(max(number), 0) FROM post WHERE output = :output AND state = 'sent')"""


def due(record: Record, output: str, now: float) -> PostDue | None:
    """What is to be sent to an output now; of an incident only what comes first, so that the order is kept."""
    with record.reading() as connection:
        row = connection.execute(
            f"SELECT * FROM post WHERE number IN ({_FIRST}) AND {IS_DUE} ORDER BY due, number LIMIT 1",
            {"output": output, "now": now},
        ).fetchone()
    return None if row is None else PostDue(row["number"], row["look"], row["output"], row["tries"])


def about(record: Record, post: PostDue) -> tuple[DiagnosisRun, Incident]:
    """The run and the incident of a notification."""
    with record.reading() as connection:
        row = connection.execute("SELECT * FROM look WHERE number = ?", (post.run,)).fetchone()
        incident = connection.execute("SELECT * FROM incident WHERE id = ?", (row["incident"],)).fetchone()
        return run_from_row(row), incident_from_row(connection, incident)


def reference(record: Record, incident: str, output: str) -> str | None:
    """Where an output keeps its message about an incident: a thread, an annotation. None before the first."""
    with record.reading() as connection:
        row = connection.execute(
            "SELECT value FROM reference WHERE incident = ? AND output = ?", (incident, output)
        ).fetchone()
    return None if row is None else str(row[0])


def sent(record: Record, post: PostDue, reference: str | None = None) -> None:
    """Record a delivery. reference: of the message that later ones update."""
    with record.writing() as connection:
        if reference is not None:
            connection.execute(
                "INSERT INTO reference SELECT incident, ?, ? FROM look WHERE number = ?"
                " ON CONFLICT DO UPDATE SET value = excluded.value",
                (post.output, reference, post.run),
            )
        connection.execute("UPDATE post SET state = 'sent', tries = tries + 1 WHERE number = ?", (post.number,))


def missed(record: Record, post: PostDue, why: str, now: float, limit: float, *, final: bool = False) -> bool:
    """Record a failed delivery. limit: seconds of retries after the run; final: no retry can succeed. Whether it is
    given up. A clock that jumps ahead gives nothing up: the output must have failed as often as fits into the limit."""
    with record.writing() as connection:
        made = connection.execute("SELECT coalesce(ended, asked) FROM look WHERE number = ?", (post.run,)).fetchone()[0]
        failed = connection.execute(_FAILED_SINCE_SUCCESS, {"output": post.output}).fetchone()[0] or 0
        left = made + limit - now
        last = final or (left <= 0 and _pauses(max(post.tries, failed)) >= limit)
        pause = PAUSES[min(post.tries, len(PAUSES) - 1)]
        connection.execute(
            "UPDATE post SET state = ?, tries = tries + 1, due = ?, fault = ? WHERE number = ?",
            ("failed" if last else "waiting", now + (min(pause, left) if left > 0 else pause), why, post.number),
        )
    return last


def _pauses(tries: int) -> float:
    """Seconds that so many tries take with the pauses between them."""
    return sum(PAUSES[:tries]) + max(0, tries - len(PAUSES)) * PAUSES[-1]


def dropped(record: Record, outputs: set[str]) -> int:
    """Give up what waits for outputs that are configured no more. How many."""
    with record.writing() as connection:
        marks = ",".join("?" * len(outputs)) or "NULL"
        return connection.execute(
            f"UPDATE post SET state = 'failed', fault = 'the output is no longer configured' WHERE state = 'waiting'"
            f" AND output NOT IN ({marks})",
            tuple(outputs),
        ).rowcount


def next_post_due(record: Record, output: str) -> float | None:
    """When the next try is due, Unix seconds; None where nothing waits."""
    with record.reading() as connection:
        found = connection.execute(
            f"SELECT min(due) FROM post WHERE number IN ({_FIRST})", {"output": output}
        ).fetchone()[0]
        return None if found is None else float(found)


def pending(record: Record) -> dict[str, int]:
    """How many messages wait, by output."""
    with record.reading() as connection:
        rows = connection.execute("SELECT output, count(*) FROM post WHERE state = 'waiting' GROUP BY output")
        return {row[0]: int(row[1]) for row in rows}
