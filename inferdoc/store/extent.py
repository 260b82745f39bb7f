"""When a store begins and ends, and which targets it knows."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from inferdoc.errors import NOT_JSON
from inferdoc.store.codec import DamagedError
from inferdoc.store.damage import DamageLog
from inferdoc.store.faults import damaged, guarded
from inferdoc.store.origin import HOUR_MS
from inferdoc.store.pages import EARLIEST_MS, LATEST_MS, outermost_ms
from inferdoc.store.rows import NOTHING, fetch
from inferdoc.store.schema import FORMAT_WITH_CHUNKS, check_format, transaction
from inferdoc.store.seal import Owner, owner_of
from inferdoc.store.segments import Segment, outermost_segment, overlapping
from inferdoc.words import some

TargetFilter = Callable[[dict[str, str]], bool] | None

_TARGETS = "SELECT count(*), max(id), (SELECT labels FROM target ORDER BY id DESC LIMIT 1) FROM target"
"""Shows whether there are others than before: labels never change, and an id is given out again only where what had it
was never committed."""
_NEWEST = "SELECT id, (SELECT max(ts_ms) FROM page WHERE target = target.id) FROM target"
_NEWEST_WITH_CHUNKS = """SELECT one.id, max(coalesce((SELECT max(ts_ms) FROM page WHERE target = one.id), last),
coalesce(last, (SELECT max(ts_ms) FROM page WHERE target = one.id))) FROM (SELECT id,
(SELECT end_ms FROM stretch WHERE target = target.id ORDER BY start_ms DESC LIMIT 1) AS last FROM target) AS one"""
"""By target, its newest time as it is stored: one query, since one for each of thousands takes ten times as long."""

FUTURE_MS = 600_000
"""So far ahead of our clock a sample may be, as in Prometheus (scrape/scrape.go: maxAheadTime)."""
PAST_MS = 86_400_000
"""How much older than its scrape the timestamp of a sample on a page may be."""
FIRST_MS = 946_684_800_000
"""2000-01-01, milliseconds since 1970 UTC. No page has an older sample: its exporter has no clock."""


def distance_text(milliseconds: int) -> str:
    """How far something lies away: "12 minutes", "1.0 days"."""
    days = milliseconds / 86_400_000
    return f"{days:.1f} days" if days >= 1 else f"{milliseconds / 60_000:.0f} minutes"


class StoredTarget(dict[str, str]):
    """The labels of a target. It is not to be changed."""

    @cached_property
    def key(self) -> frozenset[tuple[str, str]]:
        """The same labels, to look up by: worked out once for all who ask for one target of thousands."""
        return frozenset(self.items())


class Extent:
    """What can be determined of an open store without reading its scrapes. Every method sees one consistent state.

    damages: where scrapes that are damaged are noted and left out; None: the first one is an error. path: the file;
    connection: for the other modules of this package.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self.damages: DamageLog | None = None
        self._has_chunks = False
        self._shape: tuple[int, int, str] | None = None
        self._everyone: list[tuple[Owner, StoredTarget]] | None = None
        self._nameless: list[tuple[Owner, DamagedError]] = []
        self._chosen: tuple[TargetFilter, list[tuple[Owner, StoredTarget]]] | None = None

    def targets(self) -> list[dict[str, str]]:
        """Labels of every target, oldest first."""
        with self._reading():
            return [dict(labels) for _, labels in self._targets(None)]

    def owners(self) -> list[tuple[Owner, StoredTarget]]:
        """Every target as its rows know it, and its labels, oldest first."""
        with self._reading():
            return self._targets(None)

    def hours(self, start_ms: int, end_ms: int) -> list[int]:
        """When the hours (UTC) begin in which anything lies in [start_ms, end_ms], milliseconds since 1970 UTC."""
        pages = f"SELECT DISTINCT ts_ms / {HOUR_MS} FROM page WHERE ts_ms BETWEEN ? AND ?"
        segments = f"SELECT DISTINCT start_ms / {HOUR_MS} FROM stretch WHERE end_ms >= ? AND start_ms <= ?"
        with self._reading():
            rows = fetch(self.connection, pages, (start_ms, end_ms), int)
            if self._has_chunks:
                rows += fetch(self.connection, segments, (start_ms, end_ms), int)
        return sorted({hour * HOUR_MS for (hour,) in rows})

    def first_ms(self) -> int | None:
        """Time of the oldest sample, milliseconds since 1970 UTC; None if the store is empty."""
        return min((time_ms for _, time_ms in self._edges(newest=False)), default=None)

    def newest_ms(self) -> int | None:
        """Time of the newest sample, whatever it is; None if the store is empty. Whether it is intact is looked at from
        the newest on: of a store of thousands of targets at the scrapes of one or two."""
        with self._reading():
            everyone = self._targets(None)
            by_target = dict(self.connection.execute(_NEWEST_WITH_CHUNKS if self._has_chunks else _NEWEST).fetchall())
            stored = [(each, owner) for owner, _ in everyone if (each := by_target.get(owner.id)) is not None]
            # What is of another type than it should be is looked at first.
            ranked = [(each if isinstance(each, int) else LATEST_MS, owner) for each, owner in stored]
            newest: int | None = None
            for at_most, owner in sorted(ranked, reverse=True):
                if newest is not None and newest >= at_most:
                    break
                find = self._stored_edges if self.damages is None else self._intact_edges
                newest = max((each for each in (newest, *find(owner, True)) if each is not None), default=None)
            return newest

    def latest_ms(self, now_ms: int | None = None) -> int | None:
        """Time of the newest sample that is not in the future, milliseconds since 1970 UTC; None if the store is empty.

        now_ms: the time, by default that of the clock. A sample more than ten minutes after it was stamped by a clock
        that ran ahead, and is looked past, unless all samples are: then the clock here is behind.
        """
        newest = self.newest_ms()
        limit = (int(time.time() * 1000) if now_ms is None else now_ms) + FUTURE_MS
        if newest is None or newest <= limit:
            return newest
        return self._latest_until(limit) or newest

    def _segments(self, target: Owner, labels: dict[str, str], start_ms: int, end_ms: int) -> list[Segment]:
        if not self._has_chunks:
            return []
        log = self.damages
        if log is None:
            return overlapping(self.connection, target, start_ms, end_ms)

        def note(first_ms: int, last_ms: int, error: DamagedError) -> None:
            log.note(target, labels, (first_ms, last_ms), None, error)

        return overlapping(self.connection, target, start_ms, end_ms, note)

    def target_count(self) -> int:
        """How many targets there are, of whatever time."""
        return int(fetch(self.connection, "SELECT count(*) FROM target", (), int)[0][0])

    def _targets(self, test: TargetFilter) -> list[tuple[Owner, StoredTarget]]:
        """Every target that passes the test, oldest first. Those of the last test are kept: the same test is answered
        at once."""
        shape = self.connection.execute(_TARGETS).fetchone()
        if self._everyone is None or self._shape != shape:
            self._shape, self._chosen = shape, None
            self._everyone, self._nameless = self._decoded()
        for owner, fault in self._nameless:
            if self.damages is None:
                raise fault
            self.damages.note(owner, {}, None, None, fault)
        if test is None:
            return self._everyone
        if self._chosen is None or self._chosen[0] is not test:
            self._chosen = test, [(owner, labels) for owner, labels in self._everyone if test(labels)]
        return self._chosen[1]

    def _decoded(self) -> tuple[list[tuple[Owner, StoredTarget]], list[tuple[Owner, DamagedError]]]:
        """All targets, and those whose labels do not decode."""
        found, nameless = list[tuple[Owner, StoredTarget]](), list[tuple[Owner, DamagedError]]()
        for number, text in fetch(self.connection, "SELECT id, labels FROM target ORDER BY id", (), int, str):
            owner = owner_of(number, text)
            try:
                found.append((owner, StoredTarget(json.loads(text))))
            except (*NOT_JSON, TypeError) as error:
                nameless.append((owner, DamagedError(f"the labels of a target do not decode ({error})")))
        return found, nameless

    def ahead(self, now_ms: int | None = None) -> str | None:
        """One line about samples in the future that `latest_ms` looks past; None without any."""
        latest, last = self.latest_ms(now_ms), self.newest_ms()
        if latest is None or last is None or last <= latest:
            return None
        newest = self._newest_by_target()
        names = sorted(name for name, time_ms in newest.items() if time_ms > latest + FUTURE_MS)
        distance = distance_text(max(newest.values()) - latest)
        return (
            f"{self.path}: samples up to {distance} in the future are looked past ({some(names, 3)}); check that clock"
        )

    def _newest_by_target(self) -> dict[str, int]:
        """Newest time of each target, by its pod or instance."""
        newest: dict[str, int] = {}
        for labels, time_ms in self._edges(newest=True):
            name = labels.get("pod") or labels.get("instance") or "target without instance"
            newest[name] = max(time_ms, newest.get(name, time_ms))
        return newest

    def _edges(self, newest: bool) -> list[tuple[dict[str, str], int]]:
        """The newest (or oldest) time of each target, of its pages and of its hours. The time of what is damaged does
        not count, unless damage is an error: then reading it is."""
        with self._reading():
            find = self._stored_edges if self.damages is None else self._intact_edges
            return [(labels, each) for owner, labels in self._targets(None) for each in find(owner, newest)]

    def _stored_edges(self, target: Owner, newest: bool) -> list[int]:
        pages = f"SELECT {'max' if newest else 'min'}(ts_ms) FROM page WHERE target = ?"
        column, order = ("end_ms", "DESC") if newest else ("start_ms", "")
        chunks = f"SELECT {column} FROM stretch WHERE target = ? ORDER BY start_ms {order} LIMIT 1"
        rows = fetch(self.connection, pages, (target.id,), (int, NOTHING))
        if self._has_chunks:
            rows += fetch(self.connection, chunks, (target.id,), int)
        return [row[0] for row in rows if row[0] is not None]

    def _intact_edges(self, target: Owner, newest: bool) -> list[int]:
        page_ms = outermost_ms(self.connection, target, newest)
        segment = outermost_segment(self.connection, target, newest) if self._has_chunks else None
        times = [] if segment is None else [int(segment.times_ms[-1 if newest else 0])]
        return times if page_ms is None else [page_ms, *times]

    def _latest_until(self, limit_ms: int) -> int | None:
        """Time of the newest sample up to a moment; None if there is none."""
        pages = "SELECT max(ts_ms) FROM page WHERE target = ? AND ts_ms <= ?"
        latest: int | None = None
        with self._reading():
            for owner, labels in self._targets(None):
                times = [row[0] for row in fetch(self.connection, pages, (owner.id, limit_ms), (int, NOTHING))]
                for segment in self._segments(owner, labels, limit_ms, limit_ms):
                    times.append(int(segment.times_ms[segment.times_ms <= limit_ms].max(initial=EARLIEST_MS)))
                before = "SELECT max(end_ms) FROM stretch WHERE target = ? AND start_ms <= ? AND end_ms <= ?"
                if self._has_chunks:
                    found = fetch(self.connection, before, (owner.id, limit_ms, limit_ms), (int, NOTHING))
                    times += [row[0] for row in found]
                latest = max((each for each in (latest, *times) if each is not None), default=None)
        return None if latest == EARLIEST_MS else latest

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with guarded(self.path, "read"):
            try:
                with transaction(self.connection, "DEFERRED"):
                    # Checked every time: a writer may upgrade the store while it is read.
                    self._has_chunks = check_format(self.connection, self.path) >= FORMAT_WITH_CHUNKS
                    yield
            except DamagedError as error:
                raise damaged(self.path, str(error)) from error
