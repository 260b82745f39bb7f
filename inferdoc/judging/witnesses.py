"""What is read only where users are hurt and nothing known fits: the signals that no recipe asks for, and the same
hours of earlier days."""

from __future__ import annotations

from dataclasses import replace

from inferdoc.fleet.members import resolve
from inferdoc.judging.cohort_signals import add_cohorts
from inferdoc.judging.rhythm import BEFORE, LONGEST_MS
from inferdoc.judging.session import Session
from inferdoc.judging.view import View, make_view


def read_rest(session: Session) -> None:
    """Put every signal of the catalogue that the recipes did not ask for into the frame of a view: what a cause that
    nobody wrote down moves need not be what the known ones move. What is there already stays: it has its baseline."""
    view, signals = session.context.view, session.catalogue.signals
    rest = [name for name in signals if name not in view.frame]
    more = session.read(rest, view.frame.grid)
    if view.lead is not None:
        more.prepend(session.read(rest, view.lead))
    view.add({name: matrix for name, matrix in more.signals.items() if name not in view.frame})
    add_cohorts(view.frame, signals, view.fleet)


def earlier_days(session: Session) -> list[View]:
    """The fleet at the same hours of yesterday and of a week ago, as far as the source goes back. A chosen baseline
    takes their place, and a window of most of a day holds them itself."""
    view, signals = session.context.view, session.catalogue.signals
    grid = view.frame.grid
    if view.lead is not None or grid.end_ms - grid.start_ms > LONGEST_MS:
        return []
    views = []
    for _, back_ms, _ in BEFORE:
        then = replace(grid, start_ms=grid.start_ms - back_ms)
        if "up" in session.source.names(then.start_ms, then.end_ms):
            frame = session.read(list(view.frame.signals), then)
            fleet = resolve(frame, session.catalogue.tiers, session.options.assignments)
            add_cohorts(frame, signals, fleet)
            views.append(make_view(frame, fleet, signals=signals))
    return views
