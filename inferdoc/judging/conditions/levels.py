"""above, below: an absolute limit, held long enough or in a share of the windows."""

from __future__ import annotations

import numpy as np

from inferdoc.catalogue.recipe import Condition
from inferdoc.judging.conditions.render import Rendering
from inferdoc.judging.context import Context, Outcome, absent, rule_asked
from inferdoc.judging.excursion import held
from inferdoc.judging.view import Unit
from inferdoc.judging.words import figure


def evaluate(condition: Condition, context: Context, unit: Unit) -> Outcome:
    """Whether the signal lies beyond the limit for long enough or often enough."""
    signal = str(condition.signal)
    series = context.view.get(unit, signal)
    if series is None:
        return absent(signal, unit)
    up = condition.above is not None
    limit, name = context.number(condition.above if condition.above is not None else condition.below or 0.0, unit)
    finite = np.isfinite(series.values)
    with np.errstate(invalid="ignore"):
        mask = finite & ((series.values > limit) if up else (series.values < limit))
    if context.split is not None:
        mask[: context.split] = False
        finite = finite.copy()
        finite[: context.split] = False
    stretch = held(mask, finite, rule_asked(condition, 2.0), context.clock)
    title, measure = context.signals[signal].title, context.signals[signal].unit
    wanted = f"{figure(limit, measure)}{f' ({name})' if name else ''}"
    if stretch is None:
        seen = series.values[finite]
        extreme = float(seen.max() if up else seen.min()) if len(seen) else None
        side, farthest = ("at or below", "highest") if up else ("at or above", "lowest")
        text = f"{title} stays {side} {wanted} ({farthest} {figure(extreme, measure)})"
        return Outcome(False, text, signal, unit.name, measure, observed=extreme, threshold=limit)
    first, last = stretch
    inside = series.values[first : last + 1][mask[first : last + 1]]
    before = series.values[:first][np.isfinite(series.values[:first])]
    calm = float(np.median(before)) if len(before) >= 3 else None
    observed = float(np.median(inside))
    return Outcome(
        True,
        f"{title} is {'above' if up else 'below'} {wanted}: {figure(observed, measure)}",
        signal,
        unit.name,
        measure,
        first=first,
        last=last,
        baseline=calm,
        observed=observed,
        threshold=limit,
        from_start=first < context.clock.calm_steps,
    )


def explain(condition: Condition) -> str:
    """The condition in words."""
    side, limit = ("above", condition.above) if condition.above is not None else ("below", condition.below)
    held_for = f" for {condition.for_}" if condition.for_ else ""
    often = f" in {condition.share_of:.0%} of the windows" if condition.share_of else ""
    return f"`{condition.signal}` {side} {limit}{held_for}{often}"


def promql(condition: Condition, rendering: Rendering) -> str | None:
    """The signal against the limit, with as much traffic as makes it mean something."""
    name = str(condition.signal)
    now = rendering.signal(name)
    if now is None:
        return None
    if condition.above is None:
        return f"{now} < {rendering.threshold(condition.below or 0.0)}"
    limit = rendering.threshold(condition.above)
    few = rendering.few(name, float(limit))
    return f"{now} > {limit}" if few is None else f"{now} > {limit}\nand {few}"
