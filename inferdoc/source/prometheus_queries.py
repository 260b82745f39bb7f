"""Queries to one server: timed, counted, and sent in parts where the server finds one too large."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np

from inferdoc.source import prometheus_answers as answers
from inferdoc.source.base import Cost
from inferdoc.source.prometheus_answers import AnswerError, AnswerSeries
from inferdoc.source.prometheus_errors import (
    DeadlineError,
    PrometheusError,
    StoreAwayError,
    TooManySeriesError,
    TooMuchError,
)
from inferdoc.source.prometheus_http import Client, Params, ReadDeadline
from inferdoc.source.reads import TARGET, Grid, Matcher, cut, duration, literal

FEWEST_POINTS = 8
"""A query that the server finds too large is halved down to this many steps."""
SHORTEST_RAW_MS = 60_000
EVERYTHING = {"nocache": "1", "max_source_resolution": "0s", "dedup": "true"}
"""VictoriaMetrics: no rounding of times. Thanos: no downsampled blocks, and one series of those that replicas hold."""

T = TypeVar("T")
D = TypeVar("D")


class Queries:
    """Queries `client`. timeout: seconds of an operation; parallel: queries under way at once; cost: added to."""

    def __init__(self, client: Client, cost: Cost, *, timeout: float, parallel: int) -> None:
        self.client = client
        self.cost = cost
        self._timeout = timeout
        self._parallel = parallel
        self._counting = threading.Lock()
        self._lacks_store = False

    def over(self, query: str, grid: Grid, deadline: ReadDeadline) -> list[AnswerSeries]:
        """A range query over the grid; halved where the server finds it too large."""
        params = {
            "query": query,
            "start": seconds(grid.start_ms),
            "end": seconds(grid.end_ms),
            "step": seconds(grid.step_ms),
        }
        try:
            return self.series("query_range", params, deadline, grid.times_ms)
        except TooManySeriesError:
            raise  # as many in a part of the time
        except TooMuchError as error:
            if grid.count <= FEWEST_POINTS:
                raise _hopeless(error, f"{grid.count} steps of a query") from None
            self.count_split()
            halves = cut(grid, -(-grid.count // 2))
            return [series for half in halves for series in self.over(query, half, deadline)]

    def raw(self, what: str, start_ms: int, end_ms: int, deadline: ReadDeadline) -> list[AnswerSeries]:
        """Raw samples in [start, end], by an instant query of a range; halved where the server finds it too large. The
        range is a millisecond longer, for servers that open it on the left."""
        params = {"query": f"{what}[{duration(end_ms - start_ms + 1)}]", "time": seconds(end_ms)}
        try:
            found = self.series("query", params, deadline)
        except TooManySeriesError:
            raise
        except TooMuchError as error:
            if end_ms - start_ms <= SHORTEST_RAW_MS:
                raise _hopeless(error, "the scrapes of a minute") from None
            self.count_split()
            middle = (start_ms + end_ms) // 2
            return self.raw(what, start_ms, middle, deadline) + self.raw(what, middle + 1, end_ms, deadline)
        for series in found:
            inside = series.times_ms >= start_ms
            series.times_ms, series.values = series.times_ms[inside], series.values[inside]
        return found

    def by_targets(
        self, ask: Callable[[tuple[Matcher, ...]], T], what: str, grid: Grid, deadline: ReadDeadline
    ) -> list[T]:
        """What `ask` brings for all targets, or one after the other for parts of them where the series of all are too
        many for the server. what: the selector; grid: where its series are looked for."""
        try:
            return [ask(())]
        except TooManySeriesError as error:
            span = grid.start_ms - grid.gauge_ms, grid.end_ms
            targets = ["", *sorted(self.label_values(TARGET, what, span, deadline))]
            return self._halves(ask, targets, error)

    def label_values(self, label: str, what: str, span: tuple[int, int], deadline: ReadDeadline) -> set[str]:
        """The values that a label has on what a selector matches, from and until in milliseconds."""
        begin, end = map(seconds, span)
        data = self.client.ask(
            f"label/{label}/values", {"match[]": what, "start": begin, "end": end}, deadline, form=False
        )
        return set(self.decoded(answers.strings, data))

    def _halves(
        self, ask: Callable[[tuple[Matcher, ...]], T], targets: list[str], error: TooManySeriesError
    ) -> list[T]:
        if len(targets) <= 1:
            raise _hopeless(error, "the series of one target") from None
        self.count_split()
        found: list[T] = []
        for half in (targets[: len(targets) // 2], targets[len(targets) // 2 :]):
            try:
                found.append(ask(((TARGET, "=~", "|".join(map(literal, half))),)))
            except TooManySeriesError as too_many:
                found += self._halves(ask, half, too_many)
        return found

    def count_split(self) -> None:
        """One query was too large, and is requested in parts."""
        with self._counting:
            self.cost.split += 1

    def series(
        self, path: str, params: Params, deadline: ReadDeadline, steps_ms: np.ndarray | None = None
    ) -> list[AnswerSeries]:
        """The series of an instant or a range query. steps_ms: int64[n], its steps where they are known."""
        started = time.perf_counter()
        data = self._answer(path, params, deadline)
        found = self.decoded(partial(answers.series, steps_ms=steps_ms), data)
        took = time.perf_counter() - started, str(params["query"])
        with self._counting:
            self.cost.samples += sum(len(series.values) for series in found)
            self.cost.slowest = max(took, self.cost.slowest or took)
        return found

    def _answer(self, path: str, params: Params, deadline: ReadDeadline) -> msgspec.Raw:
        """The answer of all stores of a Thanos. Where one does not answer, that of the others, with a warning: what
        can be seen in an incident is better than nothing, but nobody should take it for all."""
        limit = {"timeout": f"{max(1, int(min(self.client.request_seconds, deadline.left)))}s"}
        known = {**params, **limit, **EVERYTHING}
        if not self._lacks_store:
            try:
                return self.client.ask(path, {**known, "partial_response": "false"}, deadline)
            except StoreAwayError as error:
                self._lacks_store = True
                self.client.warn(f"a part of the data is missing: {error}")
        return self.client.ask(path, {**known, "partial_response": "true"}, deadline)

    def decoded(self, decode: Callable[[D], T], data: D) -> T:
        """An answer as arrays. Raises PrometheusError."""
        try:
            return decode(data)
        except AnswerError as error:
            raise PrometheusError(
                f"{self.client.where} sent an answer that cannot be read ({error}); "
                "is it a Prometheus-compatible server?"
            ) from None

    def together(self, jobs: Sequence[Callable[[], T]], deadline: ReadDeadline) -> list[T]:
        """Every job's result, some at a time; the first failure calls the others off."""
        if not jobs:
            return []
        with ThreadPoolExecutor(min(self._parallel, len(jobs)), thread_name_prefix="prometheus") as pool:
            futures = [pool.submit(job) for job in jobs]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
                errors = [f.exception() for f in futures if f.done() and f.exception()]
                errors.sort(key=lambda error: isinstance(error, DeadlineError))
                if errors and errors[0] is not None:
                    raise errors[0]
                return [future.result() for future in futures]
            except BaseException:
                deadline.call_off()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    @contextmanager
    def operation(self) -> Iterator[ReadDeadline]:
        """One operation of a source, with its time limit."""
        started = time.perf_counter()
        try:
            yield ReadDeadline(self._timeout)
        finally:
            self.cost.seconds += time.perf_counter() - started
            self.cost.queries = self.client.questions


def seconds(milliseconds: int) -> str:
    """As servers take times."""
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def _hopeless(error: TooMuchError, what: str) -> PrometheusError:
    return PrometheusError(f"{error}; even {what} are too much for it", error.status)
