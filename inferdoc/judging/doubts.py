"""What keeps a window without findings from being healthy: a rise that is too new, and traffic that stopped.

A deviation is one once it has lasted for some scrapes (`Clock.out_steps`). Who looks a minute after the page would read
that nothing is wrong; the truth is that it looks wrong, and when it can be told.

Engines that receive nothing look healthy, and their users may stand before a closed door: whether clients left or
cannot get through is in no metric of an engine. So where all pods of a model served steadily and then, from one minute
to the next, nothing arrives, the verdict is unknown, with the next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from inferdoc.judging.clock import Rule
from inferdoc.judging.conditions.stalls import LONGEST_GAP_FACTOR
from inferdoc.judging.context import Context
from inferdoc.judging.deviation import bands
from inferdoc.judging.model import Rising, Stopped, stamp
from inferdoc.judging.order import rows_of
from inferdoc.judging.references.providers import FELT, LEAST_WORSE
from inferdoc.judging.scan.model import Family
from inferdoc.judging.stretches import runs
from inferdoc.judging.view import Unit

MUCH_WORSE = 2.0
"""Twice what was usual: for less, who asks would be told to ask again on quiet days."""
LEAST_SCRAPES = 2
"""One is a spike."""


def rising(context: Context, units: Sequence[Unit]) -> Rising | None:
    """What users of these units wait for and what has risen most in the last scrapes, over all that it was before; None
    where nothing has, or for so long that it was judged."""
    risen = [one for name in FELT if name in context.signals for one in _of_signal(name, context, units)]
    return max(risen, key=lambda one: one.observed / max(one.baseline, LEAST_WORSE[one.signal]), default=None)


def _of_signal(name: str, context: Context, units: Sequence[Unit]) -> Iterator[Rising]:
    clock, view, unit_of = context.clock, context.view, context.signals[name].unit
    rows = {unit: series.values for unit in units if (series := view.get(unit, name)) is not None}
    if not rows:
        return
    told = clock.out_steps + clock.window_steps
    values = np.vstack(list(rows.values()))
    before = np.isfinite(values)
    before[:, -told:] = False
    places = np.flatnonzero(before.sum(axis=1) >= clock.least_calm)
    if not len(places):
        return
    usual, limit = bands(values[places], before[places], Rule(MUCH_WORSE, by=LEAST_WORSE[name]))
    least, among = clock.steps(0.0, LEAST_SCRAPES), list(rows)
    for place, middle, most in zip(places.tolist(), usual.tolist(), limit.tolist(), strict=True):
        seen = np.flatnonzero(np.isfinite(values[place]))
        inside = np.flatnonzero(values[place, seen] <= most)
        outside = seen[inside[-1] + 1 :] if len(inside) else seen
        if len(outside) < least or seen[-1] < view.steps - least or view.steps - outside[0] >= told:
            continue
        first, last = int(outside[0]), int(outside[-1])
        moments = (stamp(view.time_at(step)) for step in (first, first + told))
        yield Rising(name, among[place].name, middle, float(values[place, last]), unit_of, *moments)


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
