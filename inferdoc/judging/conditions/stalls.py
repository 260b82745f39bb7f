"""stalls: no progress of one signal while another shows that there is work."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from inferdoc.catalogue.conditions import Stall
from inferdoc.judging.conditions.render import JOIN, Rendering, Said
from inferdoc.judging.context import Ask, Context, Outcome, absent
from inferdoc.judging.order import middles, rows_of
from inferdoc.judging.view import Unit
from inferdoc.judging.words import figure, within_sentence

MIN_SCRAPES = 5
LONGEST_GAP_FACTOR = 10
"""A stall must be ten times the longest pause that the engine showed while it was well."""


def evaluate(condition: Stall, context: Context, unit: Unit) -> Outcome:
    """Whether progress has stood at 0, with work waiting, up to the newest value."""
    return evaluate_rows(condition, context, [Ask(unit, context.split, context.last)])[0]


def evaluate_rows(condition: Stall, context: Context, asks: Sequence[Ask]) -> list[Outcome]:
    """The same of many units at once; splits make no difference."""
    seen = [(context.view.get(ask.unit, condition.signal), context.view.get(ask.unit, condition.work)) for ask in asks]
    there = [(ask.unit, p.values, w.values) for ask, (p, w) in zip(asks, seen, strict=True) if p and w]
    outcomes = iter(_stood(condition, context, there) if there else ())
    missing = [condition.signal if p is None else condition.work if w is None else None for p, w in seen]
    return [next(outcomes) if name is None else absent(name, ask.unit) for ask, name in zip(asks, missing, strict=True)]


def _stood(condition: Stall, context: Context, there: Sequence[tuple[Unit, np.ndarray, np.ndarray]]) -> list[Outcome]:
    """there: units with their progress and their work."""
    progress, work = rows_of([p for _, p, _ in there]), rows_of([w for _, _, w in there])
    with np.errstate(invalid="ignore"):
        stuck = (progress == 0) & (work > 0)
        moved = progress > 0
        is_known = np.isfinite(progress + work)
    last = _last(is_known)
    columns, rows = np.arange(progress.shape[1]), np.arange(len(there))
    # Only what is seen ends a stall: a step without a scrape tells of no progress, and adds nothing to its length.
    free = np.maximum.accumulate(np.where(is_known & ~stuck, columns, -1), axis=1)
    counted = np.cumsum(stuck, axis=1)
    stood = counted - np.where(free < 0, 0, np.take_along_axis(counted, np.maximum(free, 0), axis=1))
    length = stood[rows, last]
    begin = (stuck & (columns > free[rows, last][:, np.newaxis])).argmax(axis=1)
    # The rate is 0 only once the last progress has left the window: the stall began a window earlier.
    earlier = context.clock.window_steps - 1
    before = columns < begin[:, np.newaxis]
    longest = np.where(before, stood, 0).max(axis=1, initial=0)
    need = np.maximum(context.clock.steps(0, MIN_SCRAPES), LONGEST_GAP_FACTOR * longest)
    # What was scraped for the first time has answered before anybody looked.
    answered = (moved & before).any(axis=1) | (context.view.lead_kind == "lifetime")
    stands = answered & (length + earlier >= need) & (length >= 2)
    first = np.maximum(0, begin - earlier)
    shown = np.isfinite(progress) & (~stands[:, np.newaxis] | (columns < first[:, np.newaxis]))
    usual = middles(progress, shown).tolist()
    return [
        _stands(condition, context, unit, usual[row], int(first[row]), int(last[row]), float(work[row, last[row]]))
        if stands[row]
        else _moves(condition, context, unit, usual[row])
        for row, (unit, _, _) in enumerate(there)
    ]


def _moves(condition: Stall, context: Context, unit: Unit, usual: float) -> Outcome:
    signal = context.signals[condition.signal]
    text, observed = f"{signal.title} moves while there is work", None if math.isnan(usual) else usual
    return Outcome(False, text, condition.signal, unit.name, signal.unit, observed=observed)


def _stands(
    condition: Stall, context: Context, unit: Unit, usual: float, first: int, last: int, work_left: float
) -> Outcome:
    signal, work = context.signals[condition.signal], context.signals[condition.work]
    return Outcome(
        True,
        f"{signal.title} stands at 0 (usually {figure(usual, signal.unit)}) while {within_sentence(work.title)} reads "
        f"{figure(work_left, work.unit)}",
        condition.signal,
        unit.name,
        signal.unit,
        first=first,
        last=last,
        baseline=None if math.isnan(usual) else usual,
        observed=0.0,
        threshold=0.0,
    )


def _last(there: np.ndarray) -> np.ndarray:
    """int64[R]: the newest step of each row at which there is something, 0 where there never is."""
    return np.where(there.any(axis=1), there.shape[1] - 1 - there[:, ::-1].argmax(axis=1), 0)


def explain(condition: Stall) -> str:
    """The condition in words."""
    return f"`{condition.signal}` stands at 0 while `{condition.work}` is above 0"


def promql(condition: Stall, rendering: Rendering) -> str | None:
    """No progress now, and work now."""
    progress, work = rendering.signal(condition.signal), rendering.signal(condition.work)
    if progress is None or work is None:
        return None
    first, second = JOIN[rendering.level(condition.signal)], JOIN[rendering.level(condition.work)]
    return Said(f"{progress} == 0", first).joined("and", Said(f"{work} > 0", second)).text
