"""turns: a stepwise signal (a number of replicas) changes its direction again and again."""

from __future__ import annotations

import numpy as np

from inferdoc.catalogue.conditions import Turns
from inferdoc.judging.conditions.render import Rendering
from inferdoc.judging.context import Context, Outcome, absent
from inferdoc.judging.view import Unit

HOUR = 3600.0


def turning_points(values: np.ndarray, floor: float) -> list[int]:
    """Steps of float64[T] at which the direction changes: a move of at least `floor` against the one before. NaN are
    left out."""
    least = max(floor, 1e-9)
    turns: list[int] = []
    direction, extreme = 0, float("nan")
    for step in np.flatnonzero(np.isfinite(values)).tolist():
        value = float(values[step])
        if direction == 0:
            if np.isnan(extreme):
                extreme = value
            elif abs(value - extreme) >= least:
                direction, extreme = (1 if value > extreme else -1), value
        elif (value - extreme) * direction > 0:
            extreme = value
        elif abs(value - extreme) >= least:
            direction, extreme = -direction, value
            turns.append(step)
    return turns


def _rhythm_from(values: np.ndarray, turns: list[int], floor: float) -> int:
    """The step of the move with which the rhythm of the turns begins: back from the second turn, as long as the moves
    follow each other as closely as they do after it. Moves long before, with a load that changed, are none of it."""
    if len(turns) < 3:
        return turns[0]
    known = np.flatnonzero(np.isfinite(values))
    moves = known[1:][np.abs(np.diff(values[known])) >= max(floor, 1e-9)]
    apart = int(np.diff(moves[(moves >= turns[1]) & (moves <= turns[-1])]).max(initial=0))
    started = turns[1]
    for move in moves[moves < turns[1]][::-1].tolist():
        if started - move > apart:
            break
        started = move
    return started


def evaluate(condition: Turns, context: Context, unit: Unit) -> Outcome:
    """Whether the direction changes at least so many times within an hour. The episode begins with the first swing of
    the rhythm."""
    signal, needed = condition.signal, condition.times
    series = context.view.get(unit, signal)
    if series is None:
        return absent(signal, unit)
    title, measure = context.signals[signal].title, context.signals[signal].unit
    start = context.split or 0
    turns = [start + step for step in turning_points(series.values[start:], context.signals[signal].floor)]
    times = [context.view.time_at(step) for step in turns]
    for i in range(len(turns) - needed + 1):
        if times[i + needed - 1] - times[i] <= HOUR:
            inside = sum(1 for t in times[i:] if t - times[i] <= HOUR)
            text = f"{title} changes its direction {inside} times within an hour"
            floor = context.signals[signal].floor
            started = start + _rhythm_from(series.values[start:], [t - start for t in turns[i:]], floor)
            return Outcome(
                True, text, signal, unit.name, measure, first=started, last=turns[-1],
                observed=float(inside), threshold=float(needed),
            )  # fmt: skip
    text = f"{title} changes its direction {len(turns)} times"
    return Outcome(False, text, signal, unit.name, measure, observed=float(len(turns)), threshold=float(needed))


def explain(condition: Turns) -> str:
    """The condition in words."""
    return f"`{condition.signal}` changes its direction at least {condition.times} times within an hour"


def promql(condition: Turns, rendering: Rendering) -> str | None:
    """PromQL counts changes, not turns: a ramp in steps would look the same."""
    return None
