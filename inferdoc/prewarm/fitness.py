"""Whether a load series can be planned on at all: data that are old, too coarse, or no load make no schedule."""

from __future__ import annotations

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.times import rfc3339

OLDEST = DAY
COARSEST = 3600
"""A schedule has times of day; bins longer than an hour do not hold them."""
ENOUGH = 100
FALLS_OF_A_COUNTER = 0.01
"""A load goes down about as often as up; a counter only where its process began anew."""


def fit_for_a_plan(series: LoadSeries, now: int) -> None:
    """Raises InferdocError, one line, for a series that no schedule can be made of. now: Unix seconds that the plan is
    made at."""
    series = series.before(now)
    known = np.flatnonzero(np.isfinite(series.values))
    if not len(known):
        raise InferdocError("no load was seen")
    newest = series.start + series.step * (int(known[-1]) + 1)
    if now - newest > OLDEST:
        raise InferdocError(
            f"the newest load is of {rfc3339(newest)}, {(now - newest) / DAY:.1f} days before the plan: collect again, "
            "or plan as of then with --from"
        )
    if series.step > COARSEST:
        raise InferdocError(f"bins of {series.step / 3600:g} h hold no times of day; give bins of an hour or shorter")
    if _is_counter(series.values[known]):
        raise InferdocError(
            "the values only grow, as a raw counter does; give what was added per bin, or a rate such as rate(x[5m])"
        )


def _is_counter(values: np.ndarray) -> bool:
    """Whether values (float64[n]) almost never fall, and those that do fall below what was ever counted up from."""
    steps = np.diff(values)
    moves, falls = np.count_nonzero(steps), np.flatnonzero(steps < 0)
    resets = bool((values[falls + 1] < 0.5 * values[falls]).all())
    return bool(moves >= ENOUGH and len(falls) <= FALLS_OF_A_COUNTER * moves) and resets
