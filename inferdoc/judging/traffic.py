"""Traffic that stopped: engines that receive nothing look healthy, and their users may stand before a closed door.

Whether clients left or cannot get through is in no metric of an engine. So where all pods of a model served steadily
and then, from one minute to the next, nothing arrives, the verdict is not healthy but unknown, with the next step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from inferdoc.judging.conditions.stalls import LONGEST_GAP_FACTOR
from inferdoc.judging.context import Context
from inferdoc.judging.model import Stopped, stamp
from inferdoc.judging.order import rows_of
from inferdoc.judging.scan import Family
from inferdoc.judging.stretches import runs
from inferdoc.judging.view import Unit

RATE = "request_rate"
MISSED = 20.0
"""So many requests would have come by the usual rate: of random arrivals none comes with a chance of e^-20."""
LEFT = 0.05
"""Of the usual rate: a health check or a single user may go on."""
ABRUPT = 0.5
"""In the minutes before, so much of the usual rate still came: an evening ends by degrees."""


def stopped(context: Context, units: Sequence[Unit]) -> Stopped | None:
    """The model, of some units, whose requests stopped and have not come back by the end of the window; of several the
    busiest."""
    families: dict[Family, list[np.ndarray]] = {}
    for unit in units:
        series = context.view.get(unit, RATE)
        if series is not None:
            families.setdefault(unit.member.pool.family, []).append(series.values)
    found = [one for family, rows in families.items() if (one := _of_family(context, family, rows)) is not None]
    return max(found, key=lambda one: one.before, default=None)


def _of_family(context: Context, family: Family, rows: list[np.ndarray]) -> Stopped | None:
    view, clock = context.view, context.clock
    values = rows_of(rows)
    known = np.flatnonzero(np.isfinite(values).any(axis=0))
    rate = np.nansum(values[:, known], axis=0)
    if len(rate) <= clock.least_calm:
        return None
    usual = float(np.median(sliding_window_view(rate, clock.least_calm), axis=1).max())
    pauses = runs(rate <= LEFT * usual)
    if not pauses or pauses[-1][1] != len(known):
        return None
    begin = pauses[-1][0]
    pause = max((stop - start for start, stop in pauses[:-1]), default=0)
    lasts = len(known) - begin
    before = rate[max(0, begin - clock.least_calm) : begin]
    if len(before) < clock.least_calm or float(np.median(before)) < ABRUPT * usual:
        return None
    if lasts < LONGEST_GAP_FACTOR * pause or usual * lasts * view.step_seconds < MISSED:
        return None
    return Stopped(family[2], usual, stamp(view.time_at(int(known[begin]))))
