"""slope: keeps growing (or, with a negative number, shrinking) over the episode."""

from __future__ import annotations

import numpy as np

from inferdoc.catalogue.conditions import Slope
from inferdoc.judging.conditions.render import Rendering, number
from inferdoc.judging.context import Context, Outcome, absent
from inferdoc.judging.order import median
from inferdoc.judging.view import Unit
from inferdoc.words import figure

EARLY_TO_LATE = 1.3
"""The last third of the episode must lie this far beyond its first third: a queue that jumped and stays is no trend."""

LEAST_POINTS = 6

TREND = "15m"
"""Over how long rules fit the line."""


def ends(values: np.ndarray) -> tuple[float, float] | None:
    """Of values float64[T]: median of the first third, median of the last third. None for too few points."""
    seen = values[np.isfinite(values)]
    if len(seen) < LEAST_POINTS:
        return None
    third = max(2, len(seen) // 3)
    return median(seen[:third]), median(seen[-third:])


def steepness(values: np.ndarray, step_seconds: float) -> float:
    """The least-squares slope per second of values float64[T], of which two at least are finite."""
    finite = np.isfinite(values)
    times = np.arange(len(values))[finite] * step_seconds
    return float(np.polyfit(times, values[finite], 1)[0])


def evaluate(condition: Slope, context: Context, unit: Unit) -> Outcome:
    """Whether the signal moves by at least the slope (its unit per second) over the episode."""
    signal, needed = condition.signal, condition.per_second
    series = context.view.get(unit, signal)
    if series is None:
        return absent(signal, unit)
    start = context.split or 0
    stop = context.view.steps if context.last is None else context.last + 1
    found = ends(series.values[start:stop])
    measure, title = context.signals[signal].unit, context.signals[signal].title
    if found is None:
        return Outcome(None, f"{title}: too short for a trend", signal, unit.name, measure)
    early, late = found
    slope = steepness(series.values[start:stop], context.view.step_seconds)
    grows = late > EARLY_TO_LATE * early if needed >= 0 else late < early / EARLY_TO_LATE
    holds = grows and (slope >= needed if needed >= 0 else slope <= needed)
    course = f"{figure(early, measure)} early, {figure(late, measure)} late in the episode"
    text = f"{title} {'keeps moving' if holds else 'has no trend'}: {course}"
    outcome = Outcome(holds, text, signal, unit.name, measure, baseline=early, observed=late, threshold=needed)
    return outcome.during(start, stop - 1)


def explain(condition: Slope) -> str:
    """The condition in words."""
    return f"`{condition.signal}` keeps moving by at least {condition.per_second:g} a second"


def promql(condition: Slope, rendering: Rendering) -> str | None:
    """The fitted slope against the needed one."""
    over = rendering.over(condition.signal, TREND)
    if over is None:
        return None
    side = ">" if condition.per_second >= 0 else "<"
    return f"deriv({over}) {side} {number(condition.per_second)}"
