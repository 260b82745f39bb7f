"""Means before and after a change: for quantities that arrive in ones and twos, whose windows swing more than they."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferdoc.judging.clock import Clock

STANDARD_ERRORS = 2.0
LEAST_BLOCKS = 3
"""Windows of calm that a mean and its error need."""
NONE = -1
"""No place in a row."""


@dataclass(frozen=True)
class Shift:
    """Means before and after a split, and how many standard errors lie between them."""

    before: float
    after: float
    errors: float


def shifts(values: np.ndarray, splits: np.ndarray, lasts: np.ndarray, clock: Clock) -> list[Shift | None]:
    """Compare the means of the calm part and of (split, last] of each row, in blocks of one rate window (neighbouring
    steps share samples). The first window of a series is left out where enough others are there: a rate that reaches
    back before the first scrape is low. values: float64[R, T]; splits, lasts: int64[R]."""
    step, finite = clock.window_steps, np.isfinite(values)
    newest = np.full((len(values), values.shape[1] + 1), NONE)
    np.maximum.accumulate(np.where(finite, np.arange(values.shape[1]), NONE), axis=1, out=newest[:, 1:])
    before = _back_from(splits - 1, np.zeros_like(splits), step, newest)
    born = finite.argmax(axis=1)[:, np.newaxis]
    grown = np.where(before >= born + step, before, NONE)
    enough = (grown >= 0).sum(axis=1) >= LEAST_BLOCKS
    before = np.where(enough[:, np.newaxis], grown, before)
    short = lasts - splits < step
    after = _back_from(lasts, np.where(short, lasts, splits + step), step, newest)
    calm, calm_mean, calm_error = _means(values, before)
    now, now_mean, now_error = _means(values, after)
    difference = now_mean - calm_mean
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = calm_error + now_error
        errors = np.where(variance > 0, difference / np.sqrt(variance), np.sign(difference) * np.inf)
    errors = np.where(difference == 0, 0.0, errors)
    told = (calm >= LEAST_BLOCKS) & (now >= 2)
    return [
        Shift(float(calm_mean[i]), float(now_mean[i]), float(errors[i])) if told[i] else None
        for i in range(len(values))
    ]


def shift(values: np.ndarray, split: int, last: int, clock: Clock) -> Shift | None:
    """The same of one series float64[T]."""
    return shifts(values[np.newaxis], np.array([split]), np.array([last]), clock)[0]


def _back_from(lasts: np.ndarray, least: np.ndarray, step: int, newest: np.ndarray) -> np.ndarray:
    """int64[R, K]: the last finite value until `last` of each row, the last one that lies `step` or more before it, and
    so on down to the least of the row; NONE beyond it. A gap costs what it is long, and no window beside it. newest:
    int64[R, 1 + T], the last finite value before each step, and until the last one."""
    flat, begins = newest.ravel(), np.arange(len(newest)) * newest.shape[1]
    most = max(1, int((lasts - least).max(initial=0)) // step + 1)
    places = np.empty((most, len(newest)), np.int64)
    place = lasts
    for number in range(most):
        place = flat[begins + np.maximum(place + 1, 0)]
        place = np.where(place >= least, place, NONE)
        places[number] = place
        place = place - step
    return places.T


def _means(values: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count, mean and squared standard error of the finite values at some places of each row: [R] each."""
    taken = np.where(places >= 0, np.take_along_axis(values, np.maximum(places, 0), axis=1), np.nan)
    finite = np.isfinite(taken)
    count = finite.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = _sums(np.where(finite, taken, 0.0)) / count
        squares = _sums(np.where(finite, taken - mean[:, np.newaxis], 0.0) ** 2)
        error = squares / (count - 1) / count
    return count, mean, error


def _sums(values: np.ndarray) -> np.ndarray:
    """The sum of each row of float64[R, K], one value after the other: `sum` adds them in an order that depends on K,
    and K on the rows that are looked at together."""
    return np.asarray(values.cumsum(axis=1)[:, -1])
