"""Reading a store: blocks of samples, and what there is."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.block import Block
from inferdoc.store.budget import ReadBudget, Usage, too_large
from inferdoc.store.chain import EARLIEST_MS, chain_start, decode
from inferdoc.store.chunk_reader import ChunkReader
from inferdoc.store.codec import Bits, DamagedError
from inferdoc.store.faults import damaged, guarded
from inferdoc.store.layouts import LayoutTable
from inferdoc.store.matrix import Matrix, NameFilter, SeriesFilter
from inferdoc.store.rows import NOTHING, fetch
from inferdoc.store.schema import FORMAT_WITH_CHUNKS, check_format, transaction
from inferdoc.store.seal import Owner, PageRow, owner_of
from inferdoc.store.stretches import Stretch, overlapping

FUTURE_MS = 600_000
"""So far ahead of our clock a sample may be, as in Prometheus (scrape/scrape.go: maxAheadTime)."""

TargetFilter = Callable[[dict[str, str]], bool] | None

_Rows = Sequence[tuple[Any, ...]]
"""ts_ms, layout, back_ms, body."""
_ROW = (int, int, int, bytes)
_ROWS_HELD_BYTES = 64 << 20

_IN_WINDOW = "SELECT ts_ms, layout, back_ms, body FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? ORDER BY ts_ms"
_LEAD_IN = (
    "SELECT ts_ms, layout, back_ms, body FROM page"
    " WHERE target = ? AND ts_ms >= ? AND ts_ms < ? AND layout = ? ORDER BY ts_ms"
)


def distance_text(milliseconds: int) -> str:
    """How far something lies away: "12 minutes", "1.0 days"."""
    days = milliseconds / 86_400_000
    return f"{days:.1f} days" if days >= 1 else f"{milliseconds / 60_000:.0f} minutes"


@dataclass
class _Held:
    """What a target has in a window. used: scrapes by layout; rows: of pages, None where they are to be read again."""

    used: Counter[int]
    stretches: list[Stretch]
    rows: _Rows | None


def _count_layouts(used: Counter[int], stretches: list[Stretch], start_ms: int, end_ms: int) -> None:
    """Add the scrapes of stretches to those that have each layout."""
    for stretch in stretches:
        rows = stretch.layout_of[stretch.rows(start_ms, end_ms)]
        for layout, number in zip(stretch.layouts, np.bincount(rows).tolist(), strict=False):
            if number:
                used[layout] += number


class Reader:
    """Reads through a connection that may also be the writer's. Every method sees one consistent state.

    budget: how much is read at once; left_out: metrics that did not fit into it, and why. path: the file; connection,
    layouts: for the other modules of this package.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, layouts: LayoutTable) -> None:
        self.connection = connection
        self.path = path
        self.layouts = layouts
        self._has_chunks = False
        self.budget = ReadBudget()
        self.left_out: dict[str, str] = {}

    def targets(self) -> list[dict[str, str]]:
        """Labels of every target, oldest first."""
        with self._reading():
            return [labels for _, labels in self._targets(None)]

    def first_ms(self) -> int | None:
        """Time of the oldest sample, milliseconds since 1970 UTC; None if the store is empty."""
        times = self._extremes("min")
        return min(times) if times else None

    def newest_ms(self) -> int | None:
        """Time of the newest sample, whatever it is; None if the store is empty."""
        times = self._extremes("max")
        return max(times) if times else None

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

    def types(self) -> dict[str, str]:
        """Declared type of each metric family, by the name on its TYPE line."""
        with self._reading():
            return dict(fetch(self.connection, "SELECT name, type FROM family", (), str, str))

    def names(self, start_ms: int, end_ms: int) -> set[str]:
        """Series names that stand on a page in [start_ms, end_ms]."""
        return set(self.sample_counts(start_ms, end_ms))

    def scrape_count(self, start_ms: int, end_ms: int) -> int:
        """About how many scrapes there are in [start_ms, end_ms]: those in chunks are taken for one every 15 s."""
        pages = "SELECT count(*) FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ?"
        stretches = "SELECT count(*) FROM stretch WHERE target = ? AND start_ms BETWEEN ? AND ?"
        total = 0
        with self._reading():
            for target, _ in self._targets(None):
                total += fetch(self.connection, pages, (target.id, start_ms, end_ms), int)[0][0]
                if self._has_chunks:
                    total += 240 * int(fetch(self.connection, stretches, (target.id, start_ms, end_ms), int)[0][0])
        return total

    def sample_counts(self, start_ms: int, end_ms: int, targets: TargetFilter = None) -> dict[str, int]:
        """Number of samples in [start_ms, end_ms] by series name."""
        pages: Counter[int] = Counter()
        counts: Counter[str] = Counter()
        with self._reading():
            for target, _ in self._targets(targets):
                pages.update(self._layouts_used(target, start_ms, end_ms))
            for layout, number in pages.items():
                series = self.layouts.series(layout)
                counts.update(self.layouts.count_names(series, np.full(len(series), number, np.int64)))
                self.layouts.shrink(self.budget.label_sets)
        return dict(counts)

    def blocks(self, start_ms: int, end_ms: int, names: NameFilter = None, targets: TargetFilter = None) -> list[Block]:
        """Samples in [start_ms, end_ms], one block per target that has any of the wanted series.

        names: series names (with `_bucket`, `_total`...) or a test of one, None for all; targets: a test of the
        target's labels. Every scrape of the target in the window is a row of its block. Of hours in column chunks only
        the chunks with wanted series are read. What does not fit into `budget` is left out by whole metrics, and noted
        in `left_out`.
        """
        with self._reading():
            chosen = self._targets(targets)
            held = self._held(chosen, start_ms, end_ms)
            wanted = self._fitting([each.used for each in held], SeriesFilter(names, self.layouts))
            chunks = ChunkReader(self.connection, self.layouts, wanted)
            blocks = [
                self._block(target, labels, (start_ms, end_ms), each, wanted, chunks)
                for (target, labels), each in zip(chosen, held, strict=True)
            ]
        return [block for block in blocks if block is not None]

    def _fitting(self, used: list[Counter[int]], wanted: SeriesFilter) -> SeriesFilter:
        """The wanted metrics that fit into the budget; others are noted. used: scrapes by layout, of each target."""
        gone = too_large([Usage(each) for each in used], self.layouts, wanted, self.budget)
        self.left_out.update(gone)
        return wanted.without(gone.keys()) if gone else wanted

    def _held(self, targets: list[tuple[Owner, dict[str, str]]], start_ms: int, end_ms: int) -> list[_Held]:
        """What each target has in the window; the rows of pages as long as they are not too much for memory."""
        held = []
        size = 0
        for target, _ in targets:
            rows: _Rows | None = self._rows(target, start_ms, end_ms)
            used = Counter(row[1] for row in rows or ())
            stretches = self._stretches(target, start_ms, end_ms)
            _count_layouts(used, stretches, start_ms, end_ms)
            size += sum(len(row[3]) for row in rows or ())
            held.append(_Held(used, stretches, rows if size <= _ROWS_HELD_BYTES else None))
        return held

    def _layouts_used(self, target: Owner, start_ms: int, end_ms: int) -> Counter[int]:
        """How many scrapes of a target have which layout."""
        query = "SELECT layout, count(*) FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? GROUP BY layout"
        used = Counter(dict(fetch(self.connection, query, (target.id, start_ms, end_ms), int, int)))
        _count_layouts(used, self._stretches(target, start_ms, end_ms), start_ms, end_ms)
        return used

    def _rows(self, target: Owner, start_ms: int, end_ms: int) -> _Rows:
        return fetch(self.connection, _IN_WINDOW, (target.id, start_ms, end_ms), *_ROW)

    def _block(
        self,
        target: Owner,
        labels: dict[str, str],
        window_ms: tuple[int, int],
        held: _Held,
        wanted: SeriesFilter,
        chunks: ChunkReader,
    ) -> Block | None:
        rows = self._rows(target, *window_ms) if held.rows is None else held.rows
        page_times_ms = np.array([row[0] for row in rows], np.int64)
        if (np.diff(page_times_ms) <= 0).any():
            raise DamagedError("the times of its pages are out of order")
        by_layout = np.array([row[1] for row in rows], np.int64)
        parts = [(each, each.rows(*window_ms)) for each in held.stretches]
        parts = [(each, inside) for each, inside in parts if inside.start < inside.stop]
        times_ms = [page_times_ms, *(each.times_ms[inside] for each, inside in parts)]
        used = set(by_layout.tolist()).union(*(each.layouts_in(inside) for each, inside in parts))
        matrix = Matrix.of(times_ms, [self.layouts.series(layout) for layout in sorted(used)], wanted)
        if matrix is None:
            return None
        chunks.read(parts, matrix)
        for layout in np.unique(by_layout).tolist():
            series = self.layouts.series(layout)
            columns = wanted.columns(series)
            if len(columns):
                places = np.flatnonzero(by_layout == layout)
                values = self._decode(target, [rows[place] for place in places.tolist()], len(series), columns)
                matrix.put(page_times_ms[places], series[columns], values)
        names, own = self.layouts.spelled(matrix.series)
        return Block(labels, matrix.times_ms, names, own, matrix.values.view(np.float64).T)

    def _stretches(self, target: Owner, start_ms: int, end_ms: int) -> list[Stretch]:
        return overlapping(self.connection, target, start_ms, end_ms) if self._has_chunks else []

    def _decode(self, target: Owner, rows: _Rows, width: int, columns: NDArray[np.intp]) -> Bits:
        """uint64[columns, rows] of consecutive pages of one layout."""
        first_ms, layout, back_ms, _ = rows[0]
        lead: list[tuple[Any, ...]] = []
        if back_ms:
            window = (target.id, chain_start(first_ms, back_ms), first_ms, layout)
            lead = fetch(self.connection, _LEAD_IN, window, *_ROW)
        chain = [PageRow(row[0], row[2], row[3]) for row in (*lead, *rows)]
        whole = None if len(columns) == width else columns
        return decode(target, layout, chain, width, whole)[:, len(lead) :]

    def _targets(self, test: TargetFilter) -> list[tuple[Owner, dict[str, str]]]:
        found = fetch(self.connection, "SELECT id, labels FROM target ORDER BY id", (), int, str)
        try:
            parsed = [(owner_of(number, text), dict[str, str](json.loads(text))) for number, text in found]
        except (ValueError, TypeError) as error:
            raise DamagedError(f"the labels of a target do not decode ({error})") from error
        return [(owner, labels) for owner, labels in parsed if test is None or test(labels)]

    def ahead(self, now_ms: int | None = None) -> str | None:
        """One line about samples in the future that `latest_ms` looks past; None without any."""
        newest, latest = self._newest_by_target(), self.latest_ms(now_ms)
        if latest is None or not newest or max(newest.values()) <= latest:
            return None
        names = sorted(name for name, time_ms in newest.items() if time_ms > latest + FUTURE_MS)
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        distance = distance_text(max(newest.values()) - latest)
        return f"{self.path}: samples up to {distance} in the future are looked past ({shown}); check that clock"

    def _newest_by_target(self) -> dict[str, int]:
        """Newest time of each target, by its pod or instance."""
        newest: dict[str, int] = {}
        for labels, time_ms in self._edges("max"):
            name = labels.get("pod") or labels.get("instance") or "target without instance"
            newest[name] = max(time_ms, newest.get(name, time_ms))
        return newest

    def _extremes(self, function: str) -> list[int]:
        return [time_ms for _, time_ms in self._edges(function)]

    def _edges(self, function: str) -> list[tuple[dict[str, str], int]]:
        pages = f"SELECT {function}(ts_ms) FROM page WHERE target = ?"
        column, order = ("start_ms", "") if function == "min" else ("end_ms", "DESC")
        chunks = f"SELECT {column} FROM stretch WHERE target = ? ORDER BY start_ms {order} LIMIT 1"
        found: list[tuple[dict[str, str], int]] = []
        with self._reading():
            for target, labels in self._targets(None):
                rows = fetch(self.connection, pages, (target.id,), (int, NOTHING))
                if self._has_chunks:
                    rows += fetch(self.connection, chunks, (target.id,), int)
                found += [(labels, row[0]) for row in rows if row[0] is not None]
        return found

    def _latest_until(self, limit_ms: int) -> int | None:
        """Time of the newest sample up to a moment; None if there is none."""
        pages = "SELECT max(ts_ms) FROM page WHERE target = ? AND ts_ms <= ?"
        latest: int | None = None
        with self._reading():
            for owner, _ in self._targets(None):
                times = [row[0] for row in fetch(self.connection, pages, (owner.id, limit_ms), (int, NOTHING))]
                for stretch in self._stretches(owner, limit_ms, limit_ms):
                    times.append(int(stretch.times_ms[stretch.times_ms <= limit_ms].max(initial=EARLIEST_MS)))
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
                    # Asked every time: a writer may upgrade the store while it is read.
                    self._has_chunks = check_format(self.connection, self.path) >= FORMAT_WITH_CHUNKS
                    yield
            except DamagedError as error:
                raise damaged(self.path, str(error)) from error
