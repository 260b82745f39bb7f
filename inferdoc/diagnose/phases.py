"""Where the time of a request goes: mean seconds per phase, before and now."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferdoc.catalogue.recipe import Phase
from inferdoc.diagnose.model import PhaseSplit
from inferdoc.diagnose.view import Unit, View

MEANS: tuple[tuple[Phase, str], ...] = (
    ("queue", "queue_time_mean"),
    ("prefill", "prefill_time_mean"),
    ("transfer", "nixl_xfer_mean"),
    ("decode", "decode_time_mean"),
)
SANE_SECONDS = 86_400.0


def split_phases(view: View, units: Sequence[Unit], onset: int | None) -> list[PhaseSplit]:
    """Median over the units of the phase means, before and after the onset (without one: now only).

    The front end is what the time to first token holds beyond queue and prefill; means, since the histograms of
    queue and prefill begin at 0.3 s. On a decode pod the KV transfer is part of the queue time.
    """
    found = []
    for phase, signal in MEANS:
        rows = [_clean(view, unit, signal) for unit in units]
        before, now = _medians([r for r in rows if r is not None], onset)
        if now is not None or before is not None:
            found.append(PhaseSplit(phase, before, now))
    rest = [_residual(view, unit) for unit in units if unit.member.role == "both"]
    before, now = _medians([r for r in rest if r is not None], onset)
    if now is not None:
        found.insert(0, PhaseSplit("frontend", before, now))
    return found


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
