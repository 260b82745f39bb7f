"""Scraped samples as columns: the input of a back-test, cut to a time range and to the metrics that rules read."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.openmetrics_file import SampleColumns, read_openmetrics
from inferdoc.collect.samples import ParseError
from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.judging.conditions.render import ENGINE_SIGN
from inferdoc.source.prometheus_answers import AnswerSeries

FILE = "labels.json"


class RecordingLabels(msgspec.Struct, frozen=True):
    """Ground truth of one recording.

    expected: correct causes, the preferred one first; edge_accepts: further causes that are accepted; healthy_pods:
    pods that must have no finding; onset: when the fault starts; onset_latest: when its impact is first visible, if
    later; both seconds since the epoch.
    """

    file: str
    control: bool
    expected: tuple[str, ...] = ()
    healthy_pods: tuple[str, ...] = ()
    onset: float | None = None
    onset_latest: float | None = None
    end: float | None = None
    severity: str | None = None
    edge_accepts: tuple[str, ...] | None = None
    also_expected: tuple[str, ...] | None = None

    @property
    def accepted(self) -> frozenset[str]:
        """Causes that may be named."""
        return frozenset((*self.expected, *(self.edge_accepts or ()), *(self.also_expected or ()))) - {"none"}

    @property
    def impact(self) -> float | None:
        """When users are first affected."""
        return self.onset if self.onset_latest is None else self.onset_latest


class _Labels(msgspec.Struct):
    recordings: tuple[RecordingLabels, ...]


def read_labels(folder: Path) -> tuple[RecordingLabels, ...]:
    """The labels of a folder of recordings. Raises InferdocError where they cannot be read."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Labels).recordings
    except OSError as error:
        raise InferdocError(f"{path}: cannot be read: {error.strerror}") from None
    except NOT_JSON as error:
        raise InferdocError(f"{path}: {error}") from None


TARGET = ("job", "instance")
"""Labels that the series of one scrape have in common."""
FEWEST_SCRAPES = 3

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Points:
    """One series. times: int64, shape (n,), milliseconds since 1970, ascending, each once; values: float64, shape (n,).
    Where the series ends although its target is still scraped, the value is the NaN of `stale`."""

    name: str
    labels: Labels
    times: NDArray[np.int64]
    values: NDArray[np.float64]
    stale: NDArray[np.bool_]


@dataclass(frozen=True)
class ScrapedSeries:
    """name: as reports show it; series: what was scraped."""

    name: str
    series: tuple[Points, ...]

    @property
    def span_ms(self) -> tuple[int, int]:
        """First and last sample. Raises InferdocError for a recording without samples."""
        if not self.series:
            raise InferdocError(f"{self.name}: no samples that a rule reads")
        return min(int(p.times[0]) for p in self.series), max(int(p.times[-1]) for p in self.series)

    def since(self, begin_ms: int) -> ScrapedSeries:
        """The samples from `begin_ms` on, as a server that was installed then has them."""
        kept = (_after(points, begin_ms) for points in self.series)
        return replace(self, series=tuple(points for points in kept if len(points.times)))

    def with_pods(self) -> ScrapedSeries:
        """Engine series with a label `pod`, which the rules require of the scrape configuration; `instance` replaces a
        missing one."""
        targets = {_target(p) for p in self.series if p.name == ENGINE_SIGN and "pod" not in dict(p.labels)}
        return replace(self, series=tuple(_with_pod(p) if _target(p) in targets else p for p in self.series))

    def narrowed(self, names: frozenset[str], patterns: Iterable[str] = ()) -> ScrapedSeries:
        """Only the metrics of these names, or that fit one of these patterns whole."""
        fits = [re.compile(pattern) for pattern in patterns]
        found = {p.name for p in self.series}
        kept = {name for name in found if name in names or any(fit.fullmatch(name) for fit in fits)}
        return replace(self, series=tuple(points for points in self.series if points.name in kept))


def read_file(path: Path, name: str | None = None) -> ScrapedSeries:
    """OpenMetrics text with timestamps, plain or gzip. Raises InferdocError where none can be read."""
    try:
        with path.open("rb") as stream:
            columns = read_openmetrics(stream)
    except OSError as error:
        raise InferdocError(f"{path}: cannot be read: {error.strerror}") from None
    except ParseError as error:
        raise InferdocError(f"{path}: {error}") from None
    if not len(columns):
        raise InferdocError(f"{path}: no samples with timestamps; export some with inferdoc export")
    plain = path.name.removesuffix(".gz").removesuffix(".om").removesuffix(".txt")
    return ScrapedSeries(name or plain, tuple(_marked(list(_points(columns)))))


def read_store(path: Path) -> ScrapedSeries:
    """All samples of an embedded store. Raises StoreError."""
    from inferdoc.store import Store, export

    with Store.open(path) as store, tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
        text = Path(folder) / "store.om"
        with text.open("wb") as stream:
            export(store, store.first_ms() or 0, store.latest_ms() or 0, stream)
        return read_file(text, path.name)


def of_answers(name: str, answers: Iterable[tuple[str, AnswerSeries]]) -> ScrapedSeries:
    """Raw samples of a server: each series with the name of its metric."""
    parts: dict[tuple[str, Labels], list[AnswerSeries]] = {}
    for metric, answer in answers:
        parts.setdefault((metric, tuple(sorted(answer.labels.items()))), []).append(answer)
    points = []
    for (metric, labels), pieces in parts.items():
        times, first = np.unique(np.concatenate([piece.times_ms for piece in pieces]), return_index=True)
        values = np.concatenate([piece.values for piece in pieces])[first]
        if len(times):
            points.append(Points(metric, labels, times, values, np.zeros(len(times), bool)))
    return ScrapedSeries(name, tuple(_marked(points)))


def _points(columns: SampleColumns) -> Iterator[Points]:
    order = np.lexsort((columns.timestamps_ms, columns.series_index))
    index, times, values = columns.series_index[order], columns.timestamps_ms[order], columns.values[order]
    starts = np.flatnonzero(np.diff(index, prepend=-1))
    for begin, end in zip(starts, [*starts[1:], len(index)], strict=True):
        series = columns.series[int(index[begin])]
        own, at = times[begin:end], np.flatnonzero(np.diff(times[begin:end], append=np.iinfo(np.int64).max))
        yield Points(series.name, tuple(series.labels), own[at], values[begin:end][at], np.zeros(len(at), bool))


def _marked(series: list[Points]) -> Iterator[Points]:
    """The series with staleness as a server marks it, which no text format carries: a series that a scrape of its
    target no longer brings ends there, all series of a target that is gone end one interval later."""
    scrapes: dict[tuple[str, ...], list[Points]] = {}
    for points in series:
        scrapes.setdefault(_target(points), []).append(points)
    end = max((int(p.times[-1]) for p in series), default=0)
    for members in scrapes.values():
        times = np.unique(np.concatenate([p.times for p in members]))
        interval = int(np.median(np.diff(times))) if len(times) >= FEWEST_SCRAPES else 0
        after = times if not interval or times[-1] + 2 * interval > end else np.append(times, times[-1] + interval)
        yield from (_with_gaps(points, after) for points in members)


def _target(points: Points) -> tuple[str, ...]:
    labels = dict(points.labels)
    return tuple(labels.get(label, "") for label in TARGET)


def _with_pod(points: Points) -> Points:
    return replace(
        points, labels=tuple(sorted({"pod": dict(points.labels)["instance"], **dict(points.labels)}.items()))
    )


def _with_gaps(points: Points, scrapes: NDArray[np.int64]) -> Points:
    at = np.searchsorted(scrapes, points.times)
    missing = at + 1
    missing = missing[missing < len(scrapes)]
    missing = missing[~np.isin(missing, at)]
    if not len(missing):
        return points
    times = np.concatenate([points.times, scrapes[missing]])
    order = np.argsort(times, kind="stable")
    values = np.concatenate([points.values, np.full(len(missing), np.nan)])
    stale = np.concatenate([points.stale, np.ones(len(missing), bool)])
    return replace(points, times=times[order], values=values[order], stale=stale[order])


def _after(points: Points, begin_ms: int) -> Points:
    at = int(np.searchsorted(points.times, begin_ms))
    return replace(points, times=points.times[at:], values=points.values[at:], stale=points.stale[at:])


FINEST_MS, COARSEST_MS = 1000, 5000
PER_SCRAPE = 3
"""Steps of the grid between two scrapes: fine enough that targets with different scrape phases keep them."""


def grid_ms(recording: ScrapedSeries) -> int:
    """The step of the grid, milliseconds: a third of the shortest usual distance of two samples, 1 to 5 s."""
    near = [float(np.median(np.diff(p.times))) for p in recording.series if len(p.times) > 2]
    finest = min(near, default=float(COARSEST_MS * PER_SCRAPE)) / PER_SCRAPE
    return int(min(max(finest // 1000 * 1000, FINEST_MS), COARSEST_MS))


def openmetrics(recording: ScrapedSeries) -> Iterator[str]:
    """The lines of OpenMetrics text with timestamps; staleness markers, which it cannot express, are left out."""
    for points in sorted(recording.series, key=lambda each: each.name):
        name = series_text(points.name, points.labels)
        for at, value, stale in zip(points.times.tolist(), points.values.tolist(), points.stale.tolist(), strict=True):
            if not stale:
                yield f"{name} {_number(value)} {at / 1000:.3f}\n"
    yield "# EOF\n"


def input_series(recording: ScrapedSeries, begin_ms: int, step_ms: int) -> list[dict[str, str]]:
    """The recording as `input_series`; its begin is the test's time 0. Samples before it are left out."""
    found = []
    for points in recording.series:
        values = _values(points, begin_ms, step_ms)
        if values:
            found.append({"series": series_text(points.name, points.labels), "values": values})
    return found


def series_text(name: str, labels: Iterable[tuple[str, str]]) -> str:
    """A series as PromQL and the text formats write it."""
    return f"{name}{{{','.join(f'{key}={_quoted(value)}' for key, value in labels)}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _values(points: Points, begin_ms: int, step_ms: int) -> str:
    slots = np.rint((points.times - begin_ms) / step_ms).astype(int)
    words: list[str] = []
    last = -1
    for slot, value, stale in zip(slots.tolist(), points.values.tolist(), points.stale.tolist(), strict=True):
        if slot <= last:
            continue
        gap = slot - last - 1
        if gap:
            words.append("_" if gap == 1 else f"_x{gap}")
        words.append("stale" if stale else _number(value))
        last = slot
    return " ".join(words)


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
