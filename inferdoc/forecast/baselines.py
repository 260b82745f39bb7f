"""The baselines every forecast is scored against: last value, yesterday, last week, mean of the same time of the week,
flat."""

from __future__ import annotations

import numpy as np

from inferdoc.forecast.calendar import WEEK
from inferdoc.forecast.paths import Folded, Path, _filled, flat, weighted_mean

RECENT_WEEKS = 4


def last_value(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The newest known bin, carried on."""
    known = folded.rows.z[:upto]
    known = known[np.isfinite(known)]
    return np.full((ahead, folded.rows.width), known[-1]) if len(known) else None


def yesterday(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The last day, repeated."""
    if upto < 1 or not np.isfinite(folded.z[upto - 1]).any():
        return None
    return np.repeat(_filled(folded.z[upto - 1 : upto], folded.flat_level), ahead, axis=0)


def _same_time_of_week(folded: Folded, upto: int, ahead: int, weeks: int) -> np.ndarray | None:
    if upto < WEEK:
        return None
    out = np.empty((ahead, folded.rows.width))
    for lead in range(ahead):
        newest = upto + lead - WEEK * (1 + lead // WEEK)
        older = np.arange(newest, -1, -WEEK)[:weeks]
        out[lead] = weighted_mean(folded.z[older] ** 2, np.ones((len(older), 1)))
    return np.asarray(np.sqrt(_filled(out, folded.flat_level**2)))


def last_week(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The same bin one week ago."""
    return _same_time_of_week(folded, upto, ahead, 1)


def time_of_week(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The mean of the same bin over the last four weeks."""
    return _same_time_of_week(folded, upto, ahead, RECENT_WEEKS)


BASELINES: dict[str, Path] = {
    "last-value": last_value,
    "yesterday": yesterday,
    "last-week": last_week,
    "time-of-week": time_of_week,
    "flat": flat,
}
