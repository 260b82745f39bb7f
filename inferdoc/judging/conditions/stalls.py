"""stalls: no progress of one signal while another shows that there is work."""

from __future__ import annotations

import numpy as np

from inferdoc.catalogue.conditions import Stall
from inferdoc.judging.conditions.render import JOIN, Rendering, Said
from inferdoc.judging.context import Context, Outcome, absent, quiet
from inferdoc.judging.view import Unit
from inferdoc.judging.words import figure

MIN_SCRAPES = 5
LONGEST_GAP_FACTOR = 10
"""A stall must be ten times the longest pause that the engine showed while it was well."""


def evaluate(condition: Stall, context: Context, unit: Unit) -> Outcome:
    """Whether progress has stood at 0, with work waiting, up to the newest value."""
    progress_name, work_name = condition.signal, condition.work
    progress, work = context.view.get(unit, progress_name), context.view.get(unit, work_name)
    for name, series in ((progress_name, progress), (work_name, work)):
        if series is None:
            return absent(name, unit)
    assert progress is not None and work is not None
    with np.errstate(invalid="ignore"):
        stuck = (progress.values == 0) & (work.values > 0)
        moved = progress.values > 0
    title, measure = context.signals[progress_name].title, context.signals[progress_name].unit
    last = _last_known(progress.values + work.values)
    length = _run_ending_at(stuck, last)
    begin = last - length + 1
    # The rate is 0 only once the last progress has left the window: the stall began a window earlier.
    earlier = context.clock.window_steps - 1
    longest = _longest_run(stuck[:begin])
    need = max(context.clock.steps(0, MIN_SCRAPES), LONGEST_GAP_FACTOR * longest)
    moved_before = moved[:begin].any() or context.view.lead_kind == "lifetime"  # it has answered before anybody looked
    if not moved_before or length + earlier < need or length < 2:
        text = f"{title} moves while there is work"
        return Outcome(False, text, progress_name, unit.name, measure, observed=quiet(progress.values))
    first = max(0, begin - earlier)
    usual = quiet(progress.values[:first])
    work_signal = context.signals[work_name]
    work_left = figure(float(work.values[last]), work_signal.unit)
    return Outcome(
        True,
        f"{title} stands at 0 (usually {figure(usual, measure)}) while {work_signal.title.lower()} reads {work_left}",
        progress_name,
        unit.name,
        measure,
        first=first,
        last=last,
        baseline=usual,
        observed=0.0,
        threshold=0.0,
    )


def _last_known(values: np.ndarray) -> int:
    known = np.flatnonzero(np.isfinite(values))
    return int(known[-1]) if len(known) else 0


def _run_ending_at(mask: np.ndarray, last: int) -> int:
    """Length of the run of True that ends at `last`."""
    before = np.flatnonzero(~mask[: last + 1])
    return last - (int(before[-1]) if len(before) else -1)


def _longest_run(mask: np.ndarray) -> int:
    """Length of the longest run of True."""
    breaks = np.flatnonzero(np.concatenate(([True], ~mask, [True])))
    return int(np.diff(breaks).max()) - 1


def explain(condition: Stall) -> str:
    """The condition in words."""
    return f"`{condition.signal}` stands at 0 while `{condition.work}` is above 0"


def promql(condition: Stall, rendering: Rendering) -> str | None:
    """No progress now, and work now."""
    progress, work = rendering.signal(condition.signal), rendering.signal(condition.work)
    if progress is None or work is None:
        return None
    first, second = JOIN[rendering.level(condition.signal)], JOIN[rendering.level(condition.work)]
    return Said(f"{progress} == 0", first).joined("and", Said(f"{work} > 0", second)).text
