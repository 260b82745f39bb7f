"""What outputs have yet to take: kept until they took it, or failed too often."""

from __future__ import annotations

from inferdoc.incidents.looks import PostDue
from inferdoc.incidents.model import Incident, Look
from inferdoc.incidents.record import Record, incident_of, look_of

PAUSES = (2.0, 10.0, 60.0, 300.0)
"""Seconds between tries; after the last one it is given up."""


def due(record: Record, now: float) -> list[PostDue]:
    """What is to be sent now, oldest first; of one output only what comes first, so that the order is kept."""
    with record.reading() as connection:
        rows = connection.execute(
            "SELECT min(number) AS number, output FROM post WHERE state = 'waiting' GROUP BY output ORDER BY number"
        ).fetchall()
        found = [
            connection.execute("SELECT * FROM post WHERE number = ? AND due <= ?", (row["number"], now)).fetchone()
            for row in rows
        ]
    return [PostDue(row["number"], row["look"], row["output"], row["tries"]) for row in found if row is not None]


def about(record: Record, post: PostDue) -> tuple[Look, Incident]:
    """The look that a post tells of, and its incident."""
    with record.reading() as connection:
        row = connection.execute("SELECT * FROM look WHERE number = ?", (post.look,)).fetchone()
        incident = connection.execute("SELECT * FROM incident WHERE id = ?", (row["incident"],)).fetchone()
        return look_of(row), incident_of(connection, incident)


def sent(record: Record, post: PostDue) -> None:
    """It was taken."""
    with record.writing() as connection:
        connection.execute("UPDATE post SET state = 'sent', tries = tries + 1 WHERE number = ?", (post.number,))


def missed(record: Record, post: PostDue, why: str, now: float, *, final: bool = False) -> bool:
    """It was not taken. final: nor will it be. Whether it was the last try."""
    last = final or post.tries >= len(PAUSES)
    with record.writing() as connection:
        connection.execute(
            "UPDATE post SET state = ?, tries = tries + 1, due = ?, fault = ? WHERE number = ?",
            ("failed" if last else "waiting", now if last else now + PAUSES[post.tries], why, post.number),
        )
    return last


def dropped(record: Record, outputs: set[str]) -> int:
    """Give up what waits for outputs that are configured no more. How many."""
    with record.writing() as connection:
        marks = ",".join("?" * len(outputs)) or "NULL"
        return connection.execute(
            f"UPDATE post SET state = 'failed', fault = 'the output is configured no more' WHERE state = 'waiting'"
            f" AND output NOT IN ({marks})",
            tuple(outputs),
        ).rowcount


def next_due(record: Record) -> float | None:
    """When the next try is due, Unix seconds; None where nothing waits."""
    with record.reading() as connection:
        found = connection.execute(
            "SELECT min(due) FROM post WHERE number IN"
            " (SELECT min(number) FROM post WHERE state = 'waiting' GROUP BY output)"
        ).fetchone()[0]
        return None if found is None else float(found)
