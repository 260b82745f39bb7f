"""Models of the ARIMA family, in square-root space: by name, with bands from back-tested residuals, and one of them as
a path of the combination.

`sarima`: hourly SARIMA(1,0,1)(0,1,1)24. `dhr`: dynamic harmonic regression in two steps, least squares for the rhythm
and ARMA(2,1) on what is left at half-hours (the joint likelihood differentiates every harmonic numerically: minutes
instead of a second)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from inferdoc.extras import needed
from inferdoc.forecast.calendar import WEEK, Rows
from inferdoc.forecast.combine import Combination
from inferdoc.forecast.defaults import SETTLE_SECONDS
from inferdoc.forecast.made import Made
from inferdoc.forecast.paths import Folded, Path, fill_gaps, rhythm_fit

MAX_ITERATIONS = 60
MIN_ROWS = 3
DAYS_FOR_SEASON = 21
SHORTEST_SEASON, LONGEST_SEASON = 4, 48  # beyond, the state of a seasonal ARIMA takes minutes and gigabytes

Predict = Callable[[int, int], np.ndarray]
UNFIT = (ValueError, IndexError, np.linalg.LinAlgError)
"""What statsmodels raises where a series cannot be fitted."""


class _OverBudgetError(Exception):
    """The fit took longer than it may."""


def installed() -> bool:
    """Whether statsmodels is there: it comes with an extra."""
    return find_spec("statsmodels") is not None


def arima_path(folded: Folded, seconds: float = SETTLE_SECONDS) -> Path | None:
    """Harmonics and ARMA(2,1) as a path of the combination, fitted to the whole history once: three coefficients, which
    ten days more or less hardly move. None where the history is too short, cannot be fitted, or not within `seconds`
    of wall clock."""
    if folded.count < MIN_ROWS:
        return None
    try:
        with _quiet():
            predict = _dhr(folded, time.monotonic() + seconds)
    except (*UNFIT, _OverBudgetError):
        return None

    def path(_: Folded, upto: int, ahead: int) -> np.ndarray | None:
        if upto < MIN_ROWS - 1:
            return None
        with _quiet():
            return predict(upto, ahead)

    return path


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of statsmodels, whose import resets the filters: so import first."""
    for module in ("arima.model", "statespace.sarimax"):
        import_module(f"statsmodels.tsa.{module}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def named_model(name: str, rows: Rows, combined: Combination) -> Made:
    """The model's forecast, or the combination with a note that says why the model could not be fitted."""
    if rows.count < MIN_ROWS:
        note = f"{name} needs at least {MIN_ROWS} days of history; the combination stands in"
        return Made.of(combined, rows.minutes, (note,))
    folded = Folded(rows, fill_gaps(rows))
    builders = {"sarima": _sarima, "dhr": _dhr}
    try:
        with needed("statsmodels", f"the {name} model"), _quiet():
            predict = builders[name](folded)
            center = predict(rows.count, rows.ahead)
            past = np.full_like(combined.trials.actual, np.nan)
            for k in range(len(past)):
                upto, seen = rows.count - 1 - k, min(past.shape[1], k + 1)
                if upto >= MIN_ROWS - 1:
                    past[k, :seen] = np.maximum(predict(upto, seen), 0.0)
    except UNFIT as fault:
        note = f"{name} could not be fitted ({str(fault)[:80]}); the combination stands in"
        return Made.of(combined, rows.minutes, (note,))
    label = "sarima(1,0,1)(0,1,1)day hourly" if name == "sarima" else "harmonics + arma(2,1)"
    return Made(label, np.maximum(center, 0.0), past, combined.trials, rows.minutes, {name: 1.0})


def _blocks(line: np.ndarray, size: int) -> np.ndarray:
    """Means over blocks of `size` bins, NaN left out."""
    parts = line.reshape(-1, size)
    known = np.isfinite(parts).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.where(known > 0, np.nansum(parts, axis=1) / np.maximum(known, 1), np.nan)


def _block_size(width: int, minutes: float, wanted: float) -> int:
    """Bins per block: as near to `wanted` minutes as divides the day."""
    near = max(1, round(wanted / minutes))
    return next(size for size in range(near, 0, -1) if width % size == 0)


def _spread(coarse: np.ndarray, size: int) -> np.ndarray:
    """Values at block centres brought to bins by straight lines."""
    centres = (np.arange(len(coarse)) + 0.5) * size - 0.5
    return np.asarray(np.interp(np.arange(len(coarse) * size), centres, coarse))


def _sarima(folded: Folded) -> Predict:
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    width = folded.rows.width
    size = _block_size(width, folded.rows.minutes, 60.0)
    season = width // size
    if not SHORTEST_SEASON <= season <= LONGEST_SEASON:
        raise ValueError(f"bins of {folded.rows.minutes:g} min do not fold into hours of a day")

    def history(upto: int) -> np.ndarray:
        return _blocks(folded.z[max(0, upto - DAYS_FOR_SEASON) : upto].reshape(-1), size)

    def model(upto: int) -> Any:
        return SARIMAX(history(upto), order=(1, 0, 1), seasonal_order=(0, 1, 1, season), simple_differencing=False)

    fitted = model(folded.count).fit(disp=0, maxiter=MAX_ITERATIONS)

    def predict(upto: int, ahead: int) -> np.ndarray:
        result = fitted if upto == folded.count else model(upto).filter(fitted.params)
        return _spread(np.asarray(result.forecast(ahead * season)), size).reshape(ahead, width)

    return predict


def _dhr(folded: Folded, until: float = float("inf")) -> Predict:
    """until: of the monotonic clock; past it the fit raises _OverBudgetError."""
    from statsmodels.tsa.arima.model import ARIMA

    width = folded.rows.width
    size = _block_size(width, folded.rows.minutes, 30.0)

    def rhythm(first: int, last: int, fit: np.ndarray) -> np.ndarray:
        return np.stack([folded.waves[r % WEEK] @ fit for r in range(first, last)])

    def left(upto: int, fit: np.ndarray) -> np.ndarray:
        return _blocks((folded.z[:upto] - rhythm(0, upto, fit)).reshape(-1), size)

    def in_time(_: np.ndarray) -> None:
        if time.monotonic() > until:
            raise _OverBudgetError

    rest_of_all = left(folded.count, rhythm_fit(folded, folded.count))
    settled = {"maxiter": MAX_ITERATIONS, "disp": 0, "callback": in_time}
    fitted = ARIMA(rest_of_all, order=(2, 0, 1), trend="n").fit(method_kwargs=settled)

    def predict(upto: int, ahead: int) -> np.ndarray:
        fit = rhythm_fit(folded, upto)
        result = fitted.apply(left(upto, fit))
        rest = _spread(np.asarray(result.forecast(ahead * width // size)), size).reshape(ahead, width)
        return np.asarray(rhythm(upto, upto + ahead, fit) + rest)

    return predict
