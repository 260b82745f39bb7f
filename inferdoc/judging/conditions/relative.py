"""rises, falls: against the baseline part before the change."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from inferdoc.catalogue.conditions import Move
from inferdoc.catalogue.span import deciding
from inferdoc.judging.clock import Rule
from inferdoc.judging.conditions.render import Rendering, number
from inferdoc.judging.context import Context, Outcome, UnitQuery, absent, rule_of_condition
from inferdoc.judging.deviation import (
    STANDARD_ERRORS,
    Deviation,
    Shift,
    against_rows,
    needed_observations,
    observations,
    shifts,
)
from inferdoc.judging.order import middles
from inferdoc.judging.spans import NONE
from inferdoc.judging.view import Trace, Unit
from inferdoc.words import figure


def rule_of(condition: Move, context: Context) -> Rule:
    """The rule a rises or falls condition requires; the signal's floor is the least it must move."""
    floor = context.signals[condition.signal].floor
    return rule_of_condition(condition, condition.ratio, by=max(condition.by or 0.0, floor))


def lasts(condition: Move, context: Context) -> tuple[list[Unit], np.ndarray]:
    """The units of the view that have the signal, and for each the last step of its move, NONE where it has none:
    int64[units]. What `evaluate_rows` says of them without a split, in figures alone; of means nothing is known."""
    signal, units = condition.signal, context.view.stack(condition.signal)[0]
    found = context.deviations(signal, units, rule_of(condition, context)) if not condition.average else ()
    ends = np.full(len(units), NONE)
    for row, (unit, one) in enumerate(zip(units, found, strict=False)):
        if one is not None and not _within_one_bucket(one, context.view.get(unit, signal)):
            ends[row] = one.last
    return units, ends


def evaluate_rows(condition: Move, context: Context, queries: Sequence[UnitQuery]) -> list[Outcome]:
    """Whether the signal left its baseline, upwards or downwards, by the factor, of many units at once."""
    signal, outcomes = condition.signal, dict[UnitQuery, Outcome]()
    shown = [query for query in dict.fromkeys(queries) if context.view.get(query.unit, signal) is not None]
    for is_whole in (True, False):
        some = [query for query in shown if (query.split is None) is is_whole]
        compare = _without_split if is_whole else _means if condition.average else _after_split
        outcomes |= zip(some, compare(condition, context, some) if some else (), strict=True)
    return [outcomes.get(query) or absent(signal, query.unit) for query in queries]


def _without_split(condition: Move, context: Context, queries: Sequence[UnitQuery]) -> list[Outcome]:
    """What leaves its baseline at a moment of its own."""
    signal, rule, units = condition.signal, rule_of(condition, context), [query.unit for query in queries]
    if condition.average:
        text = f"{context.signals[signal].title}: no split to compare means at"
        return [Outcome(None, text, signal, unit.name, context.signals[signal].unit) for unit in units]
    found = context.deviations(signal, units, rule)
    return _moved_rows(signal, context, queries, rule, found, context.baselines(signal, units, rule))


def _after_split(condition: Move, context: Context, queries: Sequence[UnitQuery]) -> list[Outcome]:
    signal, rule = condition.signal, rule_of(condition, context)
    values, counts, splits = _around(condition, context, queries)
    rows = against_rows(values, splits, rule, context.clock, counts)
    return _moved_rows(signal, context, queries, rule, [rows[row] for row in range(len(queries))], values)


def _means(condition: Move, context: Context, queries: Sequence[UnitQuery]) -> list[Outcome]:
    values, counts, splits = _around(condition, context, queries)
    lasts = np.array([context.view.steps - 1 if query.last is None else query.last for query in queries])
    steps = np.arange(values.shape[1])
    inside = (steps >= splits[:, np.newaxis]) & (steps <= lasts[:, np.newaxis])
    events = np.full(len(queries), np.inf) if counts is None else observations(counts, inside, context.clock)
    rule = rule_of(condition, context)
    each = zip(queries, shifts(values, splits, lasts, context.clock), events.tolist(), strict=True)
    return [_averaged(condition.signal, context, query, rule, moved, seen) for query, moved, seen in each]


def _around(
    condition: Move, context: Context, queries: Sequence[UnitQuery]
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """The values and their counts, float64[queries, T], and the splits at which they are compared: int64[queries]."""
    signal, units = condition.signal, [query.unit for query in queries]
    values = context.baselines(signal, units, rule_of(condition, context))
    values = np.where(values == 0, np.nan, values) if condition.busy else values
    return values, context.counts(signal, units), np.array([query.split for query in queries])


def _moved_rows(
    signal: str,
    context: Context,
    queries: Sequence[UnitQuery],
    rule: Rule,
    found: Sequence[Deviation | None],
    values: np.ndarray,
) -> list[Outcome]:
    """What the deviations say. values: float64[queries, T], in which they were looked for."""
    splits = np.array([values.shape[1] if query.split is None else query.split for query in queries], np.int64)
    before = np.isfinite(values) & (np.arange(values.shape[1]) < splits[:, np.newaxis])
    return [
        _stayed(signal, context, query, rule, baseline)
        if one is None or _within_one_bucket(one, context.view.get(query.unit, signal))
        else _moved(signal, context, query, rule, one)
        for query, one, baseline in zip(queries, found, middles(values, before).tolist(), strict=True)
    ]


def _stayed(signal: str, context: Context, query: UnitQuery, rule: Rule, baseline: float) -> Outcome:
    """baseline: the median of what a unit showed before the split, NaN for none."""
    title, measure, name = context.signals[signal].title, context.signals[signal].unit, query.unit.name
    if query.split is not None and query.split < context.clock.baseline_steps:
        return Outcome(None, f"{title}: no baseline to compare with", signal, name, measure)
    usual = None if math.isnan(baseline) else baseline
    text = f"{title} does not {'rise' if rule.up else 'fall'} (baseline {figure(usual, measure)})"
    return Outcome(False, text, signal, name, measure, baseline=usual)


def _moved(signal: str, context: Context, query: UnitQuery, rule: Rule, found: Deviation) -> Outcome:
    title, measure, unit = context.signals[signal].title, context.signals[signal].unit, query.unit
    moved = "rose" if rule.up else "fell"
    return Outcome(
        True,
        f"{title} {moved} from {figure(found.baseline, measure)} to {figure(found.observed, measure)}",
        signal,
        unit.name,
        measure,
        first=found.start,
        last=found.last,
        baseline=found.baseline,
        observed=found.observed,
        threshold=found.band,
        reference=context.reference(unit, found.start),
    )


def _within_one_bucket(found: Deviation, series: Trace | None) -> bool:
    """A quantile read off buckets must move by more than one bucket: inside two neighbours it is interpolation."""
    if series is None or series.bounds is None:
        return False
    before, now = (int((series.bounds < value).sum()) for value in (found.baseline, found.observed))
    return abs(now - before) < 2


def _averaged(
    signal: str, context: Context, query: UnitQuery, rule: Rule, moved: Shift | None, events: float
) -> Outcome:
    measure, title = context.signals[signal].unit, context.signals[signal].title
    if moved is None or query.split is None:
        return Outcome(None, f"{title}: no baseline to compare with", signal, query.unit.name, measure)
    ratio, by = moved.before * rule.ratio, moved.before + (rule.by if rule.up else -rule.by)
    limit = max(ratio, by) if rule.up else min(ratio, by)
    far, near = (moved.after, moved.before) if rule.up else (moved.before, moved.after)
    holds = (
        (far >= limit if rule.up else near <= limit)
        and abs(moved.errors) >= STANDARD_ERRORS
        and events >= float(needed_observations(far, near))
    )
    before, after = moved.before, moved.after
    if measure.endswith("/s"):  # aborted requests leave a gauge without being counted as finished
        before, after = max(0.0, before), max(0.0, after)
    text = f"{title} goes from {figure(before, measure)} to {figure(after, measure)} on average"
    return Outcome(
        holds,
        text,
        signal,
        query.unit.name,
        measure,
        first=query.split if holds else None,
        last=(context.view.steps - 1 if query.last is None else query.last) if holds else None,
        baseline=before,
        observed=after,
        threshold=limit,
        reference=context.reference(query.unit, query.split),
    )


def explain(condition: Move) -> str:
    """The condition in words."""
    factor = "" if condition.ratio == 1.0 else f" to {condition.ratio:g} times its baseline"
    least = f" by at least {condition.by:g}" if condition.by else ""
    words = f"`{condition.signal}` {'rises' if condition.up else 'falls'}{' and'.join(filter(None, (factor, least)))}"
    return words + (" on average" if condition.average else "") + (" while there is any" if condition.busy else "")


AVERAGED = "15m"


def promql(condition: Move, rendering: Rendering) -> str | None:
    """Against the median of the history: by the factor, by the floor and, except for means, beyond its swing. Of factor
    and floor only what can decide, and of what is on or off the floor alone."""
    name, up = condition.signal, condition.up
    over, usual = rendering.over(name, AVERAGED), rendering.usual(name, None if condition.average else up)
    now = f"avg_over_time({over})" if condition.average else rendering.signal(name)
    edge = None if condition.average else rendering.edge(name, up)
    if now is None or usual is None:
        return None
    side, sign = (">", "+") if up else ("<", "-")
    by = max(condition.by or 0.0, rendering.signals[name].floor)
    decide = deciding(condition.ratio, by, up, rendering.signals[name])
    lines = [f"{now} {side} {number(condition.ratio)} * {usual}"] if "factor" in decide else []
    lines += [f"{now} {side} {usual} {sign} {number(by)}"] if "by" in decide else []
    lines += [f"{now} {side} {edge}"] if edge else []
    lines = lines or [f"{now} {side} {usual}"]
    return "\nand ".join(lines)
