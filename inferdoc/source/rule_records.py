"""What our recording rules left on a server: which pods there are, whether rules watched them, and what held.

A rule is judged for all pods of a server anyway. Where its records reach back over a window, a few queries show which
pods were affected, and nobody's samples need to be read for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from inferdoc.catalogue.record_names import EXPORTERS_RECORD, INFO, ROUTERS_RECORD, SEEN_RECORD
from inferdoc.source.prometheus_answers import AnswerSeries
from inferdoc.source.reads import Grid, Matcher, duration, selector

SCRAPED = "target:inferdoc_target_up:last"
TARGETS = "|".join((SEEN_RECORD, ROUTERS_RECORD, EXPORTERS_RECORD))
"""The targets that show engines, routers, or the GPUs and containers of pods."""
FAMILY = ("cluster", "namespace", "model_name")
WATCH_MS = 300_000
"""Steps at which it is checked whether rules were evaluated: for so long a server sees the last sample of a series."""
AT_LEAST = 2
"""Evaluations for which an observation has to hold: one alone is a swing."""
YOUNG_MS = 300_000
"""What holds since less than this may have been judged once."""


class Server(Protocol):
    """A server with the Prometheus API."""

    def now(self, query: str, at_ms: int) -> list[AnswerSeries]:
        """The series of an instant query."""

    def over(self, query: str, grid: Grid) -> list[AnswerSeries]:
        """The series of a range query."""

    def raw_samples(self, what: str, start_ms: int, end_ms: int) -> list[AnswerSeries]:
        """The samples of what a selector matches."""


Family = tuple[str, str, str]
"""Cluster, namespace and model."""


@dataclass(frozen=True)
class RuleRecords:
    """Queries a server. Times are milliseconds since 1970."""

    server: Server

    def pods(self, begin_ms: int, end_ms: int) -> list[Mapping[str, str]]:
        """The labels of the engine pods of a time range: those that were scraped in it."""
        spanned = f"[{duration(end_ms - begin_ms)}]"
        query = f"last_over_time({INFO}{spanned})\nand on (cluster, namespace, pod) last_over_time({SCRAPED}{spanned})"
        return [series.labels for series in self.server.now(query, end_ms)]

    def watched(self, begin_ms: int, end_ms: int) -> set[Family]:
        """The families that rules watched all the time."""
        count = max(2, (end_ms - begin_ms) // WATCH_MS + 1)
        grid = Grid(end_ms - (count - 1) * WATCH_MS, WATCH_MS, count, 0, 0, 0)
        found = self.server.over(f"count by ({', '.join(FAMILY)}) ({INFO})", grid)
        return {_family(series.labels) for series in found if np.isfinite(series.values).sum() == count}

    def unwatched(self, engines: Sequence[str], end_ms: int) -> set[Family]:
        """The families with an engine that rules do not know, or whose pod no label names. engines: names of gauges
        that every engine has."""
        pods = f"group by ({', '.join((*FAMILY, 'pod'))}) ({_any_of(engines)})"
        unknown = f"({pods} unless on (cluster, namespace, pod) {INFO})\nor {_any_of(engines, (('pod', '=', ''),))}"
        return {_family(each.labels) for each in self.server.now(f"group by ({', '.join(FAMILY)}) ({unknown})", end_ms)}

    def busy(self, engines: Sequence[str], end_ms: int) -> set[Family]:
        """The families that work. engines: names of gauges of requests that run."""
        working = f"sum by ({', '.join(FAMILY)}) ({_any_of(engines)}) > 0"
        return {_family(series.labels) for series in self.server.now(working, end_ms)}

    def targets(self, begin_ms: int, end_ms: int) -> list[Mapping[str, str]]:
        """The labels of the targets of the jobs that scrape engines, routers, GPUs or containers."""
        outcome = selector("", (("__name__", "=~", TARGETS),))
        query = f"last_over_time(up[{duration(end_ms - begin_ms)}])\nand on (job) group by (job) ({outcome})"
        return [series.labels for series in self.server.now(query, end_ms)]

    def true_records(self, names: str, begin_ms: int, end_ms: int) -> list[Mapping[str, str]]:
        """The labels of those for whom a record was true: for more than one evaluation, or just now. names: a regular
        expression of names of records."""
        what = selector("", (("__name__", "=~", names),))
        return [
            series.labels
            for series in self.server.raw_samples(what, begin_ms, end_ms)
            if len(series.times_ms) >= AT_LEAST or series.times_ms[-1:] > end_ms - YOUNG_MS
        ]

    def alarmed(self, begin_ms: int, end_ms: int) -> list[Mapping[str, str]]:
        """The labels of our alerts that fired."""
        what = selector("ALERTS", (("alertname", "=~", "Inferdoc.+"), ("alertstate", "=", "firing")))
        return [series.labels for series in self.server.raw_samples(what, begin_ms, end_ms)]


def _any_of(names: Sequence[str], match: tuple[Matcher, ...] = ()) -> str:
    return selector("", (("__name__", "=~", "|".join(names)), *match))


def _family(labels: Mapping[str, str]) -> Family:
    cluster, namespace, model = (labels.get(name, "") for name in FAMILY)
    return cluster, namespace, model
