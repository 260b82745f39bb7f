"""slope: keeps growing (or, with a negative number, shrinking) over the episode."""

from __future__ import annotations

import numpy as np

from inferdoc.catalogue.conditions import Slope
from inferdoc.judging.conditions.render import Rendering, number
from inferdoc.judging.context import Context, Outcome, absent
from inferdoc.judging.view import Unit
from inferdoc.judging.words import figure

EARLY_TO_LATE = 1.3
"""The last third of the episode must lie this far beyond its first third: a queue that jumped and stays is no trend."""

TREND = "15m"
"""Over how long rules fit the line."""


def trend(values: np.ndarray, step_seconds: float) -> tuple[float, float, float] | None:
    """Of values float64[T]: (least-squares slope per second, median of the first third, median of the last third).

    None for too few points.
    """
    finite = np.isfinite(values)
    if finite.sum() < 6:
        return None
    times = np.arange(len(values))[finite] * step_seconds
    seen = values[finite]
    third = max(2, len(seen) // 3)
    return float(np.polyfit(times, seen, 1)[0]), float(np.median(seen[:third])), float(np.median(seen[-third:]))


def evaluate(condition: Slope, context: Context, unit: Unit) -> Outcome:
    """Whether the signal moves by at least the slope (its unit per second) over the episode."""
    signal, wanted = condition.signal, condition.per_second
    series = context.view.get(unit, signal)
    if series is None:
        return absent(signal, unit)
    start = context.split or 0
    stop = context.view.steps if context.last is None else context.last + 1
    found = trend(series.values[start:stop], context.view.step_seconds)
    measure, title = context.signals[signal].unit, context.signals[signal].title
    if found is None:
        return Outcome(None, f"{title}: too short for a trend", signal, unit.name, measure)
    slope, early, late = found
    grows = late > EARLY_TO_LATE * early if wanted >= 0 else late < early / EARLY_TO_LATE
    holds = grows and (slope >= wanted if wanted >= 0 else slope <= wanted)
    course = f"{figure(early, measure)} early, {figure(late, measure)} late in the episode"
    text = f"{title} {'keeps moving' if holds else 'has no trend'}: {course}"
    outcome = Outcome(holds, text, signal, unit.name, measure, baseline=early, observed=late, threshold=wanted)
    return outcome.during(start, stop - 1)


def explain(condition: Slope) -> str:
    """The condition in words."""
    return f"`{condition.signal}` keeps moving by at least {condition.per_second:g} a second"


def promql(condition: Slope, rendering: Rendering) -> str | None:
    """The fitted slope against the wanted one."""
    over = rendering.over(condition.signal, TREND)
    if over is None:
        return None
    side = ">" if condition.per_second >= 0 else "<"
    return f"deriv({over}) {side} {number(condition.per_second)}"
