"""The series behind one piece of evidence: its entity, the other pods of the cause, and like pods."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from inferdoc.judging.model import EvidenceItem, Finding, seconds
from inferdoc.judging.view import Unit, View

MIN_BASELINE = 5
"""Minimum baseline values for a band."""
BAND = (5.0, 95.0)
"""Percentiles of the baseline values at the edges of the band."""


@dataclass(frozen=True)
class Lines:
    """times: float64[T] seconds since the epoch; own: float64[T] of the evidence's entity; others: rows of the other
    pods of the cause; peers: rows of similar pods (or GPUs) without the cause; baseline_range: (low, high) or None."""

    times: np.ndarray
    own: np.ndarray
    others: list[np.ndarray] = field(default_factory=list)
    peers: list[np.ndarray] = field(default_factory=list)
    baseline_range: tuple[float, float] | None = None


def lines_of(view: View | None, item: EvidenceItem, finding: Finding) -> Lines | None:
    """The rows to plot for an evidence item, or None where the view does not hold its series."""
    if view is None:
        return None
    unit, gpu = _unit_of(view, item.entity)
    if unit is None:
        return None
    if gpu:
        rows = view.gpus(unit, item.signal)
        own = rows.pop(gpu, None)
        others: list[np.ndarray] = []
        peers = list(rows.values())
    else:
        series = view.get(unit, item.signal)
        own = None if series is None else series.values
        others, peers = _like(view, unit, item.signal, finding.scope.pods)
    if own is None or len(own) != view.steps or not np.isfinite(own).any():
        return None
    lead = view.lead_steps
    times = view.frame.times
    return Lines(
        times,
        own[lead:],
        [r[lead:] for r in others],
        [r[lead:] for r in peers],
        _baseline_range(own, view, item, finding),
    )


def _unit_of(view: View, entity: str) -> tuple[Unit | None, str]:
    """The unit an entity names, and the GPU of it (`vllm-0 gpu 2`), or an empty text."""
    best: Unit | None = None
    for unit in view.units:
        if unit.name == entity:
            return unit, ""
        if entity.startswith(f"{unit.name} gpu ") and (best is None or len(unit.name) > len(best.name)):
            best = unit
    return best, "" if best is None else entity[len(best.name) + 1 :]


def _like(view: View, unit: Unit, signal: str, pods: Collection[str]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    named = set(pods)
    others: list[np.ndarray] = []
    peers: list[np.ndarray] = []
    for peer in view.peers(unit):
        series = view.get(peer, signal)
        if series is not None and len(series.values) == view.steps:
            (others if peer.member.pod in named else peers).append(series.values)
    return others, peers


def _baseline_range(own: np.ndarray, view: View, item: EvidenceItem, finding: Finding) -> tuple[float, float] | None:
    """Range of nine in ten baseline values: of a chosen baseline, else before the onset."""
    if view.lead_steps:
        values = own[: view.lead_steps]
    else:
        begins = min(seconds(finding.onset), seconds(item.since) if item.since else float("inf"))
        values = own[: int(np.searchsorted(view.frame.times, begins - 1e-3))]
    values = values[np.isfinite(values)]
    if len(values) < MIN_BASELINE:
        return None
    low, high = np.percentile(values, BAND)
    return float(low), float(high)


def threshold_of(item: EvidenceItem) -> float | None:
    """The threshold on the scale of the signal, or None if it is on another scale (a slope, a correlation) or
    is not known. Against like members the threshold may be a factor on their value."""
    if item.threshold is None or item.observed is None or not item.unit:
        return None
    for limit in (item.threshold, item.threshold * (item.baseline if item.baseline is not None else 1.0)):
        if item.baseline is None or min(item.baseline, item.observed) <= limit <= max(item.baseline, item.observed):
            return limit
    return None


def against_peers(item: EvidenceItem) -> bool:
    """Whether the baseline of the item is that of like members and not of its own past."""
    return item.reference == "peers"
