"""Whether a load series can be planned on at all: data that are old, too coarse, or no load make no schedule."""

from __future__ import annotations

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.times import rfc3339

OLDEST = DAY
EARLIEST = 600
"""Clocks differ by minutes; a load of later is stamped in another zone, or wrong."""
COARSEST = 3600
"""A schedule has times of day; bins longer than an hour do not hold them."""
ENOUGH = 100
FALLS_OF_A_COUNTER = 0.01
"""A load goes down about as often as up; a counter only where its process began anew."""


def fit_for_a_plan(series: LoadSeries, now: int, chosen: bool = False) -> None:
    """Raises InferdocError, one line, for a series that no schedule can be made of. now: Unix seconds that the plan is
    made at; chosen: whether that was asked for, so that what came later is left out and not from the future."""
    last = _newest(series)
    if last is not None and not chosen and last - series.step - now > EARLIEST:
        raise InferdocError(
            f"the newest load is of {rfc3339(last)}, {_long(last - now)} after the plan: check the clock that stamped "
            "it (local time taken for UTC?), or plan as of a moment with --from"
        )
    series = series.before(now)
    newest = _newest(series)
    if newest is None:
        raise InferdocError("no load was seen")
    if now - newest > OLDEST:
        raise InferdocError(
            f"the newest load is of {rfc3339(newest)}, {(now - newest) / DAY:.1f} days before the plan: collect again, "
            "or plan as of then with --from"
        )
    if series.step > COARSEST:
        raise InferdocError(f"bins of {series.step / 3600:g} h hold no times of day; give bins of an hour or shorter")
    if _is_counter(series.values[np.isfinite(series.values)]):
        raise InferdocError(
            "the values only grow, as a raw counter does; give what was added per bin, or a rate such as rate(x[5m])"
        )


def _newest(series: LoadSeries) -> int | None:
    """Unix seconds just after the last known bin."""
    known = np.flatnonzero(np.isfinite(series.values))
    return series.start + series.step * (int(known[-1]) + 1) if len(known) else None


def _long(seconds: int) -> str:
    return f"{seconds / DAY:.1f} days" if seconds > DAY else f"{seconds / 3600:.1f} hours"


def _is_counter(values: np.ndarray) -> bool:
    """Whether values (float64[n]) almost never fall, and those that do fall below what was ever counted up from."""
    steps = np.diff(values)
    moves, falls = np.count_nonzero(steps), np.flatnonzero(steps < 0)
    resets = bool((values[falls + 1] < 0.5 * values[falls]).all())
    return bool(moves >= ENOUGH and len(falls) <= FALLS_OF_A_COUNTER * moves) and resets
