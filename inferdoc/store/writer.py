"""Appending scrapes to a store."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.problems import ProblemList
from inferdoc.collect.samples import NO_TIMESTAMP, Layout, Page
from inferdoc.store.codec import Bits, DamagedError, Key, pack, to_bits
from inferdoc.store.extent import FIRST_MS, FUTURE_MS, PAST_MS, distance_text
from inferdoc.store.families import write_types
from inferdoc.store.faults import damaged, guarded
from inferdoc.store.layouts import LayoutTable, LayoutWriter
from inferdoc.store.origin import Span, mark_imported
from inferdoc.store.pages import cut_after, page_at
from inferdoc.store.rows import NOTHING, fetch
from inferdoc.store.schema import transaction
from inferdoc.store.seal import Owner, owner_of, seal_page
from inferdoc.store.segments import Segment, segment_at

COMPLETE_EVERY = 20
"""At least every so many pages of a target one is complete in itself, so that reading never walks further back."""
_CHAINS_KEPT_PER_TARGET = 4
_LAYOUTS_REMEMBERED = 20_000
_STRETCHES_REMEMBERED = 64

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Chain:
    """Where the next page of one target and layout may continue. name: of the last page; next_ms: the first later page,
    complete, if any."""

    last_ms: int
    values: Bits
    name: int
    start_ms: int
    start_page: int
    next_ms: int | None


@dataclass(slots=True)
class _Target:
    """newest_ms: its last page, None if it has none; pages: how many were appended in this session."""

    owner: Owner
    newest_ms: int | None
    pages: int = 0


@dataclass(slots=True, frozen=True)
class _Stored:
    """A page's layout as the store knows it. take: places of the values to keep, None for all."""

    id: int
    take: NDArray[np.intp] | None


class Writer:
    """The one writer of a store. Use it from one thread at a time.

    problems: one line for each thing in the samples that looked wrong. layouts: for the other modules of this package.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path, forget: Callable[[], None], check: Callable[[], None]
    ) -> None:
        """forget: what others remember of the file's content; check: raises StoreError where the file is no longer ours
        to write."""
        self._connection = connection
        self._path = path
        self.layouts = LayoutTable(connection)
        self._forget_elsewhere = forget
        self._check = check
        self._problems = ProblemList()
        self._noted: set[str] = set()
        self.forget()

    @property
    def problems(self) -> list[str]:
        return self._problems.lines()

    def forget(self) -> None:
        """Drop what is remembered of the file's content, after a roll-back or when pages were dropped."""
        self._forget_elsewhere()
        self.layouts.reset()
        self._targets: dict[Labels, _Target] = {}
        self._chains: OrderedDict[tuple[int, int], _Chain] = OrderedDict()
        self._stored: dict[tuple[int, bytes], _Stored] = {}
        self._parts: dict[tuple[bytes, bytes], Layout] = {}
        self._known_types: set[bytes] = set()
        self._layout_writer: LayoutWriter | None = None
        self._segments: OrderedDict[int, Segment | None] = OrderedDict()

    @contextlib.contextmanager
    def round(self) -> Iterator[Writer]:
        """Everything appended inside is committed together at the end, and is on the disk then; all or nothing."""
        with self._guarded():
            try:
                with transaction(self._connection, "IMMEDIATE"):
                    yield self
                    self._check()
            except BaseException:
                self.forget()
                raise

    def append(self, target_labels: Mapping[str, str], timestamp_ms: int, page: Page) -> bool:
        """Store one scrape.

        target_labels: labels that all its series share; a series label of the same name is kept as `exported_<name>`,
        as Prometheus does. timestamp_ms: time of the scrape, milliseconds since 1970 UTC; samples with a timestamp of
        their own keep that, unless it is in the future, before 2000 or over a day older than the scrape: these are
        dropped and named. Samples may come in any order of time. Returns False if the store had all of it already; a
        value it holds for the same series and time is never replaced. Outside `round` it is committed at once.
        """
        if not self._connection.in_transaction:
            with self.round():
                return self.append(target_labels, timestamp_ms, page)
        with self._guarded():
            target = self._target(target_labels)
            if page.timestamps is None:
                return self._append(target, target_labels, int(timestamp_ms), page.layout, page.values)
            own = page.timestamps != NO_TIMESTAMP
            stamps = np.where(own, page.timestamps, timestamp_ms)
            ahead = stamps > timestamp_ms + FUTURE_MS
            old = own & (stamps < max(timestamp_ms - PAST_MS, FIRST_MS))
            self._note_dropped(target_labels, stamps[ahead], stamps[old], timestamp_ms)
            new = False
            for stamp in np.unique(stamps[~(ahead | old)]).tolist():
                places = np.flatnonzero(stamps == stamp)
                part = self._part(page.layout, places)
                new |= self._append(target, target_labels, stamp, part, page.values[places])
            return new

    def enter(self, targets: Iterable[Mapping[str, str]]) -> None:
        """Give targets their places in the order of age, before they have a scrape. Inside `round`."""
        with self._guarded():
            for labels in targets:
                self._target(labels)

    def mark_imported(self, target_labels: Mapping[str, str], spans: Iterable[Span]) -> None:
        """Keep these spans of a target from retention. Inside `round`."""
        with self._guarded():
            for span in spans:
                mark_imported(self._connection, self._target(target_labels).owner, span)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        with guarded(self._path, "write"):
            try:
                yield
            except DamagedError as error:
                self.forget()
                raise damaged(self._path, str(error)) from error
            except sqlite3.Error:
                self.forget()
                raise

    def _append(
        self, target: _Target, labels: Mapping[str, str], ts_ms: int, layout: Layout, values: NDArray[np.float64]
    ) -> bool:
        stored = self._stored.get((target.owner.id, layout.digest)) or self._store_layout(target, labels, layout)
        bits = to_bits(values if stored.take is None else values[stored.take])
        number = stored.id
        if target.newest_ms is not None and ts_ms <= target.newest_ms:
            compacted = self._compacted_layout(target.owner, ts_ms)
            if compacted == number:
                return False
            if compacted is not None:
                lacking = ~np.isin(self.layouts.series(number), self.layouts.series(compacted))
                if not lacking.any():
                    return False
                if not lacking.all():
                    series = self.layouts.series(number)[lacking].tolist()
                    number, bits = self._identify([self.layouts.keys[each] for each in series]), bits[lacking]
            query = "SELECT layout FROM page WHERE target = ? AND ts_ms = ?"
            for (stored,) in fetch(self._connection, query, (target.owner.id, ts_ms), int):
                return stored != number and self._merge(target, ts_ms, stored, number, bits)
        self._note_future(labels, ts_ms)
        self._insert(target, ts_ms, number, bits)
        return True

    def _compacted_layout(self, owner: Owner, ts_ms: int) -> int | None:
        """Layout of the scrape that the target has in column chunks at this very time; None if there is none."""
        known = self._segments.get(owner.id)
        if known is None or not known.times_ms[0] <= ts_ms <= known.times_ms[-1]:
            known = self._segments[owner.id] = segment_at(self._connection, owner, ts_ms)
            self._segments.move_to_end(owner.id)
            if len(self._segments) > _STRETCHES_REMEMBERED:
                self._segments.popitem(last=False)
        return None if known is None else known.layout_at(ts_ms)

    def _insert(self, target: _Target, ts_ms: int, layout: int, values: Bits) -> None:
        chain = self._chains.get((target.owner.id, layout))
        before: tuple[int, Bits] | None = None
        if chain and chain.last_ms < ts_ms and (chain.next_ms is None or ts_ms < chain.next_ms):
            if target.pages - chain.start_page < COMPLETE_EVERY:
                before = chain.name, chain.values
            else:
                chain.start_ms, chain.start_page = ts_ms, target.pages
            chain.last_ms, chain.values = ts_ms, values
            self._chains.move_to_end((target.owner.id, layout))
        else:
            next_ms = None
            if target.newest_ms is not None and ts_ms < target.newest_ms:
                next_ms = cut_after(self._connection, self.layouts, target.owner, layout, ts_ms)
            chain = self._chains[target.owner.id, layout] = _Chain(ts_ms, values, 0, ts_ms, target.pages, next_ms)
            if len(self._chains) > _CHAINS_KEPT_PER_TARGET * len(self._targets):
                self._chains.popitem(last=False)
        back_ms = ts_ms - chain.start_ms
        name, data = (None, pack(values, None)) if before is None else (before[0], pack(values, before[1]))
        body, chain.name = seal_page(target.owner, layout, ts_ms, back_ms, data, name)
        self._connection.execute(
            "INSERT INTO page (target, ts_ms, layout, back_ms, body) VALUES (?, ?, ?, ?, ?)",
            (target.owner.id, ts_ms, layout, back_ms, body),
        )
        target.pages += 1
        target.newest_ms = ts_ms if target.newest_ms is None else max(target.newest_ms, ts_ms)

    def _merge(self, target: _Target, ts_ms: int, stored: int, layout: int, values: Bits) -> bool:
        """Other series of a time that has a page already: both become one page."""
        stored_series, series = self.layouts.series(stored), self.layouts.series(layout)
        missing = ~np.isin(series, stored_series)
        if not missing.any():
            return False
        stored_values = page_at(self._connection, self.layouts, target.owner, stored, ts_ms)
        both = np.concatenate([stored_series, series[missing]])
        merged = self._identify([self.layouts.keys[number] for number in both])
        cut_after(self._connection, self.layouts, target.owner, stored, ts_ms)
        self._connection.execute("DELETE FROM page WHERE target = ? AND ts_ms = ?", (target.owner.id, ts_ms))
        for stale in (stored, merged):
            self._chains.pop((target.owner.id, stale), None)
        self._insert(target, ts_ms, merged, np.concatenate([stored_values, values[missing]]))
        return True

    def _target(self, labels: Mapping[str, str]) -> _Target:
        key = tuple(sorted(labels.items()))
        known = self._targets.get(key)
        if known is None:
            text = json.dumps(dict(key), ensure_ascii=False, separators=(",", ":"))
            self._connection.execute("INSERT OR IGNORE INTO target (labels) VALUES (?)", (text,))
            ((number,),) = fetch(self._connection, "SELECT id FROM target WHERE labels = ?", (text,), int)
            query = (
                "SELECT max(ts_ms) FROM (SELECT max(ts_ms) AS ts_ms FROM page WHERE target = ?1"
                " UNION ALL SELECT end_ms FROM stretch WHERE target = ?1 AND start_ms ="
                " (SELECT max(start_ms) FROM stretch WHERE target = ?1))"
            )
            ((newest,),) = fetch(self._connection, query, (number,), (int, NOTHING))
            known = self._targets[key] = _Target(owner_of(number, text), newest)
        return known

    def _store_layout(self, target: _Target, labels: Mapping[str, str], layout: Layout) -> _Stored:
        self._store_types(layout)
        places: dict[Key, int] = {}
        for place, (name, pairs) in enumerate(layout.series):
            if any(label in labels for label, _ in pairs):
                renamed = [(f"exported_{label}" if label in labels else label, value) for label, value in pairs]
                pairs = tuple(sorted(renamed))
            places.setdefault((name, *(text for pair in pairs for text in pair)), place)
        if len(self._stored) > _LAYOUTS_REMEMBERED:
            self._stored.clear()
            self._known_types.clear()
        take = None
        if len(places) < len(layout.series):
            self._problems.add(f"{_shown(labels)}: {len(layout.series) - len(places)} duplicate series; the first kept")
            take = np.array(list(places.values()), np.intp)
        stored = self._stored[target.owner.id, layout.digest] = _Stored(self._identify(list(places)), take)
        return stored

    def _identify(self, keys: list[Key]) -> int:
        if self._layout_writer is None:
            self._layout_writer = LayoutWriter(self._connection)
        return self._layout_writer.identify(keys)

    def _store_types(self, layout: Layout) -> None:
        if layout.digest not in self._known_types:
            self._known_types.add(layout.digest)
            write_types(self._connection, layout.types.items())

    def _part(self, layout: Layout, places: NDArray[np.intp]) -> Layout:
        key = (layout.digest, places.tobytes())
        part = self._parts.get(key)
        if part is None:
            if len(self._parts) > _LAYOUTS_REMEMBERED:
                self._parts.clear()
            part = self._parts[key] = Layout([layout.series[place] for place in places], layout.types)
        return part

    def _note_dropped(
        self, labels: Mapping[str, str], ahead: NDArray[np.int64], old: NDArray[np.int64], scraped_ms: int
    ) -> None:
        """One line about the timestamps of a page that are in the future, or too old."""
        parts = []
        if len(ahead):
            parts.append(f"{len(ahead)} samples up to {distance_text(int(ahead.max()) - scraped_ms)} in the future")
        if len(old):
            distance = distance_text(scraped_ms - int(old.min()))
            parts.append(f"{len(old)} samples up to {distance} older than the scrape")
        if parts:
            self._note_once(labels, f"{' and '.join(parts)}; dropped; check that clock")

    def _note_future(self, labels: Mapping[str, str], ts_ms: int) -> None:
        distance_ms = ts_ms - int(time.time() * 1000)
        if distance_ms > FUTURE_MS:
            distance = distance_text(distance_ms)
            self._note_once(labels, f"scrapes {distance} in the future; kept, but never the latest; check that clock")

    def _note_once(self, labels: Mapping[str, str], text: str) -> None:
        shown = _shown(labels)
        if shown not in self._noted:
            self._noted.add(shown)
            self._problems.add(f"{shown}: {text}")


def _shown(labels: Mapping[str, str]) -> str:
    return labels.get("pod") or labels.get("instance") or "target without instance"
