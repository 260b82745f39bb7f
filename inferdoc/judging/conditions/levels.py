"""above, below: an absolute limit, exceeded long enough or in a share of the windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferdoc.catalogue.conditions import Level
from inferdoc.judging.clock import Clock
from inferdoc.judging.conditions.render import FEWEST_EVENTS, MIN_OBSERVATIONS, Rendering, number
from inferdoc.judging.context import Context, Outcome, UnitQuery, absent, rule_of_condition
from inferdoc.judging.deviation import LEAST_FINITE
from inferdoc.judging.order import row_medians, rows_of
from inferdoc.judging.spans import NONE, holding, runs
from inferdoc.judging.view import Unit
from inferdoc.words import figure


def evaluate_rows(condition: Level, context: Context, queries: Sequence[UnitQuery]) -> list[Outcome]:
    """Whether the signal lies beyond the limit for long enough or often enough, of many units at once."""
    signal = condition.signal
    series = [context.view.get(query.unit, signal) for query in queries]
    there = [(query, one.values) for query, one in zip(queries, series, strict=True) if one is not None]
    outcomes = iter(_beyond(condition, context, there) if there else ())
    return [
        absent(signal, query.unit) if one is None else next(outcomes)
        for query, one in zip(queries, series, strict=True)
    ]


def lasts(condition: Level, context: Context) -> tuple[list[Unit], np.ndarray]:
    """The units of the view that have the signal, and for each the last step at which the condition holds, NONE where
    it does not: int64[units]. What `evaluate_rows` says of them without a split, in figures alone."""
    units, values = context.view.stack(condition.signal)
    if not units:
        return units, np.empty(0, np.int64)
    limits = np.array([context.number(condition.limit, unit)[0] for unit in units])
    _, starts, ends = _ranges(condition, context, units, values, limits, np.isfinite(values))
    return units, np.where(starts == NONE, NONE, ends)


def _ranges(
    condition: Level, context: Context, units: Sequence[Unit], values: np.ndarray, limits: np.ndarray, seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where units are beyond the limit, bool[R, T], and the first and last step of the range in which that lasts,
    int64[R] each, NONE where it does not. values: float64[R, T]; limits: float64[R]; seen: bool[R, T], the steps that
    are looked at."""
    mask = _outside(values, limits[:, np.newaxis], condition.up) & seen
    starts, ends = holding(mask, seen, rule_of_condition(condition, 2.0), context.clock)
    small = condition.up and context.signals[condition.signal].unit == "ratio"
    counts = context.counts(condition.signal, units) if small and mask.any() else None
    if counts is not None:
        few = mask.any(axis=1) & np.isfinite(counts).any(axis=1) & (limits * MIN_OBSERVATIONS < FEWEST_EVENTS)
        for row in np.flatnonzero(few):
            range_ = starts[row], ends[row]
            starts[row], ends[row] = _of_events(values[row], counts[row], seen[row], limits[row], range_, context.clock)
    return mask, starts, ends


def _of_events(
    shares: np.ndarray, counts: np.ndarray, seen: np.ndarray, limit: float, range_: tuple[int, int], clock: Clock
) -> tuple[int, int]:
    """First and last step in which enough events make up a share beyond a small limit; NONE without. Each event lasts
    for no longer than a rate window shows it, so their number is the proof and not the number of windows that are
    beyond the limit: those of range_, else all from the first one to the last, where they exceed the limit together.
    shares, counts: float64[T]; seen: bool[T]."""
    known, events = np.flatnonzero(seen & np.isfinite(counts)), np.where(seen, np.nan_to_num(shares * counts), 0.0)
    ranges = [range_] if range_[0] != NONE else []
    for begin, stop in runs(shares[known] > 0):
        first, last = int(known[begin]), int(known[stop - 1])
        enough = events[first : last + 1].sum() > limit * np.nansum(counts[first : last + 1])
        ranges += [(first, last)] if enough and last - first + 1 >= clock.out_steps else []
    for first, last in ranges:
        inside = events[first : last + 1]
        if round(max(inside.sum() / clock.window_steps, inside.max())) >= FEWEST_EVENTS:
            return first, last
    return NONE, NONE


def _outside(values: np.ndarray, limits: np.ndarray, up: bool) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.asarray(values > limits if up else values < limits)


def _beyond(condition: Level, context: Context, required: Sequence[tuple[UnitQuery, np.ndarray]]) -> list[Outcome]:
    up = condition.up
    queries, values = [query for query, _ in required], rows_of([row for _, row in required])
    limits = [context.number(condition.limit, query.unit) for query in queries]
    splits = np.array([query.split or 0 for query in queries])[:, np.newaxis]
    known = np.isfinite(values)
    finite = known & (np.arange(values.shape[1]) >= splits)
    units, figures = [query.unit for query in queries], np.array([figure for figure, _ in limits])
    mask, starts, ends = _ranges(condition, context, units, values, figures, finite)
    columns, begins = np.arange(values.shape[1]), starts[:, np.newaxis]
    holds = starts != NONE
    inside = mask & (columns >= begins) & (columns <= ends[:, np.newaxis])
    before = known & (columns < begins)
    observed = _medians(values, inside, holds)
    baseline = _medians(values, before, holds & (before.sum(axis=1) >= LEAST_FINITE))
    farthest = np.where(finite, values, -np.inf if up else np.inf)
    extremes = farthest.max(axis=1) if up else farthest.min(axis=1)
    outcomes = []
    for row, (query, (threshold, name)) in enumerate(zip(queries, limits, strict=True)):
        extreme = float(extremes[row]) if np.isfinite(extremes[row]) else None
        if not holds[row]:
            outcomes.append(_stays(condition, context, query.unit, extreme, threshold, name))
            continue
        start = int(starts[row])
        usual = None if np.isnan(baseline[row]) else float(baseline[row])
        one = _lies(condition, context, query.unit, usual, float(observed[row]), threshold, name)
        outcomes.append(one.but(first=start, last=int(ends[row]), from_start=start < context.clock.baseline_steps))
    return outcomes


def _medians(values: np.ndarray, mask: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """float64[R]: of the values of a mask, in some of the rows; NaN in the others."""
    answer = np.full(len(values), np.nan)
    if rows.any():
        answer[rows] = row_medians(values[rows], mask[rows])
    return answer


def _limit_text(limit: float, name: str, measure: str) -> str:
    return f"{figure(limit, measure)}{f' ({name})' if name else ''}"


def _stays(condition: Level, context: Context, unit: Unit, extreme: float | None, limit: float, name: str) -> Outcome:
    signal = condition.signal
    title, measure = context.signals[signal].title, context.signals[signal].unit
    side, farthest = ("at or below", "highest") if condition.up else ("at or above", "lowest")
    text = f"{title} stays {side} {_limit_text(limit, name, measure)} ({farthest} {figure(extreme, measure)})"
    if measure == "bool":
        text = f"{title}: {figure(0.0 if condition.up else 1.0, measure)} throughout"
    elif measure == "bits":
        text = f"{title}: {figure(extreme or 0.0, measure)} at most"
    return Outcome(False, text, signal, unit.name, measure, observed=extreme, threshold=limit)


def _lies(
    condition: Level, context: Context, unit: Unit, baseline: float | None, observed: float, limit: float, name: str
) -> Outcome:
    signal = condition.signal
    title, measure = context.signals[signal].title, context.signals[signal].unit
    side = "above" if condition.up else "below"
    text = f"{title} is {side} {_limit_text(limit, name, measure)}: {figure(observed, measure)}"
    if measure in ("bool", "bits"):
        text = f"{title}: {figure(observed, measure)}"
    return Outcome(True, text, signal, unit.name, measure, baseline=baseline, observed=observed, threshold=limit)


def explain(condition: Level) -> str:
    """The condition in words."""
    side = "above" if condition.up else "below"
    duration_text = f" for {condition.for_}" if condition.for_ else ""
    often = f" in {condition.share_of:.0%} of the windows" if condition.share_of else ""
    return f"`{condition.signal}` {side} {condition.limit}{duration_text}{often}"


def promql(condition: Level, rendering: Rendering) -> str | None:
    """The signal against the limit, with as much traffic as makes it mean something."""
    parts = []
    for those, limit in rendering.by_limit(condition.limit, condition.signal):
        now = those.signal(condition.signal)
        if now is None:
            return None
        few = those.few(condition.signal, limit) if condition.up else None
        beyond = f"{now} {'>' if condition.up else '<'} {number(limit)}"
        parts.append(beyond if few is None else f"{beyond}\nand {few}")
    return "\nor ".join(parts)
