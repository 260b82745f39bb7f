"""Quantiles of cumulative buckets, with Prometheus' interpolation."""

from __future__ import annotations

import itertools

import numpy as np

TIE = 1e-9
"""Relative slack of the rank comparison, so that the last bit of a sum cannot move a quantile into another bucket."""


def bucket_quantile(q: float, bounds: np.ndarray, cumulative: np.ndarray) -> np.ndarray:
    """histogram_quantile (promql/quantile.go, bucketQuantile) over many points at once.

    bounds: float64[B] ascending, the last +Inf; cumulative: float64[B, ...] rates or counts per bucket, NaN as 0.
    Returns float64[...]: NaN without observations; the upper bound of the last finite bucket where the rank falls
    into the +Inf bucket; linear inside a bucket, the first of which starts at 0 when its bound is positive.
    """
    counts = np.array(cumulative, order="C")
    return ranked_quantile(q, bounds, ascending(counts, np.isfinite(counts)))


def ranked_quantile(q: float, bounds: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The same of counts that are `ascending`."""
    total = counts[-1]
    rank = q * total
    # Counts ascend, so as many buckets lie below the first that reaches the rank as do not reach it.
    short = (counts < rank * (1.0 - TIE)).sum(axis=0, dtype=np.uint8 if len(bounds) < 256 else np.int64)
    index = np.minimum(short.astype(np.int64), len(bounds) - 1)
    last_finite = len(bounds) - 2
    inner = np.minimum(index, max(last_finite, 0))
    upper = bounds[inner]
    lower = np.concatenate([[0.0], bounds[:-1]])[inner]
    points = inner * total.size + np.arange(total.size).reshape(total.shape)
    here = counts.reshape(-1)[points]
    below = np.where(inner > 0, counts.reshape(-1)[np.maximum(points - total.size, 0)], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = lower + (upper - lower) * np.clip((rank - below) / (here - below), 0.0, 1.0)
    inside = np.where((inner == 0) & (bounds[0] <= 0), bounds[0], inside)
    result = np.where(index > last_finite, bounds[last_finite] if last_finite >= 0 else np.nan, inside)
    return np.where(total > 0, result, np.nan)


def ascending(counts: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """The very float64[B, ...], C-contiguous, changed in place: NaN as 0, and no bucket below the one before it. Most
    are so already. finite: bool[B, ...]."""
    if not finite.all():
        odd = ~finite
        counts[odd] = np.nan_to_num(counts[odd], nan=0.0)
    if (counts[1:] < counts[:-1]).any():
        for below, bucket in itertools.pairwise(counts):  # a fifth of the time of np.maximum.accumulate
            np.maximum(below, bucket, out=bucket)
    return counts
