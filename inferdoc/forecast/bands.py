"""Quantiles from the residuals of back-tested days, never from a model's theory.

The residual level of each quantile is corrected by its own misses, day by day (Gibbs and Candès, Adaptive conformal
inference under distribution shift, 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FOLD_HALF_LIFE = 4.0
NEAR_MINUTES = 90.0
NEAR_SHARE = 0.6
OUTWARD = 1.0 / 3.0
GAIN = 0.1
"""Step size: share of a day's excess misses by which a level moves. Tuned on one set of loads and validated on others
(docs/forecast.md)."""
MOST_OF_TAIL, LEAST_OF_TAIL = 2.0, 0.2
"""Bounds of the tail beyond a level, as multiples of the nominal tail: ten days of correlated errors, some 35
independent samples, cannot resolve less than a fiftieth."""
WALK_CENTERS = 24
MIN_DAYS = 3
MAX_COLUMNS = 288
CENTERS = 96


@dataclass
class Residuals:
    """Actual minus forecast in square-root space. values: float64[K, F, P], fold k=0 the newest; NaN = unknown."""

    values: np.ndarray
    minutes: float

    def pool(self, lead: int) -> tuple[np.ndarray, np.ndarray]:
        """float64[K', P] and float64[K']: the residuals used for lead day `lead` and the weight of each fold, newer
        ones counting more: its own, or with fewer than three folds those of the last lead day that has as many."""
        while lead > 0 and np.isfinite(self.values[:, lead]).any(axis=1).sum() < MIN_DAYS:
            lead -= 1
        pool = self.values[:, lead]
        used = np.flatnonzero(np.isfinite(pool).any(axis=1))
        return pool[used], 0.5 ** (used / FOLD_HALF_LIFE)

    def adjusted_levels(self, levels: tuple[float, ...]) -> tuple[float, ...]:
        """The residual level for each nominal level. It starts further out, because folds are few and the errors of one
        day are correlated. Each day that has enough older days then moves it by its misses. The median stays."""
        now = np.array([outward(level) for level in levels])
        nominal = np.array(levels)
        days = self.values[:, 0]
        known = np.isfinite(days)
        for k in range(len(days) - 1, -1, -1):
            older = Residuals(self.values[k + 1 :], self.minutes)
            if not known[k].any() or known[k + 1 :].any(axis=1).sum() < MIN_DAYS:
                continue
            bounds = older.quantiles(0, within(now, nominal), WALK_CENTERS)
            missed = (days[k][known[k]] > bounds[:, known[k]]).mean(axis=1)
            now = np.where(nominal == 0.5, 0.5, now + GAIN * (missed - (1 - nominal)))
        return within(now, nominal)

    def quantiles(self, lead: int, levels: tuple[float, ...], centers: int = CENTERS) -> np.ndarray:
        """float64[levels, P]: residual quantiles of each step of lead day `lead` at `levels`; zeros without any
        residual. centers: times of day at which they are computed, with linear interpolation between."""
        pool, weight = self.pool(lead)
        width = self.values.shape[2]
        if not pool.size:
            return np.zeros((len(levels), width))
        nominal = np.array(levels)
        share = np.repeat(weight[:, None], width, axis=1)
        everywhere = row_quantiles(pool.reshape(1, -1), share.reshape(1, -1), nominal)[:, 0]
        thin = max(1, width // MAX_COLUMNS)
        half = round(NEAR_MINUTES / self.minutes / thin)
        stride = max(1, width // thin // centers)
        values, weights = (_windows(rows[:, ::thin], half, stride) for rows in (pool, share))
        near = row_quantiles(values, weights, nominal)
        near = np.where(np.isfinite(near), near, everywhere[:, None])
        blended = NEAR_SHARE * near + (1 - NEAR_SHARE) * everywhere[:, None]
        at = np.arange(0, width, thin)[::stride]
        return np.stack([np.interp(np.arange(width), at, line) for line in blended])

    def moments(self, lead: int) -> np.ndarray:
        """float64[2]: mean and mean square of the residuals used for lead day `lead`; zeros without any."""
        pool, _ = self.pool(lead)
        known = pool[np.isfinite(pool)]
        return np.array([known.mean(), (known**2).mean()]) if len(known) else np.zeros(2)


def outward(level: float) -> float:
    """The initial residual level for a nominal level: a third of the way further out; the median stays."""
    if level == 0.5:
        return level
    return level + (1 - level) * OUTWARD if level > 0.5 else level * (1 - OUTWARD)


def within(levels: np.ndarray, nominal: np.ndarray) -> tuple[float, ...]:
    """Levels clipped to the range that the residuals can resolve."""
    upper = nominal > 0.5
    tail = np.where(upper, 1 - nominal, nominal)
    left = np.clip(np.where(upper, 1 - levels, levels), LEAST_OF_TAIL * tail, MOST_OF_TAIL * tail)
    kept: list[float] = np.where(nominal == 0.5, 0.5, np.where(upper, 1 - left, left)).tolist()
    return tuple(kept)


def wider(shift: np.ndarray, further: np.ndarray) -> np.ndarray:
    """A quantile's distance from the median with an independent error added."""
    return np.asarray(shift + np.sign(further) * (np.hypot(shift, further) - np.abs(shift)))


def _windows(rows: np.ndarray, half: int, stride: int) -> np.ndarray:
    """float64[P / stride, K x (2 half + 1)]: for each `stride`-th column the values of all rows within `half` columns,
    NaN beyond the ends."""
    padded = np.pad(rows, ((0, 0), (half, half)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=1)
    windows = windows[:, ::stride]
    return windows.transpose(1, 0, 2).reshape(windows.shape[1], -1)


def row_quantiles(rows: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """float64[levels, n]: weighted quantiles of each row of float64[n, m], NaN left out, by linear interpolation
    between the middles of the weights; NaN for a row without values."""
    order = np.argsort(rows, axis=1)
    ordered = np.take_along_axis(rows, order, axis=1)
    known = np.isfinite(ordered)
    share = np.where(known, np.take_along_axis(weights, order, axis=1), 0.0)
    total = share.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = np.where(known, (np.cumsum(share, axis=1) - share / 2) / total, np.inf)
    last = np.maximum(known.sum(axis=1) - 1, 0)
    line = np.arange(len(rows))
    found = np.empty((len(levels), len(rows)))
    for i, level in enumerate(levels):
        high = np.minimum((middle < level).sum(axis=1), last)
        low = np.maximum(high - 1, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            span = middle[line, high] - middle[line, low]
            part = np.where(span > 0, np.clip((level - middle[line, low]) / span, 0.0, 1.0), 1.0)
        found[i] = ordered[line, low] + part * (ordered[line, high] - ordered[line, low])
    return found
