"""Where the time of a request goes: mean seconds per phase, before and now."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferdoc.catalogue.recipe import Phase
from inferdoc.judging.model import PhaseSplit
from inferdoc.judging.view import Unit, View

MEANS: tuple[tuple[Phase, str], ...] = (
    ("prefill", "prefill_time_mean"),
    ("transfer", "nixl_xfer_mean"),
    ("decode", "decode_time_mean"),
)
REAL = ("queue", "prefill", "transfer", "decode")
"""Phases with a histogram of their own; the others are differences, and need a present."""
SANE_SECONDS = 86_400.0


def split_phases(view: View, units: Sequence[Unit], onset: int | None) -> list[PhaseSplit]:
    """Median over the units of the phase means, before and after the onset (without one: now only), in the order a
    request goes through them.

    Means, since the histograms of queue and prefill begin at 0.3 s. The gateway is what the router's time to first
    token holds beyond that of the engines (with prefill and decode apart: of one after the other), the front end what
    the engine's holds beyond queue and prefill. On a pod that reads KV the queue time holds the transfer, which is
    taken out of it.
    """
    rows: dict[Phase, list[np.ndarray | None]] = {
        "gateway": [_gateway(view, units)],
        "frontend": [_residual(view, unit) for unit in units if unit.member.role == "both"],
        "queue": [_queue(view, unit) for unit in units],
    }
    rows |= {phase: [_clean(view, unit, signal) for unit in units] for phase, signal in MEANS}
    found = []
    for phase, known in rows.items():
        before, now = _medians([row for row in known if row is not None], onset)
        if now is not None or (before is not None and phase in REAL):
            found.append(PhaseSplit(phase, before, now))
    return found


def _queue(view: View, unit: Unit) -> np.ndarray | None:
    """The time in the queue without the transfer of KV that counts as queueing on the pod that reads it."""
    queue, transfer = _clean(view, unit, "queue_time_mean"), _clean(view, unit, "nixl_xfer_mean")
    if queue is None or transfer is None or unit.member.role == "prefill":
        return queue
    return np.asarray(np.clip(queue - np.nan_to_num(transfer), 0.0, None))


def _gateway(view: View, units: Sequence[Unit]) -> np.ndarray | None:
    """What the router's mean time to first token holds beyond the engines', seconds: float64[T]."""
    if not units:
        return None
    router = view.get(units[0], "router_ttft_mean")
    if router is None:
        return None
    family = units[0].member.pool.family
    engines = np.zeros(len(router.values))
    for role in sorted({u.member.role for u in view.units if u.member.pool.family == family}):
        like = [u for u in view.units if u.member.pool.family == family and u.member.role == role]
        rows = [row for row in (_clean(view, unit, "ttft_mean") for unit in like) if row is not None]
        if not rows:
            return None
        stacked = np.vstack(rows)
        seen = np.isfinite(stacked).any(axis=0)
        engines[~seen] = np.nan
        engines[seen] += np.nanmean(stacked[:, seen], axis=0)
    return np.asarray(np.clip(router.values - engines, 0.0, None))


def _clean(view: View, unit: Unit, signal: str) -> np.ndarray | None:
    """A mean without the nonsense that requests leave which fail before they are scheduled."""
    series = view.get(unit, signal)
    if series is None:
        return None
    errors = view.get(unit, "error_rate")
    bad = np.zeros(len(series.values), dtype=bool) if errors is None else np.nan_to_num(errors.values) > 0
    with np.errstate(invalid="ignore"):
        bad |= (series.values < 0) | (series.values > SANE_SECONDS)
    return np.where(bad, np.nan, series.values)


def _residual(view: View, unit: Unit) -> np.ndarray | None:
    parts = [_clean(view, unit, name) for name in ("ttft_mean", "queue_time_mean", "prefill_time_mean")]
    if any(part is None for part in parts):
        return None
    ttft, queue, prefill = parts
    assert ttft is not None and queue is not None and prefill is not None
    return np.asarray(np.clip(ttft - queue - prefill, 0.0, None))


def _medians(rows: Sequence[np.ndarray], onset: int | None) -> tuple[float | None, float | None]:
    if not rows:
        return None, None
    stacked = np.vstack(rows)
    if onset is None:
        return None, _median(stacked)
    return _median(stacked[:, :onset]), _median(stacked[:, onset:])


def _median(values: np.ndarray) -> float | None:
    seen = values[np.isfinite(values)]
    return float(np.median(seen)) if len(seen) else None
