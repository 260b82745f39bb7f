"""OpenMetrics text with timestamps, and exported Parquet, into a store."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.openmetrics_file import OpenMetricsReader, SampleColumns
from inferdoc.collect.samples import Layout, Page, ParseError, Series
from inferdoc.store.compaction import compact
from inferdoc.store.faults import StoreError, reason_of
from inferdoc.store.origin import HOUR_MS, Span
from inferdoc.store.parquet_import import ParquetReader, is_parquet, opened
from inferdoc.store.spill import Columns, SampleRuns
from inferdoc.store.store import Store

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

IDENTITY = ("job", "instance")
"""Labels that distinguish targets."""
SHARED = ("pod", "namespace", "cluster", "node")
"""Labels that belong to the target where all its series carry them with one value."""

Progress = Callable[[float], None]
"""Called now and then with the share done, 0 to 1."""

MAX_SERIES = 500_000
"""Distinct series of an import, some 1 kB of memory each."""
RUN_SAMPLES = 4_000_000
"""Samples in memory at once."""
_LAYOUT_SERIES_KEPT = 500_000
_READING_SHARE = 0.75
_STORING_SHARE = 0.8

TargetLabels = tuple[tuple[str, str], ...]


@dataclass
class Imported:
    """What an import did. samples: read from the input; pages, new_pages: scrapes they form, and those of them that
    added something; first_ms, last_ms: times of the oldest and newest sample read; problems: one line
    for each thing that was dropped or looked wrong."""

    samples: int = 0
    pages: int = 0
    new_pages: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    problems: list[str] = field(default_factory=list)


def import_file(
    store: Store,
    source: str | Path | BinaryIO,
    progress: Progress | None = None,
    max_series: int = MAX_SERIES,
    *,
    strict: bool = False,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Imported:
    """Read OpenMetrics text with timestamps, plain or gzip, or what `export_parquet` wrote, and store what the store
    does not hold yet.

    source: a path, "-" for standard input, or an open binary stream; of Parquet a path or a URL. The samples are
    regrouped into scrapes: what one target has at one time. All of it is committed together, and the hours gone by are
    compacted then. What cannot be read is left out and listed in `problems`; so are the metrics with the most label
    sets where there are more than `max_series`. More samples than fit in memory are sorted in a file without a name
    beside the store, 20 bytes each. strict: a file that OpenMetrics does not allow (as in `read_openmetrics`), or of
    which a part is damaged, is refused as a whole. seconds: read for so long, by `clock`, and store what was read by
    then; `problems` says so. Raises StoreError if the input cannot be opened or is damaged, or holds no sample at all;
    ParseError with line and rule for what strict refuses; SourceError on a store fault.
    """
    tick = progress or (lambda share: None)
    started, late, place = clock(), list[str](), "its beginning"
    with (
        _reader(source, lambda share: tick(share * _READING_SHARE), max_series, strict) as (reader, name),
        _Samples(store.path.resolve().parent) as samples,
    ):
        try:
            for block in reader.blocks():
                if samples.total and seconds is not None and clock() - started > seconds:
                    cut = f"{name}: reading ended after {seconds:g} s, at {place}; what follows was left out"
                    late = [f"{cut}: import it again with a longer --timeout, what is stored stays"]
                    break
                samples.add((block.timestamps_ms, block.series_index, block.values))
                place = reader.place
        except ParseError as error:
            hint = "nothing of it was imported; --lenient keeps the lines that can be read"
            raise ParseError(f"{name}: {error}; this is not OpenMetrics, and {hint}") from None
        rest = 1 - _READING_SHARE
        done = _import(store, samples, reader, name, lambda share: tick(_READING_SHARE + share * rest))
        done.problems = late + done.problems
        return done


def import_columns(store: Store, columns: SampleColumns, name: str, progress: Progress | None = None) -> Imported:
    """Store samples that were read already, as `import_file` does. name: what they are from, for messages."""
    with _Samples(store.path.resolve().parent) as samples:
        samples.add((columns.timestamps_ms, columns.series_index, columns.values))
        return _import(store, samples, columns, name, progress or (lambda share: None))


class _Origin(Protocol):
    """What belongs to samples beside their columns."""

    @property
    def series(self) -> list[Series]: ...

    @property
    def types(self) -> dict[str, str]: ...

    @property
    def problems(self) -> list[str]: ...


class _Samples:
    """Samples as they are read, in memory as long as they are few."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending: list[Columns] = []
        self._count = 0
        self._runs: SampleRuns | None = None
        self.total = 0

    def __enter__(self) -> _Samples:
        return self

    def __exit__(self, *_: object) -> None:
        if self._runs is not None:
            self._runs.__exit__()

    def add(self, columns: Columns) -> None:
        """Take some more."""
        self._pending.append(columns)
        self._count += len(columns[0])
        self.total += len(columns[0])
        if self._count >= RUN_SAMPLES:
            self._write()

    def ranges(self) -> Iterator[Columns]:
        """All of them: the samples of one time together."""
        if self._runs is None:
            yield self._joined()
            return
        if self._count:
            self._write()
        yield from self._runs.ranges(RUN_SAMPLES)

    def _write(self) -> None:
        if self._runs is None:
            self._runs = SampleRuns(self._folder)
        self._runs.add(self._joined())
        self._pending, self._count = [], 0

    def _joined(self) -> Columns:
        times, series, values = zip(*self._pending, strict=True)
        return np.concatenate(times), np.concatenate(series), np.concatenate(values)


def _import(store: Store, samples: _Samples, origin: _Origin, name: str, progress: Progress) -> Imported:
    if not samples.total:
        why = origin.problems[0] if origin.problems else "it is empty"
        raise StoreError(f"nothing to import from {name}: {why}; OpenMetrics text with timestamps is expected")
    gone = set(getattr(origin, "left_out", ()))
    kept = np.array([series.name not in gone for series in origin.series], bool)
    done = Imported(problems=[f"{name}: {problem}" for problem in origin.problems])
    before = len(store.writer.problems)
    repeated = passed = 0
    with store.writer.round():
        if isinstance(origin, ParquetReader):
            targets, target_of = origin.targets, np.array(origin.target_of, np.int32)
            store.writer.enter(map(dict, targets))
        else:
            targets, target_of = _assign(origin.series, store.targets())
        for times_ms, series, values in samples.ranges():
            passed += len(times_ms)
            if gone:
                chosen = kept[series]
                times_ms, series, values = times_ms[chosen], series[chosen], values[chosen]
            if not len(times_ms):
                continue
            done.samples += len(times_ms)
            done.first_ms = min(int(times_ms.min()), times_ms[0] if done.first_ms is None else done.first_ms)
            done.last_ms = max(int(times_ms.max()), times_ms[0] if done.last_ms is None else done.last_ms)
            part = SampleColumns(origin.series, series, times_ms, values, origin.types)
            repeated += _store(store, part, targets, target_of, done)
            progress(passed / samples.total * _STORING_SHARE)
    if not done.samples:
        raise StoreError(f"nothing to import from {name}: {origin.problems[-1]}")
    if repeated:
        done.problems.append(f"{name}: {repeated} samples repeat a series and time; the first of each kept")
    done.problems += [f"{name}: {problem}" for problem in store.writer.problems[before:]]
    try:
        compact(store)
    except StoreError as error:
        done.problems.append(f"{name}: stored, but not compacted: {error}")
    progress(1.0)
    return done


@contextlib.contextmanager
def _reader(
    source: str | Path | BinaryIO, progress: Progress, max_series: int, strict: bool
) -> Iterator[tuple[OpenMetricsReader | ParquetReader, str]]:
    """What reads the input, and what to call it."""
    if isinstance(source, str | Path) and is_parquet(source):
        with opened(source) as stream:
            yield ParquetReader(stream, str(source), progress, max_series, strict=strict), str(source)
    else:
        with _opened(source, progress) as (stream, name):
            yield OpenMetricsReader(stream, max_series, strict=strict), name


@contextlib.contextmanager
def _opened(source: str | Path | BinaryIO, progress: Progress) -> Iterator[tuple[BinaryIO, str]]:
    """The input as a stream, and what to call it."""
    if not isinstance(source, str | Path):
        yield source, getattr(source, "name", "the stream")
        return
    if str(source) == "-":
        yield sys.stdin.buffer, "standard input"
        return
    try:
        size = max(Path(source).stat().st_size, 1)
        with Path(source).open("rb") as file:
            yield io.BufferedReader(_Watched(file, lambda done: progress(done / size)), 1 << 20), str(source)
    except OSError as error:
        raise StoreError(f"cannot read {source}: {reason_of(error)}; check the path") from error


def _store(
    store: Store, columns: SampleColumns, targets: Sequence[TargetLabels], target_of: NDArray[np.int32], done: Imported
) -> int:
    """Regroup samples into pages, target by target, and append them. Returns how many were repeated."""
    target = target_of[columns.series_index]
    by_target = np.argsort(target, kind="stable")
    ends = np.cumsum(np.bincount(target, minlength=len(targets))).tolist()
    return sum(
        _store_target(store, columns, by_target[start:stop], labels, done)
        for labels, (start, stop) in zip(targets, pairwise([0, *ends]), strict=True)
        if start < stop
    )


def _store_target(
    store: Store, columns: SampleColumns, rows: NDArray[np.intp], labels: TargetLabels, done: Imported
) -> int:
    """Store the samples of one target, scrape by scrape in order of time. Returns how many were repeated."""
    times, series = columns.timestamps_ms[rows], columns.series_index[rows]
    order = np.lexsort((series, times))
    once = _changes(times[order], series[order])
    order = order[once]
    times, series, values = times[order], series[order], columns.values[rows[order]]
    bounds = np.append(np.flatnonzero(_changes(times)), len(times)).tolist()
    layouts: dict[bytes, Layout] = {}
    new = np.zeros(len(bounds) - 1, bool)
    for number, (start, stop) in enumerate(pairwise(bounds)):
        layout = _layout(layouts, columns, series[start:stop], labels)
        new[number] = store.writer.append(dict(labels), int(times[start]), Page(layout, values[start:stop]))
    done.pages += len(new)
    done.new_pages += int(new.sum())
    store.writer.mark_imported(dict(labels), _spans(times[bounds[:-1]][new]))
    return len(once) - len(order)


def _spans(times_ms: NDArray[np.int64]) -> Iterator[Span]:
    """The times as spans, cut where an hour or more lies between two."""
    edges = np.flatnonzero(np.diff(times_ms) >= HOUR_MS) + 1
    for part in np.split(times_ms, edges):
        if len(part):
            yield int(part[0]), int(part[-1])


def _layout(
    known: dict[bytes, Layout], columns: SampleColumns, series: NDArray[np.int32], target: TargetLabels
) -> Layout:
    key = series.tobytes()
    layout = known.get(key)
    if layout is None:
        if len(known) * len(series) > _LAYOUT_SERIES_KEPT:
            known.clear()
        shared = {name for name, _ in target}
        own = [
            Series(each.name, tuple(pair for pair in each.labels if pair[0] not in shared))
            for each in (columns.series[number] for number in series.tolist())
        ]
        layout = known[key] = Layout(own, columns.types)
    return layout


def _assign(
    series: Sequence[Series], existing: Sequence[dict[str, str]]
) -> tuple[list[TargetLabels], NDArray[np.int32]]:
    """The targets of the series, and for each series the place of its target among them.

    A series goes to the oldest target of the store whose labels it carries, so that importing any part of a file again
    finds the same targets, and so does an export of what was scraped. The rest is grouped by job and instance.
    """
    targets: dict[TargetLabels, int] = {}
    target_of = np.zeros(len(series), np.int32)
    old: defaultdict[TargetLabels, list[tuple[int, TargetLabels]]] = defaultdict(list)
    for age, labels in enumerate(tuple(sorted(each.items())) for each in existing):
        old[_identity(labels)].append((age, labels))
    rest: defaultdict[TargetLabels, list[int]] = defaultdict(list)
    for number, each in enumerate(series):
        carried = frozenset(each.labels)
        identity = _identity(each.labels)
        # A target may lack one label of its identity; one that lacks both is for series that lack both.
        alike = old[identity] + [found for pair in identity if len(identity) > 1 for found in old[(pair,)]]
        stored = min((found for found in alike if carried.issuperset(found[1])), default=(0, None))[1]
        if stored is None:
            rest[identity].append(number)
        else:
            target_of[number] = targets.setdefault(stored, len(targets))
    for identity, members in rest.items():
        shared = frozenset.intersection(*(frozenset(series[number].labels) for number in members))
        labels = tuple(sorted((*identity, *(pair for pair in shared if pair[0] in SHARED))))
        target_of[members] = targets.setdefault(labels, len(targets))
    return list(targets), target_of


def _identity(labels: TargetLabels) -> TargetLabels:
    return tuple(pair for pair in labels if pair[0] in IDENTITY)


def _changes(*columns: NDArray[np.int32] | NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool[n]: True at the first row and wherever any column differs from the row before."""
    changed = np.ones(len(columns[0]), bool)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


class _Watched(io.RawIOBase):
    """A stream that counts the bytes read from it."""

    def __init__(self, stream: BinaryIO, report: Callable[[int], None]) -> None:
        self._stream = stream
        self._report = report
        self._done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        data = self._stream.read(memoryview(buffer).nbytes)
        memoryview(buffer).cast("B")[: len(data)] = data
        self._done += len(data)
        self._report(self._done)
        return len(data)
