"""What the rhythm leaves over near the origin: an autoregression on the combination's own past errors.

ARIMA belongs on the residual, not on the rhythm: an autoregression over the last hour by Burg's method, which is always
stationary, so the correction fades and can never run away; and one of the first order from day to day, for levels that
the paths follow too slowly."""

from __future__ import annotations

import numpy as np

MEMORY_MINUTES = 60.0
BLOCK_MINUTES = 5.0
MIN_DAYS = 3
MOST_OF_LEVEL = 0.4
"""Full corrections by the error of yesterday overshoot (own measurement, docs/forecast.md): at most so much of it."""


def burg(line: np.ndarray, order: int) -> np.ndarray:
    """float64[order]: AR coefficients of float64[n] (mean taken as 0) by Burg's method; zeros for a line without
    variance."""
    forward, backward = line[1:].copy(), line[:-1].copy()
    coefficients = np.zeros(0)
    for _ in range(order):
        power = float(forward @ forward + backward @ backward)
        reflection = 0.0 if power <= 1e-12 else 2.0 * float(forward @ backward) / power
        coefficients = np.concatenate([coefficients - reflection * coefficients[::-1], [reflection]])
        forward, backward = forward[1:] - reflection * backward[1:], backward[:-1] - reflection * forward[:-1]
    return coefficients


def corrections(past: np.ndarray, minutes: float) -> tuple[np.ndarray, np.ndarray]:
    """What to add to the forecast and to each back-tested day.

    past: float64[K, P], errors (actual minus forecast) of the first lead day, fold 0 the newest, NaN = unknown;
    minutes: per column. Returns float64[P] for the day after the data and float64[K, P] for the folds, each from older
    errors only (the coefficients are those of all folds). Zeros where fewer than three days of errors are known."""
    folds, width = past.shape
    now, then = np.zeros(width), np.zeros_like(past)
    size = _block(width, minutes)
    blocks = width // size
    order = max(2, round(MEMORY_MINUTES / (size * minutes)))
    if np.isfinite(past).any(axis=1).sum() < MIN_DAYS or blocks <= order:
        return now, then
    line = _blocks(past[::-1].reshape(-1), size)
    response = _response(burg(line, order), blocks)
    levels = _levels(past)
    for k in range(-1, folds - 1):
        newest = line[: (folds - 1 - k) * blocks][-order:]
        step = np.repeat(response @ newest, size) + levels[k + 1]
        if k < 0:
            now = step
        else:
            then[k] = step
    return now, then


def _levels(past: np.ndarray) -> np.ndarray:
    """float64[K]: what the mean error of each day lets expect of the day after it, by an autoregression of the first
    order whose coefficient is drawn half-way to nothing; 0 where the day is unknown."""
    known = np.isfinite(past)
    means = np.where(known, past, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    followed, power = float(means[:-1] @ means[1:]), float(means[1:] @ means[1:])
    share = followed / (2.0 * power) if power > 0 else 0.0
    return np.asarray(np.clip(share, 0.0, MOST_OF_LEVEL) * means)


def _block(width: int, minutes: float) -> int:
    near = max(1, round(BLOCK_MINUTES / minutes))
    return next(size for size in range(near, 0, -1) if width % size == 0)


def _blocks(line: np.ndarray, size: int) -> np.ndarray:
    parts = line.reshape(-1, size)
    known = np.isfinite(parts)
    hits = known.sum(axis=1)
    return np.asarray(np.where(known, parts, 0.0).sum(axis=1) / np.maximum(hits, 1))


def _response(ar: np.ndarray, steps: int) -> np.ndarray:
    """float64[steps, order]: what each of the newest values (oldest first) adds to each later step."""
    order = len(ar)
    line = np.zeros((order + steps, order))
    line[:order] = np.eye(order)
    for i in range(order, order + steps):
        line[i] = ar @ line[i - order : i][::-1]
    return line[order:]
