"""Reads evaluated here, on raw samples of a server: with the rules of Prometheus, whatever those of the server are.

VictoriaMetrics' `rate` looks back before its window and does not extrapolate
(https://docs.victoriametrics.com/metricsql/#rate). Its samples are those that were scraped, so they are exported and
evaluated as the embedded store's are. What was exported serves on for the other calls of a diagnosis.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.source.base import InfoSeries
from inferdoc.source.evaluate import evaluate_tables, info_series
from inferdoc.source.export_lines import RawSeries
from inferdoc.source.histograms import Quantiles
from inferdoc.source.page_histograms import Called, in_batches, page_quantiles
from inferdoc.source.prometheus_errors import TooMuchError
from inferdoc.source.prometheus_queries import FEWEST_POINTS
from inferdoc.source.reads import Grid, Matcher, Read, ReadResult, cut, put_together
from inferdoc.source.scrape_times import WHOLE_MS
from inferdoc.source.tables import Table, TableLayout, shared_layout
from inferdoc.source.window import Samples
from inferdoc.store.block import STALE, absent

MOST_SAMPLES = 30_000_000
"""Samples in memory at once (240 MB, and as much again while they are put together)."""
AHEAD_MS = 600_000
"""Read so much more before: widest windows over the first steps of a grid are requested next."""
EDGE_MS = 1
KEPT_SECONDS = 60.0
"""How long samples serve on although newer ones have come: the calls of one diagnosis agree."""

Export = Callable[[Sequence[str], int, int, tuple[Matcher, ...]], list[RawSeries]]
"""Names of metrics, from and until in milliseconds, matchers -> all their series. Raises TooMuchError."""


@dataclass(frozen=True)
class _Batch:
    """What one export brought: all series of these names that pass `match`, in [start_ms, end_ms]."""

    names: frozenset[str]
    match: tuple[Matcher, ...]
    start_ms: int
    end_ms: int
    tables: list[Table]
    samples: int
    read_at: float

    def serves(self, start_ms: int, end_ms: int, match: tuple[Matcher, ...]) -> bool:
        """Whether its names need not be requested again."""
        return self.match == match and self.start_ms <= start_ms and end_ms <= self.end_ms


class RawReads:
    """Evaluates what `export` brings, and holds it. report_split: called for a time range that was too large, and is
    requested in halves."""

    def __init__(self, report_split: Callable[[], None]) -> None:
        self._report_split = report_split
        self._loaded: list[_Batch] = []
        self._since_ms: int | None = None

    def forget(self) -> None:
        """Hold nothing of what was read: other targets are requested from now on."""
        self._loaded.clear()

    def expect(self, since_ms: int | None) -> None:
        """From when on samples will be requested."""
        self._since_ms = since_ms

    def evaluate(
        self, reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...], export: Export
    ) -> dict[Read, ReadResult]:
        """All reads on the grid."""
        reach_ms = max((grid.reach_ms(read) for read in reads), default=0)
        try:
            tables = self._tables(_names(reads), grid.start_ms - reach_ms, grid.end_ms, match, export)
        except TooMuchError:
            if grid.count <= FEWEST_POINTS:
                raise
            self._loaded.clear()
        else:
            return evaluate_tables(tables, reads, grid, match)
        parts = self._in_pieces(reads, reach_ms, grid, match, export)
        return {read: put_together(read, [part[read] for part in parts]) for read in reads}

    def page_quantiles(
        self,
        requested: Mapping[Read, tuple[Sequence[float], Called]],
        grid: Grid,
        match: tuple[Matcher, ...],
        export: Export,
    ) -> dict[Read, dict[float, Quantiles | None]]:
        """Quantiles as far as they can be determined page by page and at once."""
        start_ms = grid.start_ms - max(map(grid.reach_ms, requested), default=0)
        try:
            tables = self._tables(_names(requested), start_ms, grid.end_ms, match, export)
        except TooMuchError:
            return {}
        return page_quantiles(in_batches(tables), requested, grid, match)

    def info(self, name: str, grid: Grid, match: tuple[Matcher, ...], export: Export) -> list[InfoSeries]:
        """Every series of an info metric. Raises TooMuchError where they do not fit."""
        tables = self._tables({name}, grid.start_ms - grid.gauge_ms, grid.end_ms, match, export)
        return info_series(tables, name, grid, match)

    def _in_pieces(
        self, reads: Sequence[Read], reach_ms: int, grid: Grid, match: tuple[Matcher, ...], export: Export
    ) -> list[dict[Read, ReadResult]]:
        """The results of consecutive pieces of the grid, as large as fit; nothing of them is kept."""
        self._report_split()
        parts = []
        for half in cut(grid, -(-grid.count // 2)):
            try:
                series = export(_names(reads), half.start_ms - reach_ms, half.end_ms, match)
            except TooMuchError:
                if half.count <= FEWEST_POINTS:
                    raise
                parts += self._in_pieces(reads, reach_ms, half, match, export)
            else:
                parts.append(evaluate_tables(tables_of(series), reads, half, match))
        return parts

    def _tables(
        self, names: Collection[str], start_ms: int, end_ms: int, match: tuple[Matcher, ...], export: Export
    ) -> list[Table]:
        """Tables that hold all series of these names in the time range, each series in one of them."""
        fresh = [batch for batch in self._loaded if time.monotonic() - batch.read_at < KEPT_SECONDS]
        self._loaded = [b for b in fresh if b.serves(start_ms, end_ms, match) or b.names.isdisjoint(names)]
        missing = set(names).difference(*(batch.names for batch in self._loaded))
        if missing:
            self._loaded.append(self._read(missing, start_ms, end_ms, match, export))
        serving = [batch for batch in self._loaded if not batch.names.isdisjoint(names)]
        while len(self._loaded) > len(serving) and sum(batch.samples for batch in self._loaded) > MOST_SAMPLES:
            self._loaded.remove(next(batch for batch in self._loaded if batch not in serving))
        return [table for batch in serving for table in batch.tables]

    def _read(
        self, names: Collection[str], start_ms: int, end_ms: int, match: tuple[Matcher, ...], export: Export
    ) -> _Batch:
        since_ms = self._since_ms if self._since_ms is not None else start_ms
        begin_ms = min(start_ms, since_ms if end_ms - since_ms <= WHOLE_MS else start_ms) - AHEAD_MS
        series = export(sorted(names), begin_ms, end_ms + EDGE_MS, match)
        samples = sum(len(one.values) for one in series)
        read_at = time.monotonic()
        return _Batch(frozenset(names), match, begin_ms, end_ms + EDGE_MS, tables_of(series), samples, read_at)


def _names(reads: Iterable[Read]) -> list[str]:
    return sorted({read.name for read in reads})


LEAST_SHARED = 0.5
"""A series is of a page with whose other series it shares at least this part of its times."""


class _Page:
    """Series that were scraped together."""

    def __init__(self, first: RawSeries) -> None:
        self.series = [first]
        self.times = {id(first.times_ms): first.times_ms}
        self.all = set(first.times_ms.tolist())

    def take(self, one: RawSeries) -> bool:
        """Whether it is of this page; then it is added."""
        if id(one.times_ms) not in self.times:
            own = one.times_ms.tolist()
            if sum(map(self.all.__contains__, own)) < LEAST_SHARED * len(own):
                return False
            self.times[id(one.times_ms)] = one.times_ms
            self.all.update(own)
        self.series.append(one)
        return True


def tables_of(series: list[RawSeries]) -> list[Table]:
    """One table per target and scraper: series of one page share the times of its scrapes; two servers that scrape one
    target have times of their own. `series` is emptied: both at once would be twice the memory."""
    pages: list[_Page] = []
    at_time: dict[tuple[str, str, int], _Page] = {}
    series.sort(key=lambda one: -len(one.times_ms))
    for one in series:
        if not len(one.times_ms):
            continue
        target = one.labels.get("job", ""), one.labels.get("instance", "")
        looks = (int(one.times_ms[at]) for at in (len(one.times_ms) // 2, 0, -1))
        near = dict.fromkeys(at_time.get((*target, look)) for look in looks)
        if not any(page is not None and page.take(one) for page in near):
            page = _Page(one)
            pages.append(page)
            at_time.update(((*target, at), page) for at in page.all)
    series.clear()
    at_time.clear()
    layouts: list[TableLayout] = []
    return [_table(page, layouts) for page in pages]


def _table(page: _Page, layouts: list[TableLayout]) -> Table:
    """The samples of a page; its series in the order of their names and labels, so that pages alike share a layout."""
    times = np.array(sorted(page.all), np.int64)
    target = _shared([one.labels for one in page.series])
    own = [({n: v for n, v in one.labels.items() if n not in target}, one) for one in page.series]
    own.sort(key=lambda each: (each[1].name, sorted(each[0].items())))
    rows = {key: np.searchsorted(times, at) for key, at in page.times.items()}
    page.series.clear()
    names: list[str] = []
    labels: list[dict[str, str]] = []
    values = np.full((len(own), len(times)), STALE)
    for mine, one in own:
        if not (names and names[-1] == one.name and labels[-1] == mine):  # else more of the same series
            names.append(one.name)
            labels.append(mine)
        values[len(names) - 1, rows[id(one.times_ms)]] = one.values
    values = values[: len(names)]
    kept = ~absent(values).all(axis=0)
    if not kept.all():
        times, values = times[kept], values[:, kept]
    return Table(target, shared_layout(names, labels, layouts), Samples(times, values.T))


def _shared(labels: Sequence[dict[str, str]]) -> dict[str, str]:
    """The labels that all series have alike."""
    shared = set(labels[0].items())
    for own in labels[1:]:
        shared &= own.items()
    return dict(sorted(shared))
