"""The embedded store as a source."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from inferdoc.source import window
from inferdoc.source.base import Cost, Incomplete, InfoSeries, Scrapes, SourceKind
from inferdoc.source.evaluate import RowStack, evaluate_tables, info_series
from inferdoc.source.histograms import AT_ONCE, Quantiles
from inferdoc.source.page_histograms import Called, in_batches, page_quantiles
from inferdoc.source.part import Chosen, Part, as_key
from inferdoc.source.readable import Readable
from inferdoc.source.reads import Grid, Matcher, Read, ReadResult, cut, put_together
from inferdoc.source.scrape_times import WHOLE_MS, Thinned, divide, gather
from inferdoc.source.tables import Labels, Table, TableLayout, join
from inferdoc.source.window import Windows
from inferdoc.store.block import Block
from inferdoc.store.budget import ReadBudget, ReadTime
from inferdoc.store.damage import DamageLog
from inferdoc.store.indexes import Hidden
from inferdoc.store.store import Store

MOST_VALUES = 24_000_000
"""Values in memory at once (192 MB). Where what is expected has more, buckets of histograms, most of it, are read
when their quantiles are requested, some targets at a time; what still does not fit is read in pieces of the grid, and
not kept."""
FEW_SCRAPES = 50_000
"""So many scrapes of a short time range fit whatever is read of them (a thousand series each)."""
FEW_VALUES_SCRAPES = 100_000
"""So many scrapes of what a diagnosis reads have fewer than `MOST_VALUES`."""
BUCKET = "_bucket"
BATCHED_PIECES = 3
"""Up to so many times `MOST_VALUES` are read some targets at a time: no more than a read may hold (`ReadBudget`)."""
MOST_VALUES_SHORT = 50_000_000
SHORT_MS = 2 * 3_600_000
"""A time range up to this long may take so much (400 MB): what is read of it serves the whole diagnosis."""
EDGE_MS = 1
"""Read so much further than requested: a grid ends 1 ms after the newest sample, which another call requested."""
AHEAD_MS = 600_000
"""Read so much more before: rates and maxima over the first steps of a grid are requested next, at 15 s between scrapes
this far back, and reading on later means to put all tables together anew."""
MOST_SHARE = 0.9
"""What is read along may fill so much of the budget: series that come and go take cells that hold no sample."""
MOST_KEPT_VALUES = 10_000_000
"""Values kept for the whole diagnosis (80 MB). Of more, only series that are requested by name are kept; the others are
evaluated some targets at a time."""
EVALUATED_AT_ONCE = 128
"""Targets that are evaluated at a time, where not all are."""
KEPT_SECONDS = 60.0
"""How long samples already read serve on although a writer has added newer ones: the calls of one diagnosis agree."""

STRETCHES_COUNTED = 16
"""Time ranges of which it is remembered which names have samples there."""
DAMAGES_NAMED = 5
"""Parts of a store whose damage is reported one by one."""


@dataclass
class Loaded:
    """Samples already read: all series whose name was requested then or is generally kept, in [start_ms, end_ms].
    is_whole: whether all that was expected is there."""

    start_ms: int
    end_ms: int
    requested: frozenset[str]
    tables: list[Table]
    version: int
    read_at: float
    is_whole: bool = True


@dataclass(frozen=True)
class NameSpans:
    """When each series name was scraped first and last in [start_ms, end_ms]."""

    start_ms: int
    end_ms: int
    spans: dict[str, tuple[int, int]]
    version: int
    read_at: float

    def holds(self, start_ms: int, end_ms: int, version: int) -> bool:
        """Whether a time range lies inside, and the store is what it was."""
        is_fresh = version == self.version or time.monotonic() - self.read_at < KEPT_SECONDS
        return is_fresh and self.start_ms <= start_ms and end_ms <= self.end_ms

    def between(self, start_ms: int, end_ms: int) -> set[str] | None:
        """The names that were scraped in a part of it; None where one was before and after, and may not have been."""
        found = set()
        for name, (first, last) in self.spans.items():
            if start_ms <= first <= end_ms or start_ms <= last <= end_ms:
                found.add(name)
            elif first < start_ms and end_ms < last:
                return None
        return found


class StoreSource(Readable):
    """Reads signals from an embedded store; implements `Source`.

    One call of evaluate() reads the store once for all reads. What was read serves the next call: a diagnosis reads
    scrapes, signals and info metrics of nearly the same time range, and says first what it will ask for (`expect`).
    timeout: seconds that one call may read, by `clock`; beyond it raises TooSlowError. part: the targets whose samples
    are read, all without it; what concerns names and times is of the whole store. hidden: what another source of this
    store found that no index leads to.
    """

    kind: SourceKind = "store"

    def __init__(
        self,
        path: str | Path,
        *,
        timeout: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
        part: Part | None = None,
        hidden: Sequence[Hidden] | None = None,
    ) -> None:
        self.part: Part | None = None
        self._store = Store.open(Path(path).expanduser(), "r", hidden)
        self._store.time = self._time = ReadTime(self._store.path, timeout, clock)
        self.location = str(self._store.path)
        self.warnings = self._store.warnings
        self._store.is_narrow = True
        self._store.damages = self._damages = DamageLog()
        self.cost = Cost()
        self._requested: set[str] = {"up"}
        self._along: set[str] = set()
        self._kept: set[str] = {"up"}
        self._since_ms: int | None = None
        self._loaded: Loaded | None = None
        self._without: frozenset[Labels] = frozenset()
        self._selected = Chosen(None, self._without)
        self._shared: dict[Labels, Labels] = {}
        self._latest: tuple[int, int | None] | None = None
        self._spans: NameSpans | None = None
        self.left_out: set[str] = set()
        self._damage_reported: list[str] = []
        self._counted: dict[tuple[int, int], tuple[int, float, dict[str, int]]] = {}
        if part is not None:
            self.read_only(part)

    def __repr__(self) -> str:
        return f"StoreSource({self.location!r})"

    def close(self) -> None:
        """Close the file."""
        self._loaded = None
        self._store.close()

    def expect(self, names: Collection[str], since_ms: int | None = None) -> None:
        """Read these series along with the next ones, and what a diagnosis will ask for from then on at once: to read
        on before what is loaded means to put all tables together anew."""
        self._requested.update(names)
        self._since_ms = since_ms

    def read_along(self, names: Collection[str]) -> None:
        """Read these series too whenever samples are read and all fit into memory: unpacking the pages is most of the
        work, and they hold every series."""
        self._along.update(names)

    def keep(self, names: Collection[str]) -> None:
        """Series that are requested one name at a time: their samples are kept where those of others are not."""
        self._kept.update(names)

    def target_count(self) -> int | None:
        """How many targets the store holds, of whatever time."""
        with self._timed():
            return self._store.target_count()

    def leave_out(
        self, targets: Sequence[Mapping[str, str]], kept: Sequence[Mapping[str, str]], engines: Collection[str]
    ) -> bool:
        """From now on read nothing of these targets, which are named by the labels of their `up`: of what was imported
        that may have more labels than all series of the target share."""
        self.known_as()
        left, kept_too = ({self._shared.get(t, t) for t in map(as_key, each)} for each in (targets, kept))
        without = frozenset(left - kept_too)
        if not without >= self._without:
            self._loaded = None
        if without != self._without:
            self._without, self._selected = without, Chosen(self.part, without)
        if self._loaded is not None:
            self._loaded.tables = [table for table in self._loaded.tables if self._selected(table.target)]
        return True

    def known_as(self) -> dict[Labels, Labels]:
        """Targets as the labels of their `up` name them, and as the store does: those kept so far that differ."""
        for table in self._loaded.tables if self._loaded is not None else ():
            shared = as_key(table.target)
            outcome = (frozenset(labels.items()) for _, labels in _up_series(table))
            self._shared |= {labels: shared for labels in outcome if labels != shared}
        return self._shared

    def learn(self, known_as: Mapping[Labels, Labels], spans: NameSpans | None = None) -> None:
        """Take over what another source of this store answered to `known_as`, and its `spans`."""
        self._shared |= known_as
        self._spans = self._spans if spans is None else replace(spans, version=self._version())

    @property
    def spans(self) -> NameSpans | None:
        """Which names there are, as far as that was read."""
        return self._spans

    def read_only(self, part: Part | None) -> None:
        """From now on read the targets of a part, or all."""
        self.part, self._loaded = part, None
        self._selected = Chosen(part, self._without)
        self._store.budget = ReadBudget() if part is None else ReadBudget().of_half()
        self._store.left_out.clear()
        self.warnings[:] = [line for line in self.warnings if line.partition(" ")[0] not in self.left_out]
        self.left_out.clear()

    @property
    def is_partial(self) -> bool:
        """Whether something was left out of what was read: metrics that did not fit, or what is damaged."""
        return bool(self.left_out or self._damage_reported)

    @property
    def hidden(self) -> Sequence[Hidden]:
        """Scrapes that no index leads to."""
        return self._store.hidden

    def scrape_count(self, start_ms: int, end_ms: int) -> int:
        """About how many scrapes of all targets there are in the time range."""
        with self._timed():
            return self._store.scrape_count(start_ms, end_ms)

    def latest_ms(self) -> int | None:
        """Time of the newest sample that is not in the future, milliseconds since the epoch; None without any."""
        with self._timed():
            version = self._version()
            if self._latest is not None and self._latest[0] == version:
                return self._latest[1]
            ahead = self._store.ahead()
            if ahead and ahead not in self.warnings:
                self.warnings.append(ahead)
            latest = self._store.latest_ms()
            self._latest = None if ahead else (version, latest)  # what lies ahead of the clock will be passed by it
            return latest

    def names(self, start_ms: int, end_ms: int) -> set[str]:
        """Series names that have a sample in the time range."""
        with self._timed():
            known = self._spans
            if known is None or not known.holds(start_ms, end_ms, self._version()):
                since_ms = self._from(start_ms, end_ms) - AHEAD_MS
                spans = self._store.name_spans(since_ms, end_ms + EDGE_MS, self._requested)
                known = self._spans = NameSpans(since_ms, end_ms + EDGE_MS, spans, self._version(), time.monotonic())
            found = known.between(start_ms, end_ms)
            return set(self._counts(start_ms, end_ms)) if found is None else found

    def label_names(self, start_ms: int, end_ms: int) -> set[str] | None:
        """Names of the labels of the time range."""
        with self._timed():
            tables = self._tables(start_ms, end_ms, {"up"})
            if self._loaded is not None and not self._loaded.is_whole:
                span = self._loaded.start_ms, self._loaded.end_ms
                return self._store.label_names(*span, self._requested, self._selected)
            layouts = {id(table.layout): table.layout for table in tables}
            own = {name for layout in layouts.values() for labels in layout.labels for name in labels}
            return own.union(*(table.target for table in tables))

    def scrapes(self, start_ms: int, end_ms: int) -> list[Scrapes]:
        """Every scrape of every target: `inferdoc.source.base.Source` says how long time ranges are reported."""
        older, whole_from = divide(start_ms, end_ms)
        with self._timed():
            parts = []
            if older is not None:
                parts += _thinned(join(self._blocks(start_ms, whole_from - 1, frozenset({"up"}))), older)
            for table in self._tables(whole_from, end_ms, {"up"}):
                times = table.samples.times_ms
                inside = (times >= whole_from) & (times <= end_ms)
                for column, labels in _up_series(table):
                    there = inside & ~table.samples.gaps[:, column]
                    parts.append(Scrapes(labels, times[there], table.samples.values[there, column]))
            return gather(parts)

    def evaluate(self, reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...] = ()) -> dict[Read, ReadResult]:
        """All reads on the grid: values float64[keys, grid.count], NaN where nothing."""
        if not reads:
            return {}
        names = {read.name for read in reads}
        reach = max(grid.reach_ms(read) for read in reads)
        with self._timed():
            start, end = grid.start_ms - reach, grid.end_ms
            loaded = {name for name in names if self._holds(start, end, {name})}
            missing = frozenset(names - loaded)
            pieces = self._pieces(start, end, missing, bool(loaded)) if missing else 1
            is_batched = pieces <= BATCHED_PIECES and self._is_lean(start, end)
            if pieces == 1 and not loaded and not is_batched:
                return evaluate_tables(self._tables(start, end, names), reads, grid, match)
            found = {}
            if loaded:
                known = [read for read in reads if read.name in loaded]
                found = evaluate_tables(self._tables(start, end, loaded), known, grid, match)
            rest = [read for read in reads if read.name in missing]
            if rest and is_batched:
                found |= self._evaluate_batches(rest, (start, end), grid, match)
                rest = []
            parts = []
            for piece in cut(grid, -(-grid.count // pieces)) if rest else ():
                blocks = self._blocks(piece.start_ms - reach, piece.end_ms, missing)
                parts.append(evaluate_tables(join(blocks), rest, piece, match))
            found |= {read: put_together(read, [part[read] for part in parts]) for read in rest}
            return {read: found[read] for read in reads}

    def _evaluate_batches(
        self, reads: Sequence[Read], span: tuple[int, int], grid: Grid, match: tuple[Matcher, ...]
    ) -> dict[Read, ReadResult]:
        """The same as of all targets at once, some targets at a time. Rows to which targets of several batches add are
        evaluated again: what is added up in another order differs in the last bit."""
        batches = -(-self._store.target_count() // EVALUATED_AT_ONCE)
        stacks = {read: RowStack(grid.count, batches) for read in reads}
        for tables in self._batches(*span, {read.name for read in reads}, EVALUATED_AT_ONCE):
            for read, part in evaluate_tables(tables, reads, grid, match).items():
                stacks[read].add(part)
        shared = [read for read, stack in stacks.items() if stack.is_shared]
        found: dict[Read, ReadResult] = {}
        if shared:
            tables = join(self._blocks(*span, frozenset(read.name for read in shared)))
            found = evaluate_tables(tables, shared, grid, match)
        for read in reads:
            stack = stacks.pop(read)
            if read not in found:
                found[read] = stack.result(read.by)
        return found

    def _is_lean(self, start_ms: int, end_ms: int) -> bool:
        """Whether only some series of this time range are kept."""
        return self._loaded is not None and not self._loaded.is_whole and self._holds(start_ms, end_ms, {"up"})

    def page_quantiles(
        self,
        requested: Mapping[Read, tuple[Sequence[float], Called]],
        grid: Grid,
        match: tuple[Matcher, ...] = (),
    ) -> dict[Read, dict[float, Quantiles | None]]:
        """Some quantiles of the histograms of each read, as far as they can be determined page by page and at once."""
        names = {read.name for read in requested}
        start, end = grid.start_ms - max(map(grid.reach_ms, requested), default=0), grid.end_ms
        with self._timed():
            if not requested:
                return {}
            if not self._holds(start, end, names) and self._pieces(start, end, names, True) > BATCHED_PIECES:
                return {}
            return page_quantiles(self._batches(start, end, names), requested, grid, match)

    def info(self, name: str, grid: Grid, match: tuple[Matcher, ...] = ()) -> list[InfoSeries]:
        """Every series of an info metric: values float64[grid.count]."""
        with self._timed():
            tables = self._tables(grid.start_ms - grid.gauge_ms, grid.end_ms, {name})
            return info_series(tables, name, grid, match)

    def _counts(self, start_ms: int, end_ms: int) -> dict[str, int]:
        """Number of samples by series name: a diagnosis reads for those of one time range several times."""
        version, now = self._version(), time.monotonic()
        known = self._counted.get((start_ms, end_ms))
        if known is None or (known[0] != version and now - known[1] >= KEPT_SECONDS):
            if len(self._counted) >= STRETCHES_COUNTED:
                self._counted.clear()
            known = self._counted[start_ms, end_ms] = (version, now, self._store.sample_counts(start_ms, end_ms))
        return known[2]

    def _holds(self, start_ms: int, end_ms: int, names: set[str]) -> bool:
        """Whether what is loaded answers this as it is: then nothing is read, and it need not fit into memory again."""
        loaded = self._loaded
        return loaded is not None and loaded.start_ms <= start_ms and self._serves(loaded, end_ms, names)

    def _pieces(self, start_ms: int, end_ms: int, names: AbstractSet[str], alone: bool) -> int:
        """In how many pieces this must be read to fit into memory. alone: without all that was expected."""
        is_short = end_ms - start_ms <= SHORT_MS
        if is_short and (alone or self._store.scrape_count(start_ms, end_ms, self._selected) <= FEW_SCRAPES):
            return 1
        most = MOST_VALUES_SHORT if is_short else MOST_VALUES
        along = set() if alone else self._requested | (self._loaded.requested if self._loaded else set())
        selected = {*names, *along}
        if self._without:
            counts = self._store.sample_counts(start_ms, end_ms, self._selected, selected)
        else:
            counts = self._counts(start_ms, end_ms)
        total = sum(count for name, count in counts.items() if name in selected)
        return -(-max(total, 1) // most)

    def _batches(
        self, start_ms: int, end_ms: int, names: set[str], at_once: int = AT_ONCE
    ) -> Iterator[Sequence[Table]]:
        """Tables of all targets that have any of the named series, a few targets at a time: from what is loaded, or
        read and not kept."""
        loaded = self._loaded
        if loaded is not None and self._holds(start_ms, end_ms, names):
            yield from in_batches(loaded.tables)
            return
        layouts: list[TableLayout] = []
        with closing(self._read_blocks(start_ms, end_ms, frozenset(names))) as blocks:
            while some := list(itertools.islice(blocks, at_once)):
                yield join(_drained(some), layouts)

    def _tables(self, start_ms: int, end_ms: int, names: set[str]) -> list[Table]:
        """Tables that hold at least the named series in the time range, from what is loaded as far as possible."""
        self._requested |= names
        if self._loaded is not None and not self._loaded.is_whole:
            self._kept |= names
        loaded = self._loaded
        if loaded is None or not self._serves(loaded, end_ms, names):
            self._loaded = None
            loaded = self._read(self._from(start_ms, end_ms) - AHEAD_MS, end_ms + EDGE_MS, names)
        elif start_ms < loaded.start_ms:
            start_ms -= AHEAD_MS
            blocks = self._blocks(start_ms, loaded.start_ms - 1, loaded.requested)
            blocks += map(_block, loaded.tables)
            loaded.tables = []
            loaded.tables = join(_drained(blocks))
            loaded.start_ms = start_ms
        self._loaded = loaded
        return loaded.tables

    def _from(self, start_ms: int, end_ms: int) -> int:
        """From when on to read: what is expected to be requested next is read along, unless it is long."""
        if self._since_ms is None or end_ms - self._since_ms > WHOLE_MS:
            return start_ms
        return min(start_ms, self._since_ms)

    def _serves(self, loaded: Loaded, end_ms: int, names: set[str]) -> bool:
        if end_ms > loaded.end_ms or not names <= loaded.requested:
            return False
        return loaded.version == self._version() or time.monotonic() - loaded.read_at < KEPT_SECONDS

    def _read(self, start_ms: int, end_ms: int, names: set[str]) -> Loaded:
        version, requested, is_whole = self._version(), frozenset(self._requested), True
        if self._store.scrape_count(start_ms, end_ms, self._selected) > FEW_VALUES_SCRAPES:
            everything = requested | self._along
            counts = self._store.sample_counts(start_ms, end_ms, self._selected, everything)
            values = {name: counts[name] for name in everything if name in counts}
            plain = {name: count for name, count in values.items() if not name.endswith(BUCKET) or name in names}
            if sum(values.values()) > MOST_VALUES:
                values = plain
            if sum(values.values()) <= MOST_SHARE * self._store.budget.values:
                requested = everything
            if sum(plain.values()) > MOST_KEPT_VALUES:
                requested, is_whole = requested & self._kept | names, False
            elif values is plain:
                requested -= {name for name in requested if name.endswith(BUCKET)} - names
        else:
            requested |= self._along
        tables = join(self._blocks(start_ms, end_ms, requested))
        return Loaded(start_ms, end_ms, requested, tables, version, time.monotonic(), is_whole)

    def _version(self) -> int:
        """Changes when another process commits to the store
        (https://www.sqlite.org/pragma.html#pragma_data_version)."""
        return int(self._store.connection.execute("PRAGMA data_version").fetchone()[0])

    def _blocks(self, start_ms: int, end_ms: int, requested: frozenset[str]) -> list[Block]:
        return list(self._read_blocks(start_ms, end_ms, requested))

    def _read_blocks(self, start_ms: int, end_ms: int, requested: frozenset[str]) -> Generator[Block, None, None]:
        """The blocks of a read, each decoded when it is taken."""
        self.cost.queries += 1
        with closing(self._store.each_block(start_ms, end_ms, requested, self._selected)) as blocks:
            for block in blocks:
                self.cost.samples += block.values.size
                yield block
        for name, (why, remedy) in sorted(self._store.left_out.items()):
            if name not in self.left_out:
                self.left_out.add(name)
                self.warnings.append(Incomplete(f"{name} is left out: {why}; {remedy}"))
        self._report_damage()

    def _report_damage(self) -> None:
        """Warn of what was damaged so far, each thing once: a longer read sees more of the same."""
        lines = [f"{self.location}: damaged and left out: {each.line()}" for each in self._damages.found.values()]
        if not lines:
            return
        shown = lines[:DAMAGES_NAMED]
        if len(lines) > len(shown):
            shown.append(f"{self.location}: {len(lines) - len(shown)} more parts are damaged and left out")
        shown[-1] += "; `inferdoc store info --check` lists all that is damaged: restore a copy, or go on without"
        if shown != self._damage_reported:
            shown = [Incomplete(line) for line in shown]
            self.warnings[:] = [each for each in self.warnings if each not in self._damage_reported] + shown
            self._damage_reported = shown

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.perf_counter()
        self._time.begin()
        try:
            yield
        finally:
            self.cost.seconds += time.perf_counter() - started


def _drained(blocks: list[Block]) -> Iterator[Block]:
    """The blocks in their order, none of which is loaded any longer than whoever takes it holds it."""
    blocks.reverse()
    while blocks:
        yield blocks.pop()


def _block(table: Table) -> Block:
    layout, samples = table.layout, table.samples
    return Block(table.target, samples.times_ms, layout.names, layout.labels, samples.values)


def _up_series(table: Table) -> list[tuple[int, dict[str, str]]]:
    """Columns of the `up` series of a table, and their labels."""
    _, columns = table.layout.choose("up", (), table.target)
    return [(int(column), table.labels(int(column))) for column in columns]


def _thinned(tables: list[Table], older: Thinned) -> list[Scrapes]:
    """`min_over_time(up[...])` of every target at the ends of the steps."""
    found = []
    for table in tables:
        for column, labels in _up_series(table):
            samples = table.samples.take(np.array([column]))
            windows = Windows.over(samples.times_ms, older.ends_ms, older.length_ms)
            values, there = window.apply("min", samples, windows)
            found.append(Scrapes(labels, older.ends_ms[there[:, 0]], values[there[:, 0], 0]))
    return found
