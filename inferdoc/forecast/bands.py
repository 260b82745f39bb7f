"""Quantiles from the residuals of back-tested days, never from a model's theory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NEAR_MINUTES = 90.0
NEAR_SHARE = 0.6
OUTWARD = 1.0 / 3.0
MAX_CENTERS = 288


@dataclass
class Residuals:
    """Actual minus forecast in square-root space. values: float64[K, F, P], fold k=0 the newest; NaN = unknown."""

    values: np.ndarray
    minutes: float

    def pool(self, lead: int) -> np.ndarray:
        """float64[K', P]: the residuals that speak for lead day `lead`: its own, or with fewer than three folds those
        of the last lead day that has as many."""
        while lead > 0 and np.isfinite(self.values[:, lead]).any(axis=1).sum() < 3:
            lead -= 1
        pool: np.ndarray = self.values[:, lead]
        return np.asarray(pool[np.isfinite(pool).any(axis=1)])

    def quantiles(self, lead: int, levels: tuple[float, ...]) -> np.ndarray:
        """float64[levels, P]: residual quantiles of each step of lead day `lead`; levels above the median are moved
        outward, because the folds are few and the errors of one day go together. Zeros without any residual."""
        pool = self.pool(lead)
        width = self.values.shape[2]
        if not pool.size:
            return np.zeros((len(levels), width))
        wanted = np.array([outward(level) for level in levels])
        everywhere = row_quantiles(pool.reshape(1, -1), wanted)[:, 0]
        stride = max(1, width // MAX_CENTERS)
        half = round(NEAR_MINUTES / self.minutes / stride)
        thin = pool[:, ::stride]
        padded = np.pad(thin, ((0, 0), (half, half)), constant_values=np.nan)
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=1)
        near = row_quantiles(windows.transpose(1, 0, 2).reshape(windows.shape[1], -1), wanted)
        near = np.where(np.isfinite(near), near, everywhere[:, None])
        blended = NEAR_SHARE * near + (1 - NEAR_SHARE) * everywhere[:, None]
        if stride == 1:
            return np.asarray(blended)
        at = np.arange(0, width, stride)
        return np.stack([np.interp(np.arange(width), at, line) for line in blended])

    def moments(self, lead: int) -> np.ndarray:
        """float64[2]: mean and mean square of the residuals that speak for lead day `lead`; zeros without any."""
        pool = self.pool(lead)
        known = pool[np.isfinite(pool)]
        return np.array([known.mean(), (known**2).mean()]) if len(known) else np.zeros(2)


def outward(level: float) -> float:
    """The level asked of the residuals for a wanted level: a third of the way further out, the median stays."""
    if level == 0.5:
        return level
    return level + (1 - level) * OUTWARD if level > 0.5 else level * (1 - OUTWARD)


def row_quantiles(rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """float64[levels, n]: quantiles of each row of float64[n, m] by linear interpolation, NaN left out (numpy's
    nanquantile, which loops in Python, done by one sort)."""
    ordered = np.sort(rows, axis=1)
    hits = np.isfinite(ordered).sum(axis=1)
    place = levels[:, None] * np.maximum(hits - 1, 0)[None, :]
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(hits - 1, 0)[None, :])
    line = np.arange(len(rows))
    below, above = ordered[line, low], ordered[line, high]
    return np.asarray(below + (above - below) * (place - low))
