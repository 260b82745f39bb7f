"""above, below: an absolute limit, held long enough or in a share of the windows."""

from __future__ import annotations

import numpy as np

from inferdoc.catalogue.recipe import Condition
from inferdoc.diagnose.conditions.render import Rendering
from inferdoc.diagnose.context import Context, Outcome, absent
from inferdoc.diagnose.excursion import DEFAULT_SHARE, Rule, held
from inferdoc.diagnose.view import Unit
from inferdoc.diagnose.words import figure
from inferdoc.times import length_of


def evaluate(condition: Condition, context: Context, unit: Unit) -> Outcome:
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
    rule = Rule(
        2.0,
        share=condition.share_of or DEFAULT_SHARE,
        hold_seconds=length_of(condition.for_) if condition.for_ else None,
    )
    stretch = held(mask, finite, rule, context.clock)
    measure = context.signals[signal].unit
    about = dict(signal=signal, entity=unit.name, unit=measure, threshold=limit)
    side = "above" if up else "below"
    wanted = f"{figure(limit, measure)}{f' ({name})' if name else ''}"
    title = context.signals[signal].title
    if stretch is None:
        seen = series.values[finite]
        extreme = float(seen.max() if up else seen.min()) if len(seen) else None
        text = f"{title} stays {'at or below' if up else 'at or above'} {wanted} ({'highest' if up else 'lowest'} {figure(extreme, measure)})"
        return Outcome(False, text, observed=extreme, **about)  # type: ignore[arg-type]
    first, last = stretch
    inside = series.values[first : last + 1][mask[first : last + 1]]
    before = series.values[:first][np.isfinite(series.values[:first])]
    calm = float(np.median(before)) if len(before) >= 3 else None
    observed = float(np.median(inside))
    return Outcome(
        True,
        f"{title} is {side} {wanted}: {figure(observed, measure)}",
        first=first,
        last=last,
        baseline=calm,
        observed=observed,
        from_start=first < context.clock.calm_steps,
        **about,  # type: ignore[arg-type]
    )


def explain(condition: Condition) -> str:
    side, limit = ("above", condition.above) if condition.above is not None else ("below", condition.below)
    held_for = f" for {condition.for_}" if condition.for_ else ""
    often = f" in {condition.share_of:.0%} of the windows" if condition.share_of else ""
    return f"`{condition.signal}` {side} {limit}{held_for}{often}"


def promql(condition: Condition, rendering: Rendering) -> str | None:
    name = str(condition.signal)
    now = rendering.signal(name)
    if now is None:
        return None
    if condition.above is None:
        return f"{now} < {rendering.threshold(condition.below or 0.0)}"
    limit = rendering.threshold(condition.above)
    few = rendering.few(name, float(limit))
    return f"{now} > {limit}" if few is None else f"{now} > {limit}\nand {few}"
