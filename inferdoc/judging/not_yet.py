"""What has just become worse, and is too new to be told from a spike.

A deviation is one once it has lasted for some scrapes (`Clock.out_steps`). Who asks a minute after the page would hear
that nothing is wrong; the truth is that it looks wrong, and when it can be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from inferdoc.judging.clock import Rule
from inferdoc.judging.context import Context
from inferdoc.judging.deviation import bands
from inferdoc.judging.ladder import FELT, LEAST_WORSE
from inferdoc.judging.model import Rising, stamp
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
