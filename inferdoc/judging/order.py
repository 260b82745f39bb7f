"""Medians and percentiles of short series, to the last bit those of numpy, which takes ten times as long to begin.

numpy's `percentile` and `median` take some 50 µs on checks of their arguments; a diagnosis of 512 pods requires a
hundred thousand of them, of some hundred values each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def median(finite: np.ndarray) -> float:
    """np.median of float64[n] without NaN, n > 0."""
    ranked, middle = np.sort(finite), len(finite) // 2
    if len(finite) % 2:
        return float(ranked[middle])
    return float((ranked[middle - 1] + ranked[middle]) / 2)


def middles(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """`median` of every row of float64[n, T], of the values of a mask bool[n, T] without NaN: float64[n], NaN for none.
    Of an even number it is half their sum; `row_medians` comes to the middle from the nearer end, as np.quantile."""
    ranked, counts = ranked_rows(values, mask), mask.sum(axis=1)
    rows, upper = np.arange(len(values)), np.minimum(counts // 2, max(0, values.shape[1] - 1))
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    high, low = ranked[rows, upper], ranked[rows, np.maximum(upper - 1, 0)]
    found = np.where(counts % 2 == 1, high, (low + high) / 2)
    return np.where(counts > 0, found, np.nan)


def rows_of(rows: Sequence[np.ndarray]) -> np.ndarray:
    """np.vstack of float64[T] each, of which there is one at least; it looks at the shape of every row first, which
    takes longer than to copy it."""
    return np.concatenate(rows).reshape(len(rows), -1)


def percentiles(ranked: np.ndarray, shares: Sequence[float]) -> list[float]:
    """np.quantile at these shares (0..1) of float64[n] in ascending order, without NaN, n > 0."""
    found = []
    for share in shares:
        place = (len(ranked) - 1) * share
        below = int(place)
        low, high = float(ranked[below]), float(ranked[min(below + 1, len(ranked) - 1)])
        found.append(_between(low, high, place - below))
    return found


def _between(low: float, high: float, weight: float) -> float:
    """numpy's linear interpolation: from the nearer end."""
    return high - (high - low) * (1 - weight) if weight >= 0.5 else low + (high - low) * weight


def row_percentile(ranked: np.ndarray, counts: np.ndarray, share: float) -> np.ndarray:
    """The same of every row: ranked float64[n, T] ascending with its NaN at the end, counts int64[n] of the others.
    Returns float64[n], NaN where a row has none."""
    place = np.maximum(counts - 1, 0) * share
    below = place.astype(np.int64)
    above = np.minimum(below + 1, np.maximum(counts - 1, 0))
    rows = np.arange(len(ranked))  # np.take_along_axis takes three times as long to begin
    low, high = ranked[rows, below], ranked[rows, above]
    weight = place - below
    found = np.where(weight >= 0.5, high - (high - low) * (1 - weight), low + (high - low) * weight)
    return np.where(counts > 0, found, np.nan)


def ranked_rows(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """float64[n, T]: of every row of float64[n, T] the values of a mask bool[n, T] in ascending order, then NaN."""
    ranked = np.where(mask, values, np.nan)
    ranked.sort(axis=1)
    return ranked


def row_medians(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """float64[n]: of every row of float64[n, T] the median of the values of a mask bool[n, T]; NaN for none."""
    return row_percentile(ranked_rows(values, mask), mask.sum(axis=1), 0.5)


def medians_of_others(rows: np.ndarray) -> np.ndarray:
    """For every row, at every step, the median of the other rows: float64[n, T] -> float64[n, T], NaN where none of
    the others has a finite value. Sorting once takes the place of n medians."""
    known = ~np.isnan(rows)
    order = np.argsort(rows, axis=0, kind="stable")
    ranked = np.take_along_axis(rows, order, axis=0)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(rows))[:, np.newaxis], axis=0)
    left = known.sum(axis=0) - known
    low, high = np.maximum(left - 1, 0) // 2, left // 2
    own = np.where(known, rank, len(rows))
    low, high = low + (low >= own), high + (high >= own)
    last = len(rows) - 1
    with np.errstate(invalid="ignore"):
        found = (
            np.take_along_axis(ranked, np.minimum(low, last), axis=0)
            + np.take_along_axis(ranked, np.minimum(high, last), axis=0)
        ) / 2
    finite = np.isfinite(rows)
    return np.where(finite.sum(axis=0) - finite > 0, found, np.nan)
