"""reaches: extrapolated in a straight line, the signal meets a limit within a time (imminent harm)."""

from __future__ import annotations

import numpy as np

from inferdoc.catalogue.conditions import Reaches
from inferdoc.judging.conditions.render import Rendering, number
from inferdoc.judging.conditions.slope import TREND, ends, steepness
from inferdoc.judging.context import Context, Outcome, absent
from inferdoc.judging.view import Unit
from inferdoc.times import length_of
from inferdoc.words import figure


def evaluate(condition: Reaches, context: Context, unit: Unit) -> Outcome:
    """Whether the straight line through the episode meets the limit in time."""
    signal = condition.signal
    series = context.view.get(unit, signal)
    if series is None:
        return absent(signal, unit)
    limit, name = context.number(condition.limit, unit)
    within = length_of(condition.within)
    start = context.split or 0
    found = ends(series.values[start:])
    measure, title = context.signals[signal].unit, context.signals[signal].title
    if found is None:
        return Outcome(None, f"{title}: too short to extrapolate", signal, unit.name, measure)
    early, late = found
    now, away, holds = float(series.values[np.isfinite(series.values)][-1]), np.inf, False
    if abs(late - early) > context.signals[signal].floor:  # a line is fitted to what moves alone
        slope = steepness(series.values[start:], context.view.step_seconds)
        away = (limit - now) / slope if slope else np.inf
        beyond = (now >= limit) if slope >= 0 else (now <= limit)
        holds = not beyond and 0 <= away <= within
    text = f"{title} at {figure(now, measure)} " + (
        f"meets {figure(limit, measure)}{f' ({name})' if name else ''} in {figure(float(away), 's')}"
        if holds
        else f"does not meet {figure(limit, measure)} soon"
    )
    outcome = Outcome(
        holds, text, signal, unit.name, measure, baseline=early, observed=now, threshold=limit, ahead=True
    )
    return outcome.during(start, context.view.steps - 1)


def explain(condition: Reaches) -> str:
    """The condition in words."""
    return f"`{condition.signal}` on course to meet {condition.limit} within {condition.within}"


def promql(condition: Reaches, rendering: Rendering) -> str | None:
    """From below the limit upwards: the direction in which signals that fill up meet it."""
    name = condition.signal
    ahead, parts = int(length_of(condition.within)), []
    for those, limit in rendering.by_limit(condition.limit, name):
        now, over = those.signal(name), those.over(name, TREND)
        if now is None or over is None:
            return None
        parts.append(f"predict_linear({over}, {ahead}) >= {number(limit)}\nand {now} < {number(limit)}")
    return "\nor ".join(parts)
