"""A source without a past that saw the change begin: its first minutes are the baseline.

A change is looked for once a calm is long enough to be told from. What changes before that, minutes after a server was
installed or lost its data, leaves nothing but a steady state that is bad, and nobody would call it healthy who saw the
first minutes. So where some pod was better in them, at no less load, it is judged against them: whether that is a
finding is for the recipes to say.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inferdoc.judging.ladder import FELT, WORSE, Rung, worse
from inferdoc.judging.session import Session
from inferdoc.judging.view import Unit

MORE_LOAD = 1.3
"""Where so much more arrives than in the first minutes, these were those of a fleet that was not in use yet."""
HEAD_WINDOWS = 2
"""A rate needs a window, and a median more than one that stands apart."""
ARRIVALS = "arrival_rate"


def better_start(session: Session) -> Rung | None:
    """The first minutes of what was read, where a pod was better in what users wait for; else None."""
    view, clock = session.context.view, session.context.clock
    if view.lead is not None or not view.units:
        return None
    head = max(HEAD_WINDOWS * clock.window_steps, clock.out_steps)
    if head >= clock.least_calm or view.steps < 2 * clock.least_calm:
        return None
    levels = [_levels(session, unit, head) for unit in view.units]
    if not any(_worse(level) for level in levels) or _grown(levels):
        return None
    grid = session.frame.grid
    return Rung("history" if head <= view.begin else "calm-before", replace(grid, count=head))


Levels = dict[str, tuple[float, float]]
"""What a pod shows in the first minutes and after a calm, in the median, by signal."""


def _levels(session: Session, unit: Unit, head: int) -> Levels:
    view, calm = session.context.view, session.context.clock.least_calm
    levels: Levels = {}
    for name in (*FELT, ARRIVALS):
        series = view.get(unit, name)
        parts = () if series is None else (series.values[:head], series.values[calm:])
        parts = tuple(part[np.isfinite(part)] for part in parts)
        if parts and all(map(len, parts)):
            levels[name] = (float(np.median(parts[0])), float(np.median(parts[1])))
    return levels


def _worse(levels: Levels) -> bool:
    then, now = ({name: level[place] for name, level in levels.items()} for place in (0, 1))
    return bool(worse(now, then, WORSE))


def _grown(levels: list[Levels]) -> bool:
    """Whether more arrives, over all pods."""
    arrivals = [level[ARRIVALS] for level in levels if ARRIVALS in level]
    then, now = (sum(each[place] for each in arrivals) for place in (0, 1))
    return bool(arrivals) and now > MORE_LOAD * then
