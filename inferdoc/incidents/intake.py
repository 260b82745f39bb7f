"""Group alerts into incidents and queue diagnosis runs.

A message becomes one transaction: once it is acknowledged, no crash loses it. An incident is found by its alerts, not
by the message: Alertmanager sends a group again when an alert joins it, when one ends, and every `repeat_interval`.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from inferdoc.catalogue.content import content_file
from inferdoc.errors import InferdocError
from inferdoc.incidents.model import AlertScope, ReceivedAlert, Why, common_place, fits
from inferdoc.incidents.record import Record
from inferdoc.times import length_of

Outcome = Literal["accepted", "merged", "ignored"]
"""A run is queued, a known incident continues, or there is no incident."""
RANK: tuple[Why, ...] = ("again", "resolved", "repeat", "joined", "reopened", "alert")
"""If a run has two reasons, the later one in this list is shown."""


class QueueFullError(InferdocError):
    """The queue of diagnosis runs is full."""


@dataclass(frozen=True)
class Merging:
    """Seconds. grace: an alert that fires again this soon after its incident ended reopens it; together: alerts of one
    pool with starts this close are one incident; repeat: minimum time between runs for a repeated alert. queue: maximum
    of pending runs."""

    grace: float = 900.0
    together: float = 1800.0
    repeat: float = 600.0
    queue: int = 64


def take(record: Record, alerts: Sequence[ReceivedAlert], tenant: str, now: float, rules: Merging) -> Outcome:
    """Enter the alerts of one message. Raises QueueFullError, and enters nothing then."""
    if not alerts:
        return "ignored"
    with record.writing() as connection:
        name = _known(connection, alerts, tenant, now, rules) or _beside(connection, alerts, tenant, now, rules)
        if name is None:
            if all(alert.ends is not None for alert in alerts):
                return "ignored"
            name = _opened(connection, alerts, tenant)
            why: Why | None = "alert"
        else:
            why = _why(connection, name, alerts, now, rules)
        _enter(connection, name, alerts, now)
        why = _ended(connection, name, now) or why
        return "merged" if why is None else _queue_run(connection, name, why, now, rules)


def _known(
    connection: sqlite3.Connection, alerts: Sequence[ReceivedAlert], tenant: str, now: float, rules: Merging
) -> str | None:
    """The incident that an alert of the message belongs to already: open, or over for less than the grace time."""
    for alert in alerts:
        row = connection.execute(
            "SELECT incident FROM alert JOIN incident ON incident.id = alert.incident WHERE fingerprint = ?"
            " AND tenant = ? AND (starts = ? OR resolved IS NULL OR resolved > ?) ORDER BY opened DESC LIMIT 1",
            (alert.fingerprint, tenant, alert.starts, now - rules.grace),
        ).fetchone()
        if row is not None:
            return str(row[0])
    return None


def _beside(
    connection: sqlite3.Connection, alerts: Sequence[ReceivedAlert], tenant: str, now: float, rules: Merging
) -> str | None:
    """An incident of the same pool whose alerts started at about the same time."""
    place = common_place(alerts)
    starts = min(alert.starts for alert in alerts)
    rows = connection.execute(
        "SELECT id, cluster, namespace, model, pod, (SELECT min(abs(starts - ?)) FROM alert WHERE incident = id) AS off"
        " FROM incident WHERE tenant = ? AND (resolved IS NULL OR resolved > ?) ORDER BY off",
        (starts, tenant, now - rules.grace),
    )
    for row in rows:
        there = AlertScope(row["cluster"], row["namespace"], row["model"], row["pod"])
        if row["off"] is not None and row["off"] <= rules.together and fits(place, there):
            return str(row["id"])
    return None


def _opened(connection: sqlite3.Connection, alerts: Sequence[ReceivedAlert], tenant: str) -> str:
    firing = [alert for alert in alerts if alert.ends is None]
    opened = min(alert.starts for alert in firing)
    place = common_place(firing)
    name = f"{datetime.fromtimestamp(opened, UTC):%Y%m%d-%H%M}-{secrets.token_hex(3)}"
    connection.execute(
        "INSERT INTO incident (id, tenant, cluster, namespace, model, pod, opened) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (name, tenant, *place.pool, place.pod, opened),
    )
    return name


def _why(
    connection: sqlite3.Connection, name: str, alerts: Sequence[ReceivedAlert], now: float, rules: Merging
) -> Why | None:
    """Reason of a new run of a known incident; None if nothing is new."""
    firing = [alert for alert in alerts if alert.ends is None]
    if not firing:
        return None
    over = connection.execute("SELECT resolved FROM incident WHERE id = ?", (name,)).fetchone()[0]
    if over is not None:
        connection.execute(
            "UPDATE incident SET resolved = NULL, ended_by = NULL, reopened = reopened + 1 WHERE id = ?", (name,)
        )
        return "reopened"
    known = {
        tuple(row)
        for row in connection.execute(
            "SELECT fingerprint, starts FROM alert WHERE incident = ? AND ends IS NULL", (name,)
        )
    }
    if any((alert.fingerprint, alert.starts) not in known for alert in firing):
        return "joined"
    # A follow-up run sends no notification, so it does not replace the run of a repeated alert.
    query = "SELECT max(coalesce(ended, asked)) FROM look WHERE incident = ? AND why != 'again'"
    last = connection.execute(query, (name,)).fetchone()[0]
    return "repeat" if last is None or now - last >= rules.repeat else None


def _enter(connection: sqlite3.Connection, name: str, alerts: Sequence[ReceivedAlert], now: float) -> None:
    """Alertmanager says the end of an alert only while it remembers it: one that begins again has ended before."""
    for alert in alerts:
        connection.execute(
            "UPDATE alert SET ends = ? WHERE incident = ? AND fingerprint = ? AND starts < ? AND ends IS NULL",
            (min(now, alert.starts), name, alert.fingerprint, alert.starts),
        )
        texts = (msgspec.json.encode(each).decode() for each in (alert.labels, alert.annotations))
        connection.execute(
            "INSERT INTO alert (incident, fingerprint, starts, ends, name, labels, annotations, url)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (incident, fingerprint, starts) DO UPDATE SET"
            " ends = excluded.ends",
            (name, alert.fingerprint, alert.starts, alert.ends, alert.name, *texts, alert.url),
        )


def _ended(connection: sqlite3.Connection, name: str, now: float) -> Why | None:
    """Close the incident when the last of its alerts is over."""
    row = connection.execute(
        "SELECT resolved, (SELECT count(*) FROM alert WHERE incident = id AND ends IS NULL) AS firing,"
        " (SELECT max(ends) FROM alert WHERE incident = id) AS ends FROM incident WHERE id = ?",
        (name,),
    ).fetchone()
    if row["firing"] or row["resolved"] is not None:
        return None
    connection.execute("UPDATE incident SET resolved = ? WHERE id = ?", (min(now, row["ends"]), name))
    return "resolved"


def _queue_run(connection: sqlite3.Connection, name: str, why: Why, now: float, rules: Merging) -> Outcome:
    """Queue a run, unless one is pending for the incident."""
    row = connection.execute(
        "SELECT number, why, due FROM look WHERE incident = ? AND state = 'waiting'", (name,)
    ).fetchone()
    if row is not None:
        more = why if row["why"] == "again" else max(why, row["why"], key=RANK.index)
        connection.execute("UPDATE look SET why = ?, due = min(due, ?) WHERE number = ?", (more, now, row["number"]))
        return "merged" if row["due"] <= now else "accepted"
    waiting = connection.execute("SELECT count(*) FROM look WHERE state = 'waiting' AND due <= ?", (now,)).fetchone()[0]
    if waiting >= rules.queue:
        raise QueueFullError(f"diagnosis queue is full ({waiting} pending); retry later")
    connection.execute(
        "INSERT INTO look (incident, why, state, asked, due) VALUES (?, ?, 'waiting', ?, ?)", (name, why, now, now)
    )
    return "accepted"


BEFORE_SECONDS = 900.0
"""Before the earliest start: an onset needs healthy samples before it in the window."""
MOST_SECONDS = 24 * 3600.0
"""Maximum window: an alert that fires for days is diagnosed over its last day."""


def window_from(alerts: Sequence[ReceivedAlert], now: float, rules: Mapping[str, RuleTimes]) -> float:
    """Start of the window, Unix seconds: before the earliest alert by the `for` and the range of its rule. alerts: the
    firing ones, or all if none fires."""
    firing = [alert for alert in alerts if alert.ends is None] or list(alerts)
    begins = min((alert.starts - find_rule_times(alert.name, rules).lead for alert in firing), default=now)
    return max(min(begins, now) - BEFORE_SECONDS, now - MOST_SECONDS)


RATE_WINDOW = 300.0
"""Default range of a rate in seconds, as in our recording rules and most public ones."""
UNKNOWN_FOR = 600.0
"""Seconds that a rule of somebody else may have waited: few of the public ones wait for longer than ten minutes."""
LONGEST = 6 * 3600.0
"""Limit for slow burn-rate alerts, whose range is days."""
_RANGE = re.compile(r"(?:\[|:(?:rate|ratio|avg|max|increase))(\d+(?:ms|[smhdw]))")


@dataclass(frozen=True)
class RuleTimes:
    """waits: its `for`, seconds; range_seconds: over how many seconds its expression reads."""

    waits: float = UNKNOWN_FOR
    range_seconds: float = RATE_WINDOW

    @property
    def lead(self) -> float:
        """Maximum seconds between the cause and the start of the alert."""
        return self.waits + min(self.range_seconds, LONGEST)


def find_rule_times(name: str, known: Mapping[str, RuleTimes]) -> RuleTimes:
    """Of the rule that an alert comes from; careful ones for a rule that is not ours."""
    return known.get(name, RuleTimes())


@cache
def own_rules() -> Mapping[str, RuleTimes]:
    """By alert name: those of the generated pack."""
    file = content_file("alerts", "generated/inferdoc-rules.yaml")
    return rule_times([file]) if file is not None else {}


class _Rule(msgspec.Struct):
    expr: str
    alert: str | None = None
    waits: str = msgspec.field(default="0s", name="for")


class _Group(msgspec.Struct):
    rules: list[_Rule] = []


class _File(msgspec.Struct):
    groups: list[_Group] = []


def rule_times(files: Sequence[Path]) -> dict[str, RuleTimes]:
    """By alert name, of files of rules as Prometheus reads them."""
    times = {}
    for file in files:
        document = msgspec.convert(yaml.load(file.read_text("utf-8"), yaml.CSafeLoader), _File)
        for rule in (rule for group in document.groups for rule in group.rules if rule.alert):
            ranges = [length_of(text) for text in _RANGE.findall(rule.expr)]
            times[str(rule.alert)] = RuleTimes(length_of(rule.waits), max([RATE_WINDOW, *ranges]))
    return times
