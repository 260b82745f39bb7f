"""Finds lasting changes of the load: a level shift, a tenant that leaves or arrives, a launch.

Profiles average over weeks, so they reflect the load before the change for weeks. A change is a day that no path
predicted and that the next day resembles. Shortening the history would lose the weekly pattern; instead the earlier
days are shifted by what the change added or removed at that time of the day."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inferdoc.forecast.calendar import Rows
from inferdoc.forecast.combine import Trials, run_trials
from inferdoc.forecast.paths import (
    Folded,
    Path,
    day,
    day_type,
    fill_gaps,
    last_week,
    smooth,
    week,
    weighted_mean,
    yesterday,
)

PATHS: dict[str, Path] = {
    "day": day,
    "week": week,
    "day-type": day_type,
    "yesterday": yesterday,
    "last-week": last_week,
}
"""Paths that predict a day."""
SURPRISE = 2.0
"""A day counts as a change if its squared error is this many times that of the worst earlier day."""
MIN_OLDER = 7
"""Earlier days with a prediction of every path that are needed: one of each day of the week."""
REMEMBERED = 21
"""Days that are searched for a change: older changes are in the profiles by now."""


def carried_over(rows: Rows) -> tuple[Rows, int | None]:
    """The rows with those before the newest lasting change as they would be after it, and the first row after it; the
    rows as they are and None where there is none."""
    folded = Folded(rows, fill_gaps(rows))
    errors = _errors(run_trials(folded, 1, PATHS, REMEMBERED))
    for fold in _unexpected(errors):
        first = folded.count - 1 - fold
        expected = PATHS[_best_before(errors, fold)](folded, first, fold + 1)
        if expected is not None and _lasts(folded.z[first:] - expected, rows, first):
            z = rows.z.copy()
            z[:first] = np.maximum(z[:first] + _change(folded.z[first:] - expected, rows, first), 0.0)
            return replace(rows, z=z), first
    return rows, None


def _lasts(left: np.ndarray, rows: Rows, first: int) -> bool:
    """Whether the change predicts each later day: the residuals of the days before it against the prediction without
    the change. left: float64[days since, P]."""
    for day_since in range(1, len(left)):
        row = first + day_since
        predicted = left[day_since] - _change(left[:day_since], rows, first, row + 1)[row]
        known = np.isfinite(left[day_since]) & np.isfinite(predicted)
        if known.any() and (predicted[known] ** 2).mean() * SURPRISE > (left[day_since][known] ** 2).mean():
            return False
    return True


def _errors(trials: Trials) -> dict[str, np.ndarray]:
    """Mean squared error of each path on each fold's first day, NaN where unknown."""
    usable, found = trials.usable, {}
    for name, path in trials.paths.items():
        square = (trials.actual[:, 0] - path[:, 0]) ** 2
        known = np.isfinite(square)
        mean = np.where(known, square, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        found[name] = np.where(usable & known.any(axis=1), mean, np.nan)
    return found


def _unexpected(errors: dict[str, np.ndarray]) -> list[int]:
    """The folds of days that no path predicted, newest first; without the newest day, which no later day confirms."""
    least = np.fmin.reduce(list(errors.values()))
    found = []
    for fold in range(1, len(least)):
        older = least[fold + 1 :]
        older = older[np.isfinite(older) & np.isfinite(errors["week"][fold + 1 :])]
        if len(older) >= MIN_OLDER and least[fold] > SURPRISE * older.max():
            found.append(fold)
    return found


def _best_before(errors: dict[str, np.ndarray], fold: int) -> str:
    """The path that erred least on the days before a fold."""
    means = {name: error[fold + 1 :] for name, error in errors.items()}
    return min(means, key=lambda name: np.nanmean(means[name]) if np.isfinite(means[name]).any() else np.inf)


def _change(left: np.ndarray, rows: Rows, first: int, upto: int | None = None) -> np.ndarray:
    """float64[upto, P]: what the change did to each day, by default to those before it: the mean residual of the days
    since, of the same kind where there are some. left: float64[days since, P]."""
    upto = first if upto is None else upto
    resting, since = rows.resting[:upto], rows.resting[first : first + len(left)]
    every = weighted_mean(left, np.ones(1))
    made = np.repeat(every[None], upto, axis=0)
    for kind in (False, True):
        own = weighted_mean(np.where(since == kind, left, np.nan), np.ones(1))
        own = np.where(np.isfinite(own), own, every)
        made = np.where(resting == kind, own[None], made)
    return smooth(np.nan_to_num(made), rows.minutes)
