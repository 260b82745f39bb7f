"""Growth of a load from day to day, and a forecast that carries it on.

The paths of a forecast are days like those that were, so a load that grows every day is always ahead of them. Each day
is compared with the day before of the same kind (working day, weekend). The history itself shows how much
of the growth is real: each day is predicted from the one before it with the growth seen until then, and without. The
share by which the error falls is the share that is carried on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from inferdoc.forecast.calendar import Rows, fold, zone_of
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import LoadSeries

LEAST = 3
"""Steps from day to day that a growth takes, of which the last can be predicted from the others."""
KNOWN = 0.5
"""Share of two days that must be known in both."""
MIDDLE = 0.5
FURTHEST = 7
"""Days for which a growth is carried on: nobody knows that it lasts longer (own choice)."""


@dataclass(frozen=True)
class Growth:
    """each: from one day to the next of its kind, a log; share: of it that the history bears out, 0 to 1; days: steps
    from day to day that were seen."""

    each: float
    share: float
    days: int

    @property
    def a_day(self) -> float:
        """What is carried on, as a share of the day before."""
        return math.expm1(self.share * self.each)


def with_growth(series: LoadSeries, ahead: Forecast) -> tuple[Forecast, Growth | None]:
    """A forecast with the growth of its load carried on, and that growth; the forecast as it is and None where it
    abstains, where too few days show a growth, or where it may be chance. series: that it was made of.

    The middle path is moved. The upper ones are not, unless they would lie below it: they hold the errors of days that
    the forecast missed for want of growth."""
    rows = fold(series, zone_of(ahead.zone), len(ahead.p50))
    kinds = rows.resting.mean(axis=1) > KNOWN
    growth = None if ahead.abstained else _growth(rows, kinds)
    if growth is None or growth.share <= 0:
        return ahead, None
    path = ahead.p50.copy()
    for day in range(rows.ahead):
        steps = np.flatnonzero(rows.row == day)
        path[steps] *= np.exp(growth.share * _missing(rows, kinds, growth, steps, ahead.mean[steps]))
    quantiles = {
        level: path if level == MIDDLE else np.maximum(values, path) if level > MIDDLE else np.minimum(values, path)
        for level, values in ahead.quantiles.items()
    }
    return replace(ahead, quantiles=quantiles), growth


def _missing(rows: Rows, kinds: np.ndarray, growth: Growth, steps: np.ndarray, predicted: np.ndarray) -> float:
    """What the forecast of a day lacks of the newest day alike with its growth, a log; 0 where that day is not known.
    steps: int64[n], of the day; predicted: float64[n], forecast for them."""
    if not len(steps):
        return 0.0
    day = rows.count + int(rows.row[steps[0]])
    last = _newest_alike(rows, kinds, day)
    if last is None:
        return 0.0
    before = rows.z[last, rows.col[steps]] ** 2
    both = np.isfinite(before) & (predicted > 0)
    if both.sum() < KNOWN * len(steps) or not before[both].sum() > 0:
        return 0.0
    carried = growth.each * min(day - last, FURTHEST)
    return float(carried - np.log(predicted[both].sum() / before[both].sum()))


def _growth(rows: Rows, kinds: np.ndarray) -> Growth | None:
    """Of the days before the forecast. kinds: bool[R + F], whether a day is of a weekend."""
    steps = np.array([_step(rows, day) for day in range(1, rows.count) if kinds[day] == kinds[day - 1]])
    steps = steps[np.isfinite(steps)]
    if len(steps) < LEAST:
        return None
    with_it = sum(float(steps[at] - np.median(steps[:at])) ** 2 for at in range(1, len(steps)))
    without = float((steps[1:] ** 2).sum())
    share = max(0.0, 1.0 - with_it / without) if without > 0 else 0.0
    return Growth(float(np.median(steps)), share, len(steps))


def _step(rows: Rows, day: int) -> float:
    """From the day before to a day, a log, over what is known of both; NaN where that is too little."""
    both = np.isfinite(rows.z[day - 1 : day + 1]).all(axis=0)
    before, after = (rows.z[day - 1 : day + 1, both] ** 2).sum(axis=1)
    if both.mean() < KNOWN or before <= 0 or after <= 0:
        return float("nan")
    return float(np.log(after / before))


def _newest_alike(rows: Rows, kinds: np.ndarray, day: int) -> int | None:
    """The newest known day of the same kind as one to come."""
    alike = [at for at in range(rows.count) if kinds[at] == kinds[day] and np.isfinite(rows.z[at]).mean() >= KNOWN]
    return alike[-1] if alike else None
