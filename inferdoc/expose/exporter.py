"""The page that a Prometheus scrapes, served while `inferdoc collect` runs."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import get_args

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.collect.collector import CollectStats, LogFeed
from inferdoc.errors import ConfigError
from inferdoc.expose.rounds import Rounds
from inferdoc.forecast.result import Forecast, forecast_rows
from inferdoc.judging.model import AbsenceKind, Diagnosis, Finding, VerdictWord
from inferdoc.times import moment_of
from inferdoc.version import __version__


def verdict_rows(rounds: Rounds[Diagnosis]) -> dict[str, list[Row]]:
    """The newest diagnosis by metric name, and how many were made. Without a recent one only the numbers."""
    counts = {"ok": rounds.done, "failed": rounds.failed}
    rows: dict[str, list[Row]] = {
        "inferdoc_diagnoses_total": [({"result": result}, float(count)) for result, count in counts.items()]
    }
    newest = rounds.newest()
    if newest is None:
        return rows
    return rows | answer_rows(newest.value, newest.at, newest.seconds)


def answer_rows(answer: Diagnosis, at: float, seconds: float) -> dict[str, list[Row]]:
    """A diagnosis by metric name. at: when it was made, Unix seconds; seconds: how long it took."""
    unjudged = [entry.kind for entry in answer.not_judged]
    return {
        "inferdoc_diagnosis_timestamp_seconds": [({}, at)],
        "inferdoc_diagnosis_duration_seconds": [({}, seconds)],
        "inferdoc_verdict": [({"verdict": word}, float(word == answer.verdict)) for word in get_args(VerdictWord)],
        "inferdoc_finding": [row for finding in answer.findings for row in _pods(finding)],
        "inferdoc_finding_onset_timestamp_seconds": [
            (_labels(finding), float(moment_of(finding.onset, "onset"))) for finding in answer.findings
        ],
        "inferdoc_causes_not_judged": [({"kind": kind}, float(unjudged.count(kind))) for kind in get_args(AbsenceKind)],
    }


def _pods(finding: Finding) -> Iterator[Row]:
    for pod in dict.fromkeys(finding.scope.pods or [""]):
        yield {**_labels(finding), "severity": finding.severity, "certainty": finding.certainty, "pod": pod}, 1.0


def _labels(finding: Finding) -> dict[str, str]:
    scope = finding.scope
    return {
        "cause": finding.id,
        "cluster": scope.cluster,
        "namespace": scope.namespace,
        "model_name": scope.model,
        "role": scope.role,
        "tier": scope.tier,
    }


@dataclass(eq=False)
class Exposed(Collector):
    """What is read at each scrape of the page.

    stats: of the collecting under way; store_bytes: the size of the store's file; eplb: the log that is followed;
    diagnoses, forecasts: made beside the collecting, where they are.
    """

    families: Families
    stats: CollectStats
    store_bytes: Callable[[], int]
    eplb: LogFeed | None = None
    diagnoses: Rounds[Diagnosis] | None = None
    forecasts: Rounds[Sequence[Forecast]] | None = None
    registry: CollectorRegistry = field(default_factory=lambda: CollectorRegistry(auto_describe=False))

    def __post_init__(self) -> None:
        self.registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Nothing: the families are known at a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Every family of the page."""
        yield from self.families.families(self._rows())

    def _rows(self) -> dict[str, list[Row]]:
        rows = self._own() | self._balance()
        if self.diagnoses is not None:
            rows |= verdict_rows(self.diagnoses)
        forecasts = self.forecasts.newest() if self.forecasts is not None else None
        if forecasts is not None:
            rows |= forecast_rows(forecasts.value, forecasts.at)
        return rows

    def _own(self) -> dict[str, list[Row]]:
        stats = self.stats
        scrapes = {"ok": stats.scrapes - stats.failed, "failed": stats.failed, "left_out": stats.left_out}
        return {
            "inferdoc_build_info": [({"version": __version__}, 1.0)],
            "inferdoc_scrapes_total": [({"result": result}, float(count)) for result, count in scrapes.items()],
            "inferdoc_samples_stored_total": [({}, float(stats.samples))],
            "inferdoc_pages_not_stored_total": [({}, float(stats.not_stored))],
            "inferdoc_store_size_bytes": [({}, float(self.store_bytes()))],
        }

    def _balance(self) -> dict[str, list[Row]]:
        """The newest lines of the log, under the labels of the target that writes it."""
        page = self.eplb.log.newest if self.eplb is not None else None
        rows: dict[str, list[Row]] = {}
        if page is not None:
            for series, value in zip(page.layout.series, page.values, strict=True):
                rows.setdefault(series.name, []).append((dict(series.labels), float(value)))
        return rows


def address_of(text: str, what: str = "--expose") -> tuple[str, int]:
    """`:9108` (every interface), `127.0.0.1:9108`, `[::1]:9108` -> host and port. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{what} {text}: not an address such as :9108 or 127.0.0.1:9108")
    return host.strip("[]") or "0.0.0.0", int(port)


@contextmanager
def serving(exposed: Exposed, address: str) -> Iterator[None]:
    """Serve the page, and do the rounds, while the block runs. Raises ConfigError where the address is taken."""
    host, port = address_of(address)
    try:
        server, thread = start_http_server(port, host, registry=exposed.registry)
    except OSError as error:
        known: Mapping[int | None, str] = {errno.EADDRINUSE: "is taken", errno.EACCES: "may not be opened"}
        why = known.get(error.errno, error.strerror or str(error))
        raise ConfigError(f"--expose {address}: the address {why}; choose another port") from None
    rounds = [each for each in (exposed.diagnoses, exposed.forecasts) if each is not None]
    try:
        for each in rounds:
            each.start()
        yield
    finally:
        for each in rounds:
            each.stop()
        server.shutdown()
        server.server_close()
        thread.join()
