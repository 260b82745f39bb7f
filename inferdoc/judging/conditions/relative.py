"""rises, falls: against the calm part before the change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inferdoc.catalogue.recipe import Condition
from inferdoc.judging.conditions.render import Rendering, number
from inferdoc.judging.context import Context, Outcome, absent, quiet, rule_asked
from inferdoc.judging.excursion import STANDARD_ERRORS, Excursion, Rule, against, shift
from inferdoc.judging.view import Trace, Unit
from inferdoc.judging.words import figure


def rule_of(condition: Condition, context: Context) -> Rule:
    """The rule a rises or falls condition asks for; the signal's floor is the least it must move."""
    ratio = condition.rises if condition.rises is not None else condition.falls
    floor = context.signals[str(condition.signal)].floor
    return rule_asked(condition, float(ratio or 1.0), by=max(condition.by or 0.0, floor))


def evaluate(condition: Condition, context: Context, unit: Unit) -> Outcome:
    """Whether the signal left its calm, upwards or downwards, by the factor."""
    signal = str(condition.signal)
    series = context.view.get(unit, signal)
    if series is None:
        return absent(signal, unit)
    rule = rule_of(condition, context)
    if condition.average:
        return _averaged(signal, series, rule, context, unit)
    if context.split is None:
        found = context.excursion(signal, unit, rule)
    else:
        found = against(_baseline(signal, context, unit, rule), context.split, rule, context.clock, series.counts)
    if found is not None and _within_one_bucket(found, series):
        found = None
    measure = context.signals[signal].unit
    title = context.signals[signal].title
    if found is None:
        calm = quiet(_baseline(signal, context, unit, rule)[: context.split])
        if context.split is not None and context.split < context.clock.calm_steps:
            return Outcome(None, f"{title}: no baseline to compare with", signal, unit.name, measure)
        moved = "rise" if rule.up else "fall"
        return Outcome(
            False,
            f"{title} does not {moved} (baseline {figure(calm, measure)})",
            signal,
            unit.name,
            measure,
            baseline=calm,
        )
    moved = "rose" if rule.up else "fell"
    return Outcome(
        True,
        f"{title} {moved} from {figure(found.calm, measure)} to {figure(found.observed, measure)}",
        signal,
        unit.name,
        measure,
        first=found.start,
        last=found.last,
        baseline=found.calm,
        observed=found.observed,
        threshold=found.band,
        reference=context.rung(unit, found.start),
    )


def _baseline(signal: str, context: Context, unit: Unit, rule: Rule) -> np.ndarray:
    values = context.baseline(signal, unit, rule)
    assert values is not None
    return values


def _within_one_bucket(found: Excursion, series: Trace) -> bool:
    """A quantile read off buckets must move by more than one bucket: inside two neighbours it is interpolation."""
    if series.bounds is None:
        return False
    before, now = (int((series.bounds < value).sum()) for value in (found.calm, found.observed))
    return abs(now - before) < 2


def _averaged(signal: str, series: Trace, rule: Rule, context: Context, unit: Unit) -> Outcome:
    measure, title = context.signals[signal].unit, context.signals[signal].title
    if context.split is None:
        return Outcome(None, f"{title}: no split to compare means at", signal, unit.name, measure)
    last = context.view.steps - 1 if context.last is None else context.last
    moved = shift(_baseline(signal, context, unit, rule), context.split, last, context.clock)
    if moved is None:
        return Outcome(None, f"{title}: no baseline to compare with", signal, unit.name, measure)
    limit = (
        max(moved.before * rule.ratio, moved.before + rule.by)
        if rule.up
        else min(moved.before * rule.ratio, moved.before - rule.by)
    )
    beyond = moved.after >= limit if rule.up else moved.after <= limit
    holds = beyond and abs(moved.errors) >= STANDARD_ERRORS
    text = f"{title} goes from {figure(moved.before, measure)} to {figure(moved.after, measure)} on average"
    before, after = moved.before, moved.after
    outcome = Outcome(holds, text, signal, unit.name, measure, baseline=before, observed=after, threshold=limit)
    return replace(outcome.during(context.split, last), reference=context.rung(unit, context.split))


def explain(condition: Condition) -> str:
    """The condition in words."""
    if condition.rises is not None:
        words = f"`{condition.signal}` rises to {condition.rises:g} times its baseline"
    else:
        words = f"`{condition.signal}` falls to {condition.falls:g} times its baseline"
    if condition.by:
        words += f" and by at least {condition.by:g}"
    return words + (" on average" if condition.average else "")


AVERAGED = "15m"


def promql(condition: Condition, rendering: Rendering) -> str | None:
    """Against the median of the history: by the factor, by the floor and, except for means, beyond its swing."""
    name, up = str(condition.signal), condition.rises is not None
    over, usual = rendering.over(name, AVERAGED), rendering.usual(name)
    now = f"avg_over_time({over})" if condition.average else rendering.signal(name)
    edge = None if condition.average else rendering.edge(name, up)
    if now is None or usual is None:
        return None
    side, sign = (">", "+") if up else ("<", "-")
    by = max(condition.by or 0.0, rendering.signals[name].floor)
    lines = [f"{now} {side} {number(condition.rises or condition.falls or 0.0)} * {usual}"]
    lines += [f"{now} {side} {usual} {sign} {number(by)}"] if by else []
    lines += [f"{now} {side} {edge}"] if edge else []
    return "\nand ".join(lines)
