"""Models of the ARIMA family, in square-root space: by name, with bands from back-tested residuals, and one of them as
a path of the combination.

`sarima`: hourly SARIMA(1,0,1)(0,1,1)24. `dhr`, the path: `DayKindRegression` with seasonal autoregressive errors at
half-hours, by conditional least squares, which takes milliseconds where the joint likelihood takes minutes (Hyndman and
Athanasopoulos, Forecasting: Principles and Practice, 3rd ed., chapter 10)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from inferdoc.extras import needed
from inferdoc.forecast import SETTLE_SECONDS
from inferdoc.forecast.calendar import Rows
from inferdoc.forecast.combine import MethodForecast, Trials, run_trials
from inferdoc.forecast.paths import (
    Folded,
    Path,
    block_means,
    block_size,
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


MAX_ITERATIONS = 60
MIN_ROWS = 3
DAYS_FOR_SEASON = 21
SHORTEST_SEASON, LONGEST_SEASON = 4, 48  # beyond, the state of a seasonal ARIMA takes minutes and gigabytes

Predict = Callable[[int, int], np.ndarray]
UNFIT = (ValueError, IndexError, np.linalg.LinAlgError)
"""Exceptions of statsmodels for a series that cannot be fitted."""


def installed() -> bool:
    """Whether statsmodels is there: it comes with an extra."""
    return find_spec("statsmodels") is not None


@dataclass(frozen=True)
class ArimaPath:
    """A path of the combination. text: the model that was fitted, for people."""

    text: str
    predict: Predict

    def __call__(self, _: Folded, upto: int, ahead: int) -> np.ndarray | None:
        if upto < MIN_ROWS - 1:
            return None
        with _quiet():
            return self.predict(upto, ahead)


def arima_path(folded: Folded, seconds: float = SETTLE_SECONDS) -> ArimaPath | None:
    """The path, its lags fitted to the whole history once: a handful of coefficients, which ten days more or less
    hardly move. None where the history is too short, cannot be fitted, or not within `seconds` of wall clock."""
    if folded.count < MIN_ROWS:
        return None
    try:
        with _quiet():
            until = time.monotonic() + seconds
            text, predict = _dhr(folded)
    except UNFIT:
        return None
    return ArimaPath(text, predict) if time.monotonic() <= until else None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of statsmodels, whose import resets the filters: so import first."""
    for module in ("ar_model", "statespace.sarimax"):
        import_module(f"statsmodels.tsa.{module}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def named_model(name: str, rows: Rows, combined: MethodForecast) -> MethodForecast:
    """The model's forecast, or the combination with a note that says why the model could not be fitted."""
    if rows.count < MIN_ROWS:
        note = f"{name} needs at least {MIN_ROWS} days of history; the combination is used"
        return replace(combined, notes=(note,))
    folded = Folded(rows, fill_gaps(rows))
    builders = {"sarima": _sarima, "dhr": _dhr}
    try:
        with needed("statsmodels", f"the {name} model"), _quiet():
            label, predict = builders[name](folded)
            center = predict(rows.count, rows.ahead)
            past = np.full_like(combined.trials.actual, np.nan)
            for k in range(len(past)):
                upto, seen = rows.count - 1 - k, min(past.shape[1], k + 1)
                if upto >= MIN_ROWS - 1:
                    past[k, :seen] = np.maximum(predict(upto, seen), 0.0)
    except UNFIT as fault:
        note = f"{name} could not be fitted ({str(fault)[:80]}); the combination is used"
        return replace(combined, notes=(note,))
    return MethodForecast(label, np.maximum(center, 0.0), past, combined.trials, rows.minutes, {name: 1.0})


def _sarima(folded: Folded) -> tuple[str, Predict]:
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    width = folded.rows.width
    size = block_size(width, folded.rows.minutes, 60.0)
    season = width // size
    if not SHORTEST_SEASON <= season <= LONGEST_SEASON:
        raise ValueError(f"bins of {folded.rows.minutes:g} min do not fold into hours of a day")

    def history(upto: int) -> np.ndarray:
        return block_means(folded.z[max(0, upto - DAYS_FOR_SEASON) : upto].reshape(-1), size)

    def model(upto: int) -> Any:
        return SARIMAX(history(upto), order=(1, 0, 1), seasonal_order=(0, 1, 1, season), simple_differencing=False)

    fitted = model(folded.count).fit(disp=0, maxiter=MAX_ITERATIONS)

    def predict(upto: int, ahead: int) -> np.ndarray:
        result = fitted if upto == folded.count else model(upto).filter(fitted.params)
        coarse = np.asarray(result.forecast(ahead * season))
        centres = (np.arange(len(coarse)) + 0.5) * size - 0.5
        return np.asarray(np.interp(np.arange(len(coarse) * size), centres, coarse)).reshape(ahead, width)

    return "sarima(1,0,1)(0,1,1)day hourly", predict


def _dhr(folded: Folded) -> tuple[str, Predict]:
    """The lags of the errors are those with the lowest BIC among short ones, with and without those of a day before."""
    from scipy.signal import lfilter, lfiltic
    from statsmodels.tsa.ar_model import AutoReg

    rhythm = folded.rhythm
    day = rhythm.blocks

    def errors(upto: int, fit: np.ndarray) -> np.ndarray:
        return np.asarray(np.nan_to_num(rhythm.left(upto, fit)))

    left = errors(folded.count, rhythm.fit(folded.count))
    tried = [short + seasonal for short in ([1], [1, 2]) for seasonal in ([], [day], [day, day + 1])]
    fits = [AutoReg(left, lags, trend="n", hold_back=day + 1).fit() for lags in tried]
    stable = [fitted for fitted in fits if np.abs(fitted.roots).min() > 1]
    if not stable:
        raise ValueError("no stationary autoregression")
    best = min(stable, key=lambda fitted: float(fitted.bic))

    filter_ = np.zeros(best.ar_lags[-1] + 1)
    filter_[0], filter_[best.ar_lags] = 1.0, -best.params

    def predict(upto: int, ahead: int) -> np.ndarray:
        fit = rhythm.fit(upto)
        newest_first = errors(upto, fit)[::-1]
        rest, _ = lfilter([1.0], filter_, np.zeros(ahead * day), zi=lfiltic([1.0], filter_, newest_first))
        return rhythm.path(upto, ahead, fit, rest)

    lags = ", ".join(f"{lag * rhythm.size * folded.rows.minutes / 60:g}" for lag in best.ar_lags)
    return f"day-type regression + AR({lags} h)", predict
