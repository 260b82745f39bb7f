"""Reading a store: blocks of samples, and what there is."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.block import Block
from inferdoc.store.budget import ReadBudget, ReadTime, TooLarge, Usage, too_large
from inferdoc.store.chunk_reader import ChunkReader
from inferdoc.store.codec import DamagedError
from inferdoc.store.extent import Extent, StoredTarget, TargetFilter
from inferdoc.store.families import read_types
from inferdoc.store.indexes import Hidden
from inferdoc.store.layouts import LayoutTable
from inferdoc.store.matrix import Matrix, NameFilter, SeriesFilter
from inferdoc.store.pages import StoredPage, intact_values, page_values, pages_between, typed_pages_between
from inferdoc.store.rows import WRONG_TYPE, fetch
from inferdoc.store.schema import FORMAT_WITH_SEALED_TYPES, check_format
from inferdoc.store.seal import Owner
from inferdoc.store.segments import Segment, plain_spans

_ROWS_HELD_BYTES = 256 << 20
"""More pages than this are read a second time when they are decoded; those of 512 pods and two hours are 180 MB, a
quarter of what comes out of them."""


_MANY_LAYOUTS = 1000
"""With fewer all series are numbered: what was worked out for one read serves the next, whatever it reads."""


@dataclass
class _Loaded:
    """What a target has in a window. used: scrapes by layout; pages: None where they are to be read again."""

    used: Counter[int]
    segments: list[Segment]
    pages: list[StoredPage] | None


def _count_layouts(used: Counter[int], segments: list[Segment], start_ms: int, end_ms: int) -> None:
    """Add the scrapes of segments to those that have each layout."""
    for segment in segments:
        rows = segment.layout_of[segment.rows(start_ms, end_ms)]
        for layout, number in zip(segment.layouts, np.bincount(rows).tolist(), strict=False):
            if number:
                used[layout] += number


def _around(known: tuple[int, int] | None, first: int, last: int) -> tuple[int, int]:
    return (first, last) if known is None else (min(known[0], first), max(known[1], last))


class Reader(Extent):
    """Reads through a connection that may also be the writer's. Every method sees one consistent state.

    budget: how much is read at once; time: how long an operation may take, None without an end; left_out: metrics that
    did not fit into the budget, and why; layouts: for the other modules of this package; is_narrow: whether of many
    layouts only those series are numbered that are requested, which nobody else may need then. `damages` says what
    becomes of scrapes that are damaged.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path, layouts: LayoutTable, hidden: Sequence[Hidden] = ()
    ) -> None:
        super().__init__(connection, path)
        self.layouts = layouts
        self.budget = ReadBudget()
        self.time: ReadTime | None = None
        self.left_out: dict[str, TooLarge] = {}
        self._unreadable: dict[int, DamagedError | None] = {}
        self.hidden = hidden
        self.is_narrow = False

    def types(self) -> dict[str, str]:
        """Declared type of each metric family, by the name on its TYPE line."""
        with self._reading():
            version = check_format(self.connection, self.path)
            return read_types(self.connection, version >= FORMAT_WITH_SEALED_TYPES)

    def names(self, start_ms: int, end_ms: int) -> set[str]:
        """Series names that stand on a page in [start_ms, end_ms]."""
        return set(self.sample_counts(start_ms, end_ms))

    def scrape_count(self, start_ms: int, end_ms: int, targets: TargetFilter = None) -> int:
        """About how many scrapes there are in [start_ms, end_ms]: those in chunks are taken for one every 15 s."""
        pages = "SELECT count(*) FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ?"
        segments = "SELECT count(*) FROM stretch WHERE target = ? AND start_ms BETWEEN ? AND ?"
        total = 0
        with self._reading():
            for target, _ in self._targets(targets):
                total += fetch(self.connection, pages, (target.id, start_ms, end_ms), int)[0][0]
                if self._has_chunks:
                    total += 240 * int(fetch(self.connection, segments, (target.id, start_ms, end_ms), int)[0][0])
        return total

    def sample_counts(
        self, start_ms: int, end_ms: int, targets: TargetFilter = None, names: Collection[str] | None = None
    ) -> dict[str, int]:
        """Number of samples in [start_ms, end_ms] by series name. names: those that are requested; of others nothing,
        or the same, is reported."""
        pages: Counter[int] = Counter()
        counts: Counter[str] = Counter()
        with self._reading():
            self._narrow(names)
            for target, labels in self._targets(targets):
                pages.update(self._layouts_used(target, labels, start_ms, end_ms))
            for layout, number in pages.items():
                if self._fault_of(layout):
                    continue
                series = self.layouts.series(layout)
                counts.update(self.layouts.count_names(series, np.full(len(series), number, np.int64)))
                self._make_room()
        return dict(counts)

    def _narrow(self, names: NameFilter) -> None:
        """Number the series of these names alone, where there are thousands of layouts."""
        few = names is None or callable(names) or not self.is_narrow
        if not few and fetch(self.connection, "SELECT count(*) FROM layout", (), int)[0][0] > _MANY_LAYOUTS:
            self.layouts.keep_only(frozenset(cast("Collection[str]", names)))
        else:
            self.layouts.keep_only(None)
        if self.layouts.is_large():
            self.layouts.reset()  # of targets that were read before; nobody has their numbers

    def _make_room(self) -> None:
        """Between two layouts that are looked at for themselves."""
        if self.is_narrow and self.layouts.is_large():
            self.layouts.reset()
        self.layouts.shrink(self.budget.label_sets)

    def name_spans(
        self, start_ms: int, end_ms: int, next_names: Collection[str] | None = None
    ) -> dict[str, tuple[int, int]]:
        """When each series name was scraped first and last in [start_ms, end_ms]. next_names: those of which the series
        will be requested next; None where that may be all."""
        by_layout: dict[int, tuple[int, int]] = {}
        spans: dict[str, tuple[int, int]] = {}
        with self._reading():
            self._narrow(next_names)
            for target, labels in self._targets(None):
                for layout, first, last in self._layout_spans(target, labels, start_ms, end_ms):
                    by_layout[layout] = _around(by_layout.get(layout), first, last)
            for layout, (first, last) in by_layout.items():
                if self._fault_of(layout):
                    continue
                series = self.layouts.series(layout)
                for name in self.layouts.count_names(series, np.ones(len(series), np.int64)):
                    spans[name] = _around(spans.get(name), first, last)
                self._make_room()
        return spans

    def label_names(self, start_ms: int, end_ms: int, names: Collection[str], targets: TargetFilter = None) -> set[str]:
        """The names of the labels that series of these names, and their targets, have in [start_ms, end_ms]."""
        found: set[str] = set()
        used: set[int] = set()
        with self._reading():
            self._narrow(names)
            selected = SeriesFilter(names, self.layouts)
            for target, labels in self._targets(targets):
                spans = self._layout_spans(target, labels, start_ms, end_ms)
                own = {layout for layout, _, _ in spans if self._fault_of(layout) is None}
                if any(len(selected.columns(self.layouts.series(layout))) for layout in own):
                    found.update(labels)
                used |= own
            for layout in used:
                series = self.layouts.series(layout)
                found.update(*self.layouts.spelled(series[selected.columns(series)])[1])
        return found

    def blocks(self, start_ms: int, end_ms: int, names: NameFilter = None, targets: TargetFilter = None) -> list[Block]:
        """Samples in [start_ms, end_ms], one block per target that has any of the requested series.

        names: series names (with `_bucket`, `_total`...) or a test of one, None for all; targets: a test of the
        target's labels. Every scrape of the target in the window is a row of its block. Of hours in column chunks only
        the chunks with requested series are read. What does not fit into `budget` is left out by whole metrics, and
        noted in `left_out`.
        """
        return list(self.each_block(start_ms, end_ms, names, targets))

    def each_block(
        self, start_ms: int, end_ms: int, names: NameFilter = None, targets: TargetFilter = None
    ) -> Generator[Block, None, None]:
        """The same, each decoded when it is taken. Until the last one is, or the iterator is closed, nothing else may
        use the connection."""
        with self._reading():
            self._narrow(names)
            chosen = self._targets(targets)
            loaded = self._loaded(chosen, start_ms, end_ms)
            selected = self._fitting([each.used for each in loaded], SeriesFilter(names, self.layouts))
            chunks = ChunkReader(self.connection, self.layouts, selected)
            loaded.reverse()  # what is decoded is let go at once
            for target, labels in chosen:
                block = self._block(target, labels, (start_ms, end_ms), loaded.pop(), selected, chunks)
                if block is not None:
                    yield block

    def _fitting(self, used: list[Counter[int]], selected: SeriesFilter) -> SeriesFilter:
        """The requested metrics that fit into the budget; others are noted. used: scrapes by layout, of each target."""
        gone = too_large([Usage(each) for each in used], self.layouts, selected, self.budget)
        self.left_out.update(gone)
        return selected.without(gone.keys()) if gone else selected

    def _loaded(self, targets: list[tuple[Owner, StoredTarget]], start_ms: int, end_ms: int) -> list[_Loaded]:
        """What each target has in the window; its pages as long as they are not too much for memory."""
        loaded = []
        size = 0
        for target, labels in targets:
            pages = self._pages(target, labels, start_ms, end_ms)
            segments = self._whole(target, labels, self._segments(target, labels, start_ms, end_ms))
            used = Counter(page.layout for page in pages)
            _count_layouts(used, segments, start_ms, end_ms)
            size += sum(len(page.body) for page in pages)
            loaded.append(_Loaded(used, segments, pages if size <= _ROWS_HELD_BYTES else None))
        return loaded

    def _layouts_used(self, target: Owner, labels: dict[str, str], start_ms: int, end_ms: int) -> Counter[int]:
        """How many scrapes of a target have which layout."""
        self._check_time()
        query = "SELECT layout, count(*) FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? GROUP BY layout"
        used = Counter(dict(fetch(self.connection, query, (target.id, start_ms, end_ms), int, int)))
        _count_layouts(used, self._segments(target, labels, start_ms, end_ms), start_ms, end_ms)
        return used

    def _layout_spans(
        self, target: Owner, labels: dict[str, str], start_ms: int, end_ms: int
    ) -> list[tuple[int, int, int]]:
        """Layouts of the scrapes of a target, with a first and last time; one may be reported several times."""
        self._check_time()
        query = (
            "SELECT layout, min(ts_ms), max(ts_ms) FROM page WHERE target = ? AND ts_ms BETWEEN ? AND ? GROUP BY layout"
        )
        spans = fetch(self.connection, query, (target.id, start_ms, end_ms), int, int, int)
        plain = plain_spans(self.connection, target, start_ms, end_ms) if self._has_chunks else []
        if plain is not None:
            return spans + plain
        for segment in self._segments(target, labels, start_ms, end_ms):
            inside = segment.rows(start_ms, end_ms)
            times_ms, places = segment.times_ms[inside], segment.layout_of[inside]
            for place in np.unique(places).tolist():
                own = times_ms[places == place]
                spans.append((segment.layouts[place], int(own[0]), int(own[-1])))
        return spans

    def _pages(self, target: Owner, labels: dict[str, str], start_ms: int, end_ms: int) -> list[StoredPage]:
        """The pages of a target in the window, whose layouts can be read."""
        self._check_time()
        self._note_hidden(target, labels, start_ms, end_ms)
        if self.damages is None:
            return pages_between(self.connection, target, start_ms, end_ms)
        pages, others = typed_pages_between(self.connection, target, start_ms, end_ms)
        if others:
            self.damages.note(target, labels, (start_ms, end_ms), others, DamagedError(WRONG_TYPE))
        faults = {layout: str(self._fault_of(layout) or "") for layout in {page.layout for page in pages}}
        for what in {
            each for each in faults.values() if each
        }:  # layouts that differ from a damaged one share its fault
            lost = [page.ts_ms for page in pages if faults[page.layout] == what]
            self.damages.note(target, labels, (lost[0], lost[-1]), len(lost), DamagedError(what))
        return [page for page in pages if not faults[page.layout]] if any(faults.values()) else pages

    def _check_time(self) -> None:
        """Raises SlowReadError once the time of the operation is up. Checked target by target."""
        if self.time is not None:
            self.time.check()

    def _note_hidden(self, target: Owner, labels: dict[str, str], start_ms: int, end_ms: int) -> None:
        """Scrapes of a target in the window that no index leads to."""
        for each in self.hidden:
            if each.target == target.id and each.span_ms[0] <= end_ms and start_ms <= each.span_ms[1]:
                fault = DamagedError(each.what)
                if self.damages is None:
                    raise fault
                self.damages.note(target, labels, each.span_ms, each.scrapes, fault)

    def _whole(self, target: Owner, labels: dict[str, str], segments: list[Segment]) -> list[Segment]:
        """The segments whose layouts can be read."""
        kept = []
        for segment in segments:
            fault = next((each for each in map(self._fault_of, segment.layouts) if each), None)
            if fault is None or self.damages is None:
                kept.append(segment)
            else:
                span = int(segment.times_ms[0]), int(segment.times_ms[-1])
                self.damages.note(target, labels, span, len(segment.times_ms), fault, segment.id)
        return kept

    def _fault_of(self, layout: int) -> DamagedError | None:
        """What is wrong with a layout, where that is no error but noted."""
        if self.damages is not None and layout not in self._unreadable:
            self._unreadable[layout] = None
            try:
                self.layouts.series(layout)
            except DamagedError as error:
                self._unreadable[layout] = error
        return self._unreadable.get(layout)

    def _block(
        self,
        target: Owner,
        labels: dict[str, str],
        window_ms: tuple[int, int],
        loaded: _Loaded,
        selected: SeriesFilter,
        chunks: ChunkReader,
    ) -> Block | None:
        self._check_time()
        pages = self._pages(target, labels, *window_ms) if loaded.pages is None else loaded.pages
        page_times_ms = np.array([page.ts_ms for page in pages], np.int64)
        if (np.diff(page_times_ms) <= 0).any():
            raise DamagedError("the times of its pages are out of order")
        parts = [(each, each.rows(*window_ms)) for each in loaded.segments]
        parts = [(each, inside) for each, inside in parts if inside.start < inside.stop]
        times_ms = [page_times_ms, *(each.times_ms[inside] for each, inside in parts)]
        used = {page.layout for page in pages}.union(*(each.layouts_in(inside) for each, inside in parts))
        matrix = Matrix.of(times_ms, [self.layouts.series(layout) for layout in sorted(used)], selected)
        if matrix is None:
            return None
        lost = self._read_chunks(target, labels, parts, chunks, matrix)
        lost += self._read_pages(target, labels, pages, selected, matrix)
        names, own = self.layouts.spelled(matrix.series)
        times, values = matrix.times_ms, matrix.values.view(np.float64).T
        if lost:
            kept = ~np.isin(times, np.concatenate(lost))
            times, values = times[kept], values[kept]
        return Block(labels, times, names, own, values)

    def _read_chunks(
        self,
        target: Owner,
        labels: dict[str, str],
        parts: list[tuple[Segment, slice]],
        chunks: ChunkReader,
        matrix: Matrix,
    ) -> list[NDArray[np.int64]]:
        """Put what stands in chunks into the matrix. Returns times of scrapes that are damaged."""
        try:
            chunks.read(parts, matrix)
            return []
        except DamagedError:
            if self.damages is None:
                raise
        lost = []
        for segment, inside in parts:
            try:
                chunks.read([(segment, inside)], matrix)
            except DamagedError as error:
                times = segment.times_ms[inside]
                lost.append(times)
                self.damages.note(target, labels, (int(times[0]), int(times[-1])), len(times), error, segment.id)
        return lost

    def _read_pages(
        self,
        target: Owner,
        labels: dict[str, str],
        pages: Sequence[StoredPage],
        selected: SeriesFilter,
        matrix: Matrix,
    ) -> list[NDArray[np.int64]]:
        """Put what stands in pages into the matrix. Returns times of scrapes that are damaged."""
        lost = []
        for layout in sorted({page.layout for page in pages}):
            series = self.layouts.series(layout)
            columns = selected.columns(series)
            if not len(columns):
                continue
            own = [page for page in pages if page.layout == layout]
            times = np.array([page.ts_ms for page in own], np.int64)
            chosen = None if len(columns) == len(series) else columns
            try:
                values = page_values(self.connection, target, own, len(series), chosen)
            except DamagedError:
                if self.damages is None:
                    raise
                values, kept, faults = intact_values(self.connection, target, own, len(series), chosen)
                for gone, error in faults:
                    span = int(times[gone][0]), int(times[gone][-1])
                    self.damages.note(target, labels, span, len(times[gone]), error)
                lost.append(times[~kept])
                times = times[kept]
            if len(times):
                matrix.put(times, series[columns], values)
        return lost
