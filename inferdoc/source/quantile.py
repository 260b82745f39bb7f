"""Quantiles of cumulative buckets, with Prometheus' interpolation."""

from __future__ import annotations

import numpy as np

TIE = 1e-9
"""Relative slack of the rank comparison, so that the last bit of a sum cannot move a quantile into another bucket."""


def bucket_quantile(q: float, bounds: np.ndarray, cumulative: np.ndarray) -> np.ndarray:
    """histogram_quantile (promql/quantile.go, bucketQuantile) over many points at once.

    bounds: float64[B] ascending, the last +Inf; cumulative: float64[B, ...] rates or counts per bucket, NaN as 0.
    Returns float64[...]: NaN without observations; the upper bound of the last finite bucket where the rank falls
    into the +Inf bucket; linear inside a bucket, the first of which starts at 0 when its bound is positive.
    """
    counts = np.maximum.accumulate(np.nan_to_num(cumulative, nan=0.0), axis=0)
    total = counts[-1]
    rank = q * total
    reached = counts >= rank * (1.0 - TIE)
    index = np.argmax(reached, axis=0)
    last_finite = len(bounds) - 2
    inner = np.minimum(index, max(last_finite, 0))
    upper = bounds[inner]
    lower = np.where(inner > 0, bounds[np.maximum(inner - 1, 0)], 0.0)
    here = np.take_along_axis(counts, inner[None, ...], axis=0)[0]
    below = np.where(inner > 0, np.take_along_axis(counts, np.maximum(inner - 1, 0)[None, ...], axis=0)[0], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = lower + (upper - lower) * np.clip((rank - below) / (here - below), 0.0, 1.0)
    inside = np.where((inner == 0) & (bounds[0] <= 0), bounds[0], inside)
    result = np.where(index > last_finite, bounds[last_finite] if last_finite >= 0 else np.nan, inside)
    return np.where(total > 0, result, np.nan)
