"""above, below: an absolute limit, held long enough or in a share of the windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferdoc.catalogue.conditions import Level
from inferdoc.judging.conditions.render import Rendering, number
from inferdoc.judging.context import Ask, Context, Outcome, absent, rule_asked
from inferdoc.judging.deviation import LEAST_FINITE
from inferdoc.judging.order import row_medians, rows_of
from inferdoc.judging.stretches import NONE, held
from inferdoc.judging.view import Unit
from inferdoc.words import figure, reasons


def evaluate(condition: Level, context: Context, unit: Unit) -> Outcome:
    """Whether the signal lies beyond the limit for long enough or often enough."""
    return evaluate_rows(condition, context, [Ask(unit, context.split, context.last)])[0]


def evaluate_rows(condition: Level, context: Context, asks: Sequence[Ask]) -> list[Outcome]:
    """The same of many units at once."""
    signal = condition.signal
    series = [context.view.get(ask.unit, signal) for ask in asks]
    there = [(ask, one.values) for ask, one in zip(asks, series, strict=True) if one is not None]
    outcomes = iter(_beyond(condition, context, there) if there else ())
    return [absent(signal, ask.unit) if one is None else next(outcomes) for ask, one in zip(asks, series, strict=True)]


def lasts(condition: Level, context: Context) -> tuple[list[Unit], np.ndarray]:
    """The units of the view that have the signal, and for each the last step at which the condition holds, NONE where
    it does not: int64[units]. What `evaluate_rows` says of them without a split, in figures alone."""
    units, values = context.view.stack(condition.signal)
    if not units:
        return units, np.empty(0, np.int64)
    limits = np.array([context.number(condition.limit, unit)[0] for unit in units])
    finite = np.isfinite(values)
    mask = _outside(values, limits[:, np.newaxis], condition.up) & finite
    starts, ends = held(mask, finite, rule_asked(condition, 2.0), context.clock)
    return units, np.where(starts == NONE, NONE, ends)


def _outside(values: np.ndarray, limits: np.ndarray, up: bool) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.asarray(values > limits if up else values < limits)


def _beyond(condition: Level, context: Context, asked: Sequence[tuple[Ask, np.ndarray]]) -> list[Outcome]:
    up = condition.up
    asks, values = [ask for ask, _ in asked], rows_of([row for _, row in asked])
    limits = [context.number(condition.limit, ask.unit) for ask in asks]
    limit = np.array([figure for figure, _ in limits])[:, np.newaxis]
    splits = np.array([ask.split or 0 for ask in asks])[:, np.newaxis]
    known = np.isfinite(values)
    finite = known & (np.arange(values.shape[1]) >= splits)
    mask = finite & _outside(values, limit, up)
    starts, ends = held(mask, finite, rule_asked(condition, 2.0), context.clock)
    columns, begins = np.arange(values.shape[1]), starts[:, np.newaxis]
    holds = starts != NONE
    inside = mask & (columns >= begins) & (columns <= ends[:, np.newaxis])
    before = known & (columns < begins)
    observed = _medians(values, inside, holds)
    calm = _medians(values, before, holds & (before.sum(axis=1) >= LEAST_FINITE))
    farthest = np.where(finite, values, -np.inf if up else np.inf)
    extremes = farthest.max(axis=1) if up else farthest.min(axis=1)
    outcomes = []
    for row, (ask, (threshold, name)) in enumerate(zip(asks, limits, strict=True)):
        extreme = float(extremes[row]) if np.isfinite(extremes[row]) else None
        if not holds[row]:
            outcomes.append(_stays(condition, context, ask.unit, extreme, threshold, name))
            continue
        start = int(starts[row])
        usual = None if np.isnan(calm[row]) else float(calm[row])
        one = _lies(condition, context, ask.unit, usual, float(observed[row]), threshold, name)
        outcomes.append(one.but(first=start, last=int(ends[row]), from_start=start < context.clock.calm_steps))
    return outcomes


def _medians(values: np.ndarray, mask: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """float64[R]: of the values of a mask, in some of the rows; NaN in the others."""
    answer = np.full(len(values), np.nan)
    if rows.any():
        answer[rows] = row_medians(values[rows], mask[rows])
    return answer


def _wanted(limit: float, name: str, measure: str) -> str:
    return f"{figure(limit, measure)}{f' ({name})' if name else ''}"


def _stays(condition: Level, context: Context, unit: Unit, extreme: float | None, limit: float, name: str) -> Outcome:
    signal = condition.signal
    title, measure = context.signals[signal].title, context.signals[signal].unit
    side, farthest = ("at or below", "highest") if condition.up else ("at or above", "lowest")
    text = f"{title} stays {side} {_wanted(limit, name, measure)} ({farthest} {figure(extreme, measure)})"
    if measure == "bool":
        text = f"{title}: {figure(0.0 if condition.up else 1.0, measure)} throughout"
    elif context.signals[signal].bits:
        text = f"{title}: {reasons(extreme or 0.0, context.signals[signal].bits)} at most"
    return Outcome(False, text, signal, unit.name, measure, observed=extreme, threshold=limit)


def _lies(
    condition: Level, context: Context, unit: Unit, calm: float | None, observed: float, limit: float, name: str
) -> Outcome:
    signal = condition.signal
    title, measure = context.signals[signal].title, context.signals[signal].unit
    side = "above" if condition.up else "below"
    text = f"{title} is {side} {_wanted(limit, name, measure)}: {figure(observed, measure)}"
    if measure == "bool":
        text = f"{title}: {figure(observed, measure)}"
    elif context.signals[signal].bits:
        text = f"{title}: {reasons(observed, context.signals[signal].bits)}"
    return Outcome(True, text, signal, unit.name, measure, baseline=calm, observed=observed, threshold=limit)


def explain(condition: Level) -> str:
    """The condition in words."""
    side = "above" if condition.up else "below"
    held_for = f" for {condition.for_}" if condition.for_ else ""
    often = f" in {condition.share_of:.0%} of the windows" if condition.share_of else ""
    return f"`{condition.signal}` {side} {condition.limit}{held_for}{often}"


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
