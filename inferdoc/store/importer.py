"""OpenMetrics text with timestamps into a store."""

from __future__ import annotations

import io
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.openmetrics_file import SampleColumns, read_openmetrics
from inferdoc.collect.samples import Layout, Page, Series
from inferdoc.store.compaction import compact
from inferdoc.store.faults import StoreError
from inferdoc.store.origin import HOUR_MS, Span
from inferdoc.store.store import Store

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

IDENTITY = ("job", "instance")
"""Labels that tell one target from another."""
SHARED = ("pod", "namespace", "cluster", "node")
"""Labels that belong to the target where all its series carry them with one value."""

Progress = Callable[[float], None]
"""Called now and then with the share done, 0 to 1."""

_READING_SHARE = 0.75
_STORING_SHARE = 0.8

TargetLabels = tuple[tuple[str, str], ...]


@dataclass
class Imported:
    """What an import did. samples: read from the input; pages, new_pages: scrapes they form, and those of them that
    held something the store lacked; first_ms, last_ms: times of the oldest and newest sample read; problems: one line
    for each thing that was dropped or looked wrong."""

    samples: int = 0
    pages: int = 0
    new_pages: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    problems: list[str] = field(default_factory=list)


def import_file(store: Store, source: str | Path | BinaryIO, progress: Progress | None = None) -> Imported:
    """Read OpenMetrics text with timestamps, plain or gzip, and store what the store does not hold yet.

    source: a path, "-" for standard input, or an open binary stream. The samples are regrouped into scrapes: what one
    target has at one time. All of it is committed together, and the hours gone by are compacted then. What cannot be
    read is left out and listed in `problems`.
    Raises StoreError if the input cannot be opened, or holds no sample at all; SourceError on a store fault.
    """
    tick = progress or (lambda share: None)
    columns, name = _read(source, lambda share: tick(share * _READING_SHARE))
    return import_columns(store, columns, name, lambda share: tick(_READING_SHARE + share * (1 - _READING_SHARE)))


def import_columns(store: Store, columns: SampleColumns, name: str, progress: Progress | None = None) -> Imported:
    """Store samples that were read already, as `import_file` does. name: what they are from, for messages."""
    tick = progress or (lambda share: None)
    if not len(columns):
        why = columns.problems[0] if columns.problems else "it is empty"
        raise StoreError(f"nothing to import from {name}: {why}; OpenMetrics text with timestamps is expected")
    done = Imported(
        samples=len(columns),
        first_ms=int(columns.timestamps_ms.min()),
        last_ms=int(columns.timestamps_ms.max()),
        problems=[f"{name}: {problem}" for problem in columns.problems],
    )
    before = len(store.writer.problems)
    with store.writer.round():
        _store(store, columns, name, done, lambda share: tick(share * _STORING_SHARE))
    done.problems += [f"{name}: {problem}" for problem in store.writer.problems[before:]]
    try:
        compact(store)
    except StoreError as error:
        done.problems.append(f"{name}: stored, but not compacted: {error}")
    tick(1.0)
    return done


def _read(source: str | Path | BinaryIO, progress: Progress) -> tuple[SampleColumns, str]:
    if not isinstance(source, str | Path):
        return read_openmetrics(source), getattr(source, "name", "the stream")
    if str(source) == "-":
        return read_openmetrics(sys.stdin.buffer), "standard input"
    try:
        size = max(Path(source).stat().st_size, 1)
        with Path(source).open("rb") as file:
            watched = io.BufferedReader(_Watched(file, lambda done: progress(done / size)), 1 << 20)
            return read_openmetrics(watched), str(source)
    except OSError as error:
        raise StoreError(f"cannot read {source}: {(error.strerror or str(error)).lower()}; check the path") from error


def _store(store: Store, columns: SampleColumns, name: str, done: Imported, progress: Progress) -> None:
    """Regroup series-major samples into pages, target by target, and append them."""
    targets, target_of = _assign(columns.series, store.targets())
    target = target_of[columns.series_index]
    by_target = np.argsort(target, kind="stable")
    ends = np.cumsum(np.bincount(target, minlength=len(targets))).tolist()
    repeated = 0
    for labels, (start, stop) in zip(targets, pairwise([0, *ends]), strict=True):
        repeated += _store_target(store, columns, by_target[start:stop], labels, done)
        progress(stop / len(columns))
    if repeated:
        done.problems.append(f"{name}: {repeated} samples repeat a series and time; the first of each kept")


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
        held = min((found for found in alike if carried.issuperset(found[1])), default=(0, None))[1]
        if held is None:
            rest[identity].append(number)
        else:
            target_of[number] = targets.setdefault(held, len(targets))
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
    """A stream that tells how many bytes were read from it."""

    def __init__(self, stream: BinaryIO, tell: Callable[[int], None]) -> None:
        self._stream = stream
        self._tell = tell
        self._done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        data = self._stream.read(memoryview(buffer).nbytes)
        memoryview(buffer).cast("B")[: len(data)] = data
        self._done += len(data)
        self._tell(self._done)
        return len(data)
