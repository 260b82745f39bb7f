"""Puts links to the traces of slow requests beside findings, where the buckets of latencies carry exemplars.

A server keeps exemplars that were scraped with their buckets (OpenMetrics; Prometheus with
--enable-feature=exemplar-storage), and hands them out with the labels of their series
(https://prometheus.io/docs/prometheus/latest/querying/api/#querying-exemplars).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import WIDE
from inferdoc.config_sections import TRACE_ID
from inferdoc.errors import SourceError
from inferdoc.judging.model import Diagnosis, Finding, TraceLink, seconds, stamp
from inferdoc.source.identified import Identified
from inferdoc.source.reads import selector

if TYPE_CHECKING:
    from inferdoc.source.prometheus import PrometheusSource
    from inferdoc.source.prometheus_answers import Exemplar

MOST = 3
"""Traces of one finding: the slowest."""
ID_LABELS = ("trace_id", "traceID", "traceId")
"""OpenTelemetry's (opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/), then older clients'."""
USUAL = ("e2e_mean", "ttft_mean")
"""Required of what shows in no latency of its own."""


def link_traces(answer: Diagnosis, source: Identified, catalogue: Catalogue, trace_url: str | None) -> None:
    """Fill in `traces` of the findings. trace_url: an address with {trace_id} in it, None for no links. A server that
    cannot be queried is one warning; a store keeps no exemplars."""
    if trace_url is None or source.kind != "prometheus":
        return
    server = cast("PrometheusSource", source.raw)
    end, aliases = round(1000 * seconds(answer.window.until)), catalogue.aliases
    for finding in answer.findings:
        try:
            finding.traces = _slowest(finding, server, catalogue, aliases, end, trace_url)
        except SourceError as error:
            answer.source.warnings.append(f"no traces are linked: {error}")
            return


def _slowest(
    finding: Finding, server: PrometheusSource, catalogue: Catalogue, aliases: Aliases, end_ms: int, trace_url: str
) -> list[TraceLink]:
    """The slowest exemplars of the affected pods since the onset, for the first latency that has any."""
    begin = round(1000 * seconds(finding.onset))
    for signal in _latencies(finding, catalogue):
        names = list(_buckets(catalogue, aliases, signal))
        if not names:
            continue
        query = selector("", (("__name__", "=~", "|".join(names)),))
        whose = finding.scope.pods if catalogue.signals[signal].level not in WIDE else [finding.scope.model or ""]
        exemplars = [
            (exemplar, pod)
            for exemplar in server.exemplars(query, begin, end_ms)
            for pod in _named(exemplar.series, whose)
            if _trace_id(exemplar.labels)
        ]
        if exemplars:
            exemplars.sort(key=lambda one: -one[0].value)
            slowest: dict[str, TraceLink] = {}
            for exemplar, pod in exemplars:
                # An endpoint may repeat an exemplar with a new timestamp at every scrape.
                slowest.setdefault(_trace_id(exemplar.labels), _link(exemplar, pod, signal, trace_url))
            return list(slowest.values())[:MOST]
    return []


def _latencies(finding: Finding, catalogue: Catalogue) -> list[str]:
    """The latencies in the evidence of the finding, impact first."""
    shown = sorted(finding.evidence, key=lambda item: item.role != "harm")
    names = [item.signal for item in shown if item.signal in catalogue.signals and item.unit == "s"]
    return list(dict.fromkeys((*names, *(name for name in USUAL if name in catalogue.signals))))


def _buckets(catalogue: Catalogue, aliases: Aliases, signal: str) -> Iterator[str]:
    for reading in catalogue.signals[signal].readings:
        histogram = reading.mean or reading.quantile
        if histogram is not None:
            yield from aliases.of(f"{histogram}_bucket")


def _named(labels: Mapping[str, str], whose: Sequence[str]) -> list[str]:
    """Which of them a label set names, under whatever label."""
    values = set(labels.values())
    return [name for name in whose if name and name in values][:1]


def _trace_id(labels: Mapping[str, str]) -> str:
    return next((labels[name] for name in ID_LABELS if labels.get(name)), "")


def _link(exemplar: Exemplar, whose: str, signal: str, trace_url: str) -> TraceLink:
    name = _trace_id(exemplar.labels)
    url = trace_url.replace(TRACE_ID, quote(name, safe=""))
    return TraceLink(whose, signal, exemplar.value, stamp(exemplar.at), name, url)
