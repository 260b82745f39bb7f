"""Run one diagnosis in its own process, so that a deadline can end it and its memory is freed.

Reads a `RunRequest` as JSON from standard input and writes a `RunResult` to standard output. An expected error is one
line on standard error, with the exit code of the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import msgspec
import numpy as np

from inferdoc.audit.persistent import add_persistent
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.signal import Signal
from inferdoc.cluster.traces import link_traces
from inferdoc.config import Config, config_file, load_config, promises_of
from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line
from inferdoc.fleet.members import Pool
from inferdoc.incidents.model import AlertScope
from inferdoc.judging.api import diagnose
from inferdoc.judging.document import DiagnosisWithSeries
from inferdoc.judging.model import Diagnosis, seconds
from inferdoc.judging.request import options_of
from inferdoc.judging.view import Unit, View
from inferdoc.report import render
from inferdoc.source.configured import open_configured
from inferdoc.source.identified import Identified
from inferdoc.words import figure

SHOWN: Mapping[str, Callable[[np.ndarray], float]] = {
    "arrival_rate": np.sum,
    "running": np.sum,
    "waiting": np.sum,
    "ttft_p99": np.max,
    "itl_p99": np.max,
    "kv_usage": np.max,
}
"""Signals in the order of the table, and what is shown of the pods of a pool: what they do together, or the worst."""
NEWEST = 5
"""Steps of which the median counts: one burst is no state."""


class PoolSummary(msgspec.Struct):
    """pods: how many; readings: title and words; causes: of the findings that concern it; severity: the worst of
    them, None without one."""

    cluster: str
    namespace: str
    model: str
    role: str
    tier: str
    pods: int
    readings: list[tuple[str, str]]
    causes: list[str]
    severity: str | None


def summarise_pools(answer: Diagnosis, signals: Mapping[str, Signal]) -> list[PoolSummary]:
    """Every pool of a diagnosis that was just made, in the order of their names."""
    view = answer.view if isinstance(answer, DiagnosisWithSeries) else None
    if view is None:
        return []
    groups: dict[Pool, list[Unit]] = {}
    for unit in view.units:
        groups.setdefault(unit.member.pool, []).append(unit)
    return [_pool(pool, units, view, answer, signals) for pool, units in sorted(groups.items(), key=_order)]


def _order(entry: tuple[Pool, list[Unit]]) -> tuple[str, ...]:
    pool = entry[0]
    return pool.cluster, pool.namespace, pool.model, pool.role, pool.tier


def _pool(pool: Pool, units: list[Unit], view: View, answer: Diagnosis, signals: Mapping[str, Signal]) -> PoolSummary:
    readings = []
    for name, joined in SHOWN.items():
        newest = [_newest(view, unit, name) for unit in units]
        there = np.array([value for value in newest if value is not None])
        if there.size and name in signals:
            readings.append((signals[name].title, figure(float(joined(there)), signals[name].unit)))
    pods = {unit.member.pod for unit in units}
    hit = [
        finding
        for finding in answer.findings
        if finding.ongoing and (finding.scope.model, finding.scope.namespace) == (pool.model, pool.namespace)
        if not finding.scope.pods or pods & set(finding.scope.pods)
    ]
    worst = min((finding.severity for finding in hit), key=("critical", "warning", "info").index, default=None)
    causes = list(dict.fromkeys(finding.title for finding in hit))
    names = (pool.cluster, pool.namespace, pool.model, pool.role, pool.tier)
    return PoolSummary(*names, len(pods), readings, causes, worst)


def _newest(view: View, unit: Unit, signal: str) -> float | None:
    trace = view.get(unit, signal)
    if trace is None:
        return None
    values = trace.values[-NEWEST:]
    values = values[np.isfinite(values)]
    return float(np.median(values)) if values.size else None


ENDS_WITHIN = 900.0
"""Seconds before the end within which a change may have ended an incident."""


class RunRequest(msgspec.Struct):
    """config, overlays: of the command line; source: source options by name; headers: of every request; from_, until:
    Unix seconds; place: scope of the alerts; ended: when they resolved, None while they fire; page: whether to render
    the HTML report; pools: whether to list the pools."""

    source: dict[str, Any]
    headers: dict[str, str]
    from_: float
    until: float
    place: AlertScope
    config: str | None = None
    overlays: list[str] = []
    ended: float | None = None
    page: bool = True
    pools: bool = False


class RunResult(msgspec.Struct):
    """document: the diagnosis; page: its HTML report; ended_by: the change before the end; pools: of the fleet, if
    requested."""

    document: Diagnosis
    page: str | None
    ended_by: str | None
    pools: list[PoolSummary] = []


def run(request: RunRequest) -> RunResult:
    """Run a diagnosis. Raises InferdocError."""
    config = load_config(request.config)
    promises = promises_of(config_file(request.config), config.slo)
    catalogue = load_catalogue(request.overlays, disabled=config.recipes.disabled, promises=promises)
    with closing(open_configured(config, request.source, request.overlays, request.headers)) as source:
        answer = _diagnosed(source, config, catalogue, request)
        link_traces(answer, source, catalogue, config.links.trace_url)
        page = render(answer, "html") if request.page else None
        pools = summarise_pools(answer, catalogue.signals) if request.pools else []
    return RunResult(answer, page, _ended_by(answer, request.ended), pools)


def _diagnosed(source: Identified, config: Config, catalogue: Catalogue, request: RunRequest) -> Diagnosis:
    """About the pod, else about the pool, else about its cluster: an alert on a victim is about its culprit too, which
    no other cluster has."""
    place, answer = request.place, None
    pool, cluster = _pool_aspects(place), {"cluster": place.cluster or None}
    focuses = [{**pool, "pod": place.pod}, pool, cluster] if place.pod else [pool, cluster]
    for focus in focuses:
        options = options_of(source, config, catalogue, focus)
        options.lenient = True
        answer = diagnose(source, from_=request.from_, until=request.until, options=options)
        add_persistent(answer, config, catalogue)
        if answer.findings or answer.focus is None or not answer.focus.elsewhere:
            return answer
    assert answer is not None
    return answer


def _pool_aspects(place: AlertScope) -> dict[str, str | None]:
    return {"cluster": place.cluster or None, "namespace": place.namespace or None, "model": place.model or None}


def _ended_by(answer: Diagnosis, ended: float | None) -> str | None:
    """The last change in the quarter of an hour before the alerts were over."""
    if ended is None:
        return None
    near = [change for change in answer.changes if ended - ENDS_WITHIN <= seconds(change.at) <= ended]
    if not near:
        return None
    last = max(near, key=lambda change: change.at)
    return one_line(f"{last.kind} of {last.entity}: {last.detail}" if last.entity else f"{last.kind}: {last.detail}")


def main() -> int:
    """Run as a program."""
    try:
        result = run(msgspec.json.decode(sys.stdin.buffer.read(), type=RunRequest))
    except InferdocError as error:
        sys.stderr.write(one_line(str(error)) + "\n")
        return int(error.exit_code)
    sys.stdout.buffer.write(msgspec.json.encode(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
