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
from inferdoc.forecast.combine import MethodForecast
from inferdoc.forecast.paths import Folded, block_means, block_size, fill_gaps

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
