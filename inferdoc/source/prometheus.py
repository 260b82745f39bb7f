"""A server with the Prometheus HTTP API as a source: Prometheus from 2.42 on, Thanos, Mimir, VictoriaMetrics.

What differs between them, and is not relied on or is switched off here:
- Times and steps are sent as seconds with three decimals, which all four read; the grid carries milliseconds.
- `limit` is known to Prometheus 2.52 and later only; it is not sent.
- VictoriaMetrics moves start and end of a range query to multiples of the step unless `nocache=1` is sent. Its `rate`
  and `increase` do not extrapolate as Prometheus does (https://docs.victoriametrics.com/metricsql/): it is requested
  samples, which are evaluated here (`inferdoc.source.raw_reads`).
- Thanos may answer from downsampled blocks unless `max_source_resolution=0s` is sent, and tells a limit of a store
  as a warning beside half an answer unless `partial_response=false` is (`prometheus_queries`).
- Mimir, Cortex, Thanos and VictoriaMetrics limit how many series a query may touch: the targets are parted then.
- Prometheus 3 opens windows on the left. The grid ends 1 ms after a sample, so no sample falls on the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, reduce
from typing import TypeVar

import msgspec
import numpy as np

from inferdoc.catalogue.names import load_identity
from inferdoc.errors import NOT_JSON
from inferdoc.source import prometheus_answers as answers
from inferdoc.source.base import Cost, InfoSeries, Scrapes, SourceKind
from inferdoc.source.evaluate import folded_rows
from inferdoc.source.export_lines import RawSeries
from inferdoc.source.histograms import Quantiles
from inferdoc.source.kept_series import matchers_of_targets, word_of
from inferdoc.source.page_histograms import Called
from inferdoc.source.prometheus_access import Access
from inferdoc.source.prometheus_answers import AnswerSeries, Exemplar
from inferdoc.source.prometheus_errors import PrometheusError, TooMuchError
from inferdoc.source.prometheus_http import Client, ReadDeadline
from inferdoc.source.prometheus_queries import Queries, seconds
from inferdoc.source.raw_reads import Export, RawReads
from inferdoc.source.readable import Readable
from inferdoc.source.reads import (
    Grid,
    Matcher,
    Read,
    ReadResult,
    cut,
    duration,
    literal,
    promql,
    put_together,
    selector,
)
from inferdoc.source.rule_records import RuleRecords
from inferdoc.source.scrape_times import divide, gather
from inferdoc.source.victoria_metrics import Exports

MOST_POINTS = 10_000
"""Points per series in one query; Prometheus refuses more than 11,000 (web/api/v1/api.go)."""
RAW_PIECE_MS = 3_600_000
MANY_TARGETS = 300
"""A server with more targets than this scrapes many that have nothing to do with inference."""
LATEST_RANGES = ("1h", "1d", "30d", "180d")

T = TypeVar("T")


class _ActiveTarget(msgspec.Struct, rename={"error": "lastError"}):
    labels: dict[str, str]
    error: str = ""


class _Targets(msgspec.Struct, rename={"active": "activeTargets"}):
    """Of the answer of /api/v1/targets what is read here."""

    active: list[_ActiveTarget]


class PrometheusSource(Readable):
    """Reads signals from a Prometheus-compatible server; implements `Source`.

    access: address and credentials; timeout: seconds that one operation may take with all its queries and retries;
    parallel: queries under way at once; request_timeout: seconds one query may take; markers: gauges by which an
    inference fleet is recognised where `up` does not show.
    """

    kind: SourceKind = "prometheus"

    def __init__(
        self,
        access: Access,
        *,
        timeout: float = 60.0,
        parallel: int = 6,
        request_timeout: float = 30.0,
        markers: Sequence[str] | None = None,
    ) -> None:
        self._markers = tuple(load_identity().markers if markers is None else markers)
        self._client = Client(access, parallel=parallel, request_seconds=request_timeout)
        self.location = access.url
        self.cost = Cost()
        self.warnings = self._client.warnings
        self._queries = Queries(self._client, self.cost, timeout=timeout, parallel=parallel)
        self._exports = Exports(self._client, self._queries.together)
        self._raw_reads = RawReads(self._queries.count_split)
        self._kept: Mapping[str, tuple[Matcher, ...]] = {}
        """By the word with which the names of metrics begin, matchers of those series that are read."""

    def __repr__(self) -> str:
        return f"PrometheusSource({self.location!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def expect(self, names: Collection[str], since_ms: int | None = None) -> None:
        """From when on samples will be requested."""
        self._raw_reads.expect(since_ms)

    # ---- what is there --------------------------------------------------------------------------------------

    def target_count(self) -> int | None:
        """How many targets are scraped now, None where the server does not show."""
        with self._queries.operation() as deadline:
            try:
                found = self._queries.series("query", {"query": "count(up)"}, deadline)
            except PrometheusError:
                return None  # whatever is read next says what is wrong
        counted = float(found[0].values[0]) if found and len(found[0].values) else np.nan
        return int(counted) if np.isfinite(counted) else None

    def scrape_errors(self) -> dict[str, str]:
        """Why the newest scrape of a target failed, by instance: `lastError` of /api/v1/targets, which servers that do
        not scrape lack."""
        with self._queries.operation() as deadline:
            try:
                data = self._client.ask("targets", {"state": "active"}, deadline, form=False)
                found = msgspec.json.decode(data, type=_Targets).active
            except (PrometheusError, *NOT_JSON):
                return {}
        return {one.labels.get("instance", ""): one.error for one in found if one.error}

    def leave_out(
        self, targets: Sequence[Mapping[str, str]], kept: Sequence[Mapping[str, str]], engines: Collection[str]
    ) -> bool:
        """From now on ask for the metrics of engines (known by the word before the first `:` or `_` of one) of the
        kept targets only. Others stay as they are: their series need not be called as their targets are."""
        self._raw_reads.forget()
        matchers = matchers_of_targets(kept) if targets else ()
        self._kept = {word_of(name): matchers for name in engines} if matchers else {}
        return bool(matchers) or not targets

    def keep_only(self, matchers: Mapping[str, tuple[Matcher, ...]]) -> None:
        """From now on read only such series of the metrics whose names begin with a word, or all again where there are
        no matchers."""
        self._raw_reads.forget()
        self._kept = dict(matchers)

    def rule_records(self) -> RuleRecords:
        """What recording rules left on the server."""
        return RuleRecords(self)

    def _of_kept(self, name: str) -> tuple[Matcher, ...]:
        """The matchers of the series that are read of a metric."""
        return self._kept.get(word_of(name), ())

    def latest_ms(self) -> int | None:
        """Time of the newest sample of the fleet, milliseconds since the epoch; None without any."""
        with self._queries.operation() as deadline:
            for series in ("up", *self._markers):
                found = self._latest_of(series, deadline)
                if found is not None:
                    return found
        return None

    def _latest_of(self, series: str, deadline: ReadDeadline) -> int | None:
        """Newest sample of a metric: now, else within growing ranges on a grid of 4 minutes (a sample is seen for 5),
        then to the second around what that found, for series that ended in between."""
        now = self._number(f"max(timestamp({series}))", deadline)
        if now is not None:
            return now
        has_times = self._exports.recognised
        for length in LATEST_RANGES:
            query = f"max(max_over_time(timestamp({series})[{length}:4m]))"
            if has_times:  # it answers no sub-query of more than 30,000 steps, and has a function for this
                query = f"max(tlast_over_time({series}[{length}]))"
            try:
                coarse = self._number(query, deadline)
            except TooMuchError as error:
                self._client.warn(f"the newest sample was not searched for over {length}: {error}")
                continue
            if coarse is not None and has_times:
                return coarse
            if coarse is not None:
                return self._finer(series, coarse, deadline)
        return None

    def _finer(self, series: str, coarse: int, deadline: ReadDeadline) -> int:
        """To the second: first in steps of 15 s, since each step looks at every target of the fleet."""
        found = coarse
        for length, step in ((300, 15), (15, 1)):
            query = f"max(max_over_time(timestamp({series})[{length}s:{step}s]))"
            found = max(found, self._number(query, deadline, found + length * 1000) or found)
        return found

    def _number(self, query: str, deadline: ReadDeadline, at_ms: int | None = None) -> int | None:
        """An instant query that yields one time in seconds: milliseconds, or None where it yields nothing."""
        params = {"query": query, "nocache": "1"}
        if at_ms is not None:
            params["time"] = seconds(at_ms)
        found = self._queries.series("query", params, deadline)
        if not found or not len(found[0].values) or not np.isfinite(found[0].values[0]):
            return None
        return int(self._queries.decoded(answers.milliseconds, found[0].values[:1])[0])

    def names(self, start_ms: int, end_ms: int) -> set[str]:
        """Series names of the time range. A server may add names from just outside of it: it looks at whole blocks.

        All names are requested, not only those of known exporters: Prometheus answers from its index, while a matcher
        would make it intersect every series.
        """
        span = {"start": seconds(start_ms), "end": seconds(end_ms)}
        with self._queries.operation() as deadline:
            try:
                data = self._client.ask("label/__name__/values", span, deadline, form=False)
                return set(self._queries.decoded(answers.strings, data))
            except PrometheusError as error:
                if error.status not in (400, 403, 404, 405, 422, 501):
                    raise
                refused = error
            counted = {"query": 'count by (__name__) ({__name__=~".+"})', "time": seconds(end_ms)}
            try:
                data = self._client.ask("query", counted, deadline)
            except PrometheusError:
                raise refused from None
            return self._queries.decoded(answers.metric_names, data)

    def label_names(self, start_ms: int, end_ms: int) -> set[str] | None:
        """Names of the labels of the time range, None where the server does not show."""
        span = {"start": seconds(start_ms), "end": seconds(end_ms)}
        with self._queries.operation() as deadline:
            try:
                return set(
                    self._queries.decoded(answers.strings, self._client.ask("labels", span, deadline, form=False))
                )
            except PrometheusError as error:
                if error.status not in (400, 403, 404, 405, 422, 501):
                    raise
                return None

    def scrapes(self, start_ms: int, end_ms: int) -> list[Scrapes]:
        """Every scrape of every target: `inferdoc.source.base.Source` says how long time ranges are reported."""
        older, whole_from = divide(start_ms, end_ms)
        with self._queries.operation() as deadline:
            up = selector("up", self._inference_jobs(start_ms, end_ms, deadline) + self._of_kept("up"))
            jobs: list[Callable[[], list[AnswerSeries]]] = [
                partial(self._queries.raw, up, begin, min(begin + RAW_PIECE_MS - 1, end_ms), deadline)
                for begin in range(whole_from, end_ms + 1, RAW_PIECE_MS)
            ]
            if older is not None:
                grid = Grid(older.first_ms, older.step_ms, older.count, 0, 0, 0)
                query = f"min_over_time({up}[{duration(older.length_ms)}])"
                jobs.append(partial(self._queries.over, query, grid, deadline))
            found = [series for part in self._queries.together(jobs, deadline) for series in part]
            return gather(Scrapes(s.labels, s.times_ms, s.values) for s in found)

    def _inference_jobs(self, start_ms: int, end_ms: int, deadline: ReadDeadline) -> tuple[Matcher, ...]:
        """On a server with very many targets: a matcher of the jobs that expose an inference fleet's metrics."""
        length, at = duration(max(end_ms - start_ms, 1000)), seconds(end_ms)
        counted = self._queries.series("query", {"query": "count(up)", "time": at}, deadline)
        if not counted or counted[0].values[0] <= MANY_TARGETS:
            return ()
        markers = "|".join(self._markers)
        query = f'group by (job) (last_over_time({{__name__=~"{markers}"}}[{length}]))'
        found = self._queries.series("query", {"query": query, "time": at}, deadline)
        jobs = sorted({series.labels.get("job", "") for series in found} - {""})
        if not jobs:
            return ()
        return (("job", "=~", "|".join(literal(job) for job in jobs)),)

    # ---- reads ----------------------------------------------------------------------------------------------

    def evaluate(self, reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...] = ()) -> dict[Read, ReadResult]:
        """All reads on the grid: values float64[keys, grid.count], NaN where nothing."""
        selected = list(dict.fromkeys(reads))
        outcome = self._by_samples(grid, lambda export: self._raw_reads.evaluate(selected, grid, match, export))
        if outcome is not None:
            return outcome
        pieces = cut(grid, MOST_POINTS)
        with self._queries.operation() as deadline:

            def one(read: Read, piece: Grid) -> ReadResult:
                def of(targets: tuple[Matcher, ...]) -> ReadResult:
                    query = promql(read, grid, match + self._of_kept(read.name) + targets)
                    return _result(read, self._queries.over(query, piece, deadline), piece)

                what = selector(read.name, read.match + match + self._of_kept(read.name))
                return reduce(partial(folded_rows, read), self._queries.by_targets(of, what, piece, deadline))

            results = iter(
                self._queries.together([partial(one, read, piece) for read in selected for piece in pieces], deadline)
            )
            return {read: put_together(read, [next(results) for _ in pieces]) for read in selected}

    def info(self, name: str, grid: Grid, match: tuple[Matcher, ...] = ()) -> list[InfoSeries]:
        """Every series of an info metric: values float64[grid.count]."""
        outcome = self._by_samples(grid, lambda export: self._raw_reads.info(name, grid, match, export))
        if outcome is not None:
            return outcome
        match += self._of_kept(name)
        what = selector(name, match)
        with self._queries.operation() as deadline:
            rows: dict[tuple[tuple[str, str], ...], np.ndarray] = {}
            for piece in cut(grid, MOST_POINTS):

                def of(targets: tuple[Matcher, ...], piece: Grid = piece) -> list[AnswerSeries]:
                    query = f"last_over_time({selector(name, match + targets)}[{duration(grid.gauge_ms)}])"
                    return self._queries.over(query, piece, deadline)

                parts = self._queries.by_targets(of, what, piece, deadline)
                for series in (series for part in parts for series in part):
                    key = tuple(sorted(series.labels.items()))
                    row = rows.setdefault(key, np.full(grid.count, np.nan))
                    _place(row, series, grid)
            return [InfoSeries(dict(key), row) for key, row in sorted(rows.items())]

    def page_quantiles(
        self, requested: Mapping[Read, tuple[Sequence[float], Called]], grid: Grid, match: tuple[Matcher, ...] = ()
    ) -> dict[Read, dict[float, Quantiles | None]]:
        """Some quantiles of histograms, where the samples of all their buckets are here."""
        outcome = self._by_samples(grid, lambda export: self._raw_reads.page_quantiles(requested, grid, match, export))
        return outcome or {}

    def _by_samples(self, grid: Grid, answer: Callable[[Export], T]) -> T | None:
        """What raw samples of the server show; None where it hands out none, or its own functions do as well."""
        if not self._exports.usable(grid.end_ms - grid.start_ms):
            return None
        with self._queries.operation() as deadline:

            def export(names: Sequence[str], start_ms: int, end_ms: int, match: tuple[Matcher, ...]) -> list[RawSeries]:
                what = [selector("", (("__name__", "=", name), *match, *self._of_kept(name))) for name in names]
                series = self._exports.series(what, start_ms, end_ms, deadline)
                self.cost.samples += sum(len(one.values) for one in series)
                return series

            try:
                return answer(export)
            except PrometheusError as error:
                if not self._exports.refused(error):
                    raise
                return None

    def now(self, query: str, at_ms: int) -> list[AnswerSeries]:
        """The series of an instant query, without the names of their metrics. Raises PrometheusError."""
        with self._queries.operation() as deadline:
            return self._queries.series("query", {"query": query, "time": seconds(at_ms)}, deadline)

    def over(self, query: str, grid: Grid) -> list[AnswerSeries]:
        """The series of a range query at the steps of a grid. Raises PrometheusError."""
        with self._queries.operation() as deadline:
            return self._queries.over(query, grid, deadline)

    def raw_samples(self, what: str, start_ms: int, end_ms: int) -> list[AnswerSeries]:
        """The samples in [start, end], milliseconds since 1970, of what a selector matches. Raises PrometheusError."""
        with self._queries.operation() as deadline:
            return self._queries.raw(what, start_ms, end_ms, deadline)

    def label_values(self, label: str, what: str, start_ms: int, end_ms: int) -> set[str]:
        """The values that a label has on what a selector matches. Raises PrometheusError."""
        with self._queries.operation() as deadline:
            return self._queries.label_values(label, what, (start_ms, end_ms), deadline)

    def exemplars(self, what: str, start_ms: int, end_ms: int) -> list[Exemplar]:
        """The exemplars of the series that a selector matches, in [start, end], milliseconds since 1970. Raises
        PrometheusError, also where the server has no such API."""
        params = {"query": what, "start": seconds(start_ms), "end": seconds(end_ms)}
        with self._queries.operation() as deadline:
            return self._queries.decoded(answers.exemplars, self._client.ask("query_exemplars", params, deadline))

    def samples(self, names: Sequence[str], start_ms: int, end_ms: int) -> list[tuple[str, AnswerSeries]]:
        """The raw samples of metrics in [start, end], milliseconds since 1970, each series with the name of its metric.
        Raises PrometheusError."""
        with self._queries.operation() as deadline:

            def of(name: str) -> list[tuple[str, AnswerSeries]]:
                what = f'{{__name__="{literal(name)}"}}'
                return [(name, series) for series in self._queries.raw(what, start_ms, end_ms, deadline)]

            return [
                each
                for found in self._queries.together([partial(of, name) for name in names], deadline)
                for each in found
            ]


def _place(row: np.ndarray, series: AnswerSeries, grid: Grid) -> None:
    """Put points of an answer at their steps."""
    steps = np.rint((series.times_ms - grid.start_ms) / grid.step_ms).astype(np.int64)
    inside = (steps >= 0) & (steps < grid.count)
    row[steps[inside]] = series.values[inside]


def _result(read: Read, found: list[AnswerSeries], grid: Grid) -> ReadResult:
    """Rows by key, in the order of the keys."""
    rows: dict[tuple[str, ...], np.ndarray] = {}
    times_ms = grid.times_ms
    for series in found:
        key = tuple(series.labels.get(label, "") for label in read.by)
        if key not in rows and np.array_equal(series.times_ms, times_ms):
            rows[key] = series.values
        elif len(series.values):
            if key not in rows:
                rows[key] = np.full(grid.count, np.nan)
            _place(rows[key], series, grid)
    keys = sorted(rows)
    return ReadResult(read.by, keys, np.vstack([rows[key] for key in keys]) if keys else np.empty((0, grid.count)))
