"""Regression of the load on the time of day, by kind of day.

Harmonics of the day, other harmonics where a day is a weekend day, and a level for each day of the week. All but the
first are drawn to zero: two weeks hold two Saturdays."""

from __future__ import annotations

import numpy as np

from inferdoc.forecast.calendar import WEEK, Rows

BLOCK_MINUTES = 30.0
DAILY_WAVES, WEEKEND_WAVES = 8, 6
DAILY_RIDGE, WEEKEND_RIDGE, WEEKDAY_RIDGE = 1e-3, 0.05, 0.2
"""Pseudo-days at zero of each coefficient."""
HALF_LIFE = 14.0


class DayKindRegression:
    """In blocks of half an hour, B a day. x: float64[R+F, B, C], regressors; z: float64[R, B], square root of the load,
    NaN for gaps; size: columns of `rows` in a block."""

    def __init__(self, rows: Rows, filled: np.ndarray) -> None:
        """filled: float64[R, P], the load of `rows` with its gaps filled where that can be."""
        self.size = block_size(rows.width, rows.minutes, BLOCK_MINUTES)
        self.blocks = rows.width // self.size
        self.z = block_means(filled.reshape(-1), self.size).reshape(rows.count, self.blocks)
        self.x, self._penalty = _regressors(rows, self.size)
        self._products = self._normal_equations()

    def fit(self, upto: int) -> np.ndarray:
        """float64[C]: coefficients by ridge regression on rows before `upto`, newer rows counting more."""
        grams, sides = self._products
        weight = 0.5 ** (np.arange(upto, 0, -1) / HALF_LIFE)
        gram, side = np.tensordot(weight, grams[:upto], axes=1), weight @ sides[:upto]
        return np.asarray(np.linalg.solve(gram + np.diag(self._penalty), side))

    def left(self, upto: int, fit: np.ndarray) -> np.ndarray:
        """float64[upto * B]: what the regression leaves of the rows before `upto`, NaN for gaps."""
        return np.asarray((self.z[:upto] - self.x[:upto] @ fit).reshape(-1))

    def path(self, upto: int, ahead: int, fit: np.ndarray, rest: np.ndarray | float = 0.0) -> np.ndarray:
        """float64[ahead, P]: the regression on the rows from `upto` on. rest: float64[ahead * B], added to it."""
        line = (self.x[upto : upto + ahead] @ fit).reshape(-1) + rest
        centres = (np.arange(len(line)) + 0.5) * self.size - 0.5
        return np.asarray(np.interp(np.arange(len(line) * self.size), centres, line)).reshape(ahead, -1)

    def _normal_equations(self) -> tuple[np.ndarray, np.ndarray]:
        """Per row: float64[R, C, C] and float64[R, C]."""
        known = np.isfinite(self.z)
        x = np.where(known[:, :, None], self.x[: len(self.z)], 0.0)
        return x.transpose(0, 2, 1) @ x, np.einsum("rbc,rb->rc", x, np.where(known, self.z, 0.0))


def _regressors(rows: Rows, size: int) -> tuple[np.ndarray, np.ndarray]:
    """float64[R+F, B, C] and the ridge of each, float64[C]."""
    middle = slice(size // 2, None, size)
    days, resting = rows.days[: len(rows.resting), middle], rows.resting[:, middle]
    blocks = days.shape[1]
    angle = 2 * np.pi * (np.arange(blocks) + 0.5) / blocks
    waves = min(DAILY_WAVES, (blocks - 1) // 2)
    daily = np.stack([np.ones(blocks), *(f(k * angle) for k in range(1, waves + 1) for f in (np.sin, np.cos))], axis=1)
    weekend = daily[:, : 1 + 2 * min(WEEKEND_WAVES, waves)] * resting[:, :, None]
    weekday = days[:, :, None] % WEEK == np.arange(WEEK)
    x = np.concatenate([np.broadcast_to(daily, (*days.shape, daily.shape[1])), weekend, weekday], axis=2)
    ridges = (DAILY_RIDGE, WEEKEND_RIDGE, WEEKDAY_RIDGE)
    counts = (daily.shape[1], weekend.shape[2], WEEK)
    penalty = blocks * np.concatenate([np.full(n, ridge) for n, ridge in zip(counts, ridges, strict=True)])
    return x, penalty


def block_size(width: int, minutes: float, target_minutes: float) -> int:
    """Columns per block: as near to `target_minutes` as divides the day."""
    near = max(1, round(target_minutes / minutes))
    return next(size for size in range(near, 0, -1) if width % size == 0)


def block_means(line: np.ndarray, size: int) -> np.ndarray:
    """Means over blocks of `size` values, NaN left out."""
    parts = line.reshape(-1, size)
    known = np.isfinite(parts).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.where(known > 0, np.nansum(parts, axis=1) / np.maximum(known, 1), np.nan)
