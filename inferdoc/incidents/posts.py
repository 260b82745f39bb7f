"""The queue of notifications: kept until delivered or too old."""

from __future__ import annotations

from inferdoc.incidents.model import DiagnosisRun, Incident
from inferdoc.incidents.record import Record, incident_from_row, run_from_row
from inferdoc.incidents.runs import FARTHEST_SECONDS, IS_DUE, PostDue

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


def next_due(record: Record, output: str) -> float | None:
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
