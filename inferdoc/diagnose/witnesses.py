"""What is read only where users are hurt and nothing known fits: the signals that no recipe asks for, and the same
hours of earlier days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inferdoc.catalogue.aliases import Aliases
from inferdoc.diagnose.cohort_signals import add_cohorts
from inferdoc.diagnose.context import Context
from inferdoc.diagnose.rhythm import BEFORE, LONGEST_MS
from inferdoc.diagnose.view import View, make_view
from inferdoc.fleet.members import Assignment, resolve
from inferdoc.source.assemble import read_signals
from inferdoc.source.base import Source
from inferdoc.source.reads import Matcher


def read_rest(source: Source, context: Context, aliases: Aliases, match: tuple[Matcher, ...]) -> None:
    """Put every signal of the catalogue that the recipes did not ask for into the frame of a view: what a cause that
    nobody wrote down moves need not be what the known ones move."""
    view = context.view
    rest = [name for name in context.signals if name not in view.frame]
    more = read_signals(source, rest, view.frame.grid, context.signals, aliases, match)
    if view.lead is not None:
        more.prepend(read_signals(source, rest, view.lead, context.signals, aliases, match))
    view.add(more.signals)
    add_cohorts(view.frame, context.signals, view.fleet)


def earlier_days(
    source: Source,
    context: Context,
    aliases: Aliases,
    match: tuple[Matcher, ...],
    assignments: Sequence[Assignment] = (),
) -> list[View]:
    """The fleet at the same hours of yesterday and of a week ago, as far as the source goes back. A chosen baseline
    takes their place, and a window of most of a day holds them itself."""
    grid = context.view.frame.grid
    if context.view.lead is not None or grid.end_ms - grid.start_ms > LONGEST_MS:
        return []
    found = []
    for _, back_ms, _ in BEFORE:
        then = replace(grid, start_ms=grid.start_ms - back_ms)
        if "up" in source.names(then.start_ms, then.end_ms):
            frame = read_signals(source, list(context.view.frame.signals), then, context.signals, aliases, match)
            fleet = resolve(frame, context.tiers, assignments)
            add_cohorts(frame, context.signals, fleet)
            found.append(make_view(frame, fleet, signals=context.signals))
    return found
