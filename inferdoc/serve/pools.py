"""Summarise the last fleet diagnosis by pool and tier."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from inferdoc.catalogue.signal import Signal
from inferdoc.fleet.members import Pool
from inferdoc.judging.document import DiagnosisWithSeries
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.view import Unit, View
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
