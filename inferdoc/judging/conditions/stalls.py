"""stalls: no progress of one signal while another shows that there is work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.catalogue.conditions import Stall
from inferdoc.judging.conditions.render import JOIN, Expression, Rendering
from inferdoc.judging.context import Context, Outcome, UnitQuery, absent
from inferdoc.judging.order import middles, rows_of
from inferdoc.judging.spans import runs
from inferdoc.judging.view import Unit
from inferdoc.times import length_of
from inferdoc.words import figure, within_sentence

MIN_SCRAPES = 5
LONGEST_GAP_FACTOR = 10
"""A stall must be ten times the longest pause that the engine showed while it was healthy."""
MOSTLY_ABORTED = 0.8
"""Conservation: of what was in the engine next to nothing is left. The share swings by what arrives within a scrape."""
HEALED_SECONDS = 120.0
"""A stall that ended, or of which no progress before is known, must have lasted for so long: a lone prompt of 128,000
tokens is computed for more than a minute without output."""


def evaluate_rows(condition: Stall, context: Context, queries: Sequence[UnitQuery]) -> list[Outcome]:
    """Whether progress stood at 0, with work waiting: the newest such stall, which may have ended, of many units at
    once. Splits make no difference, and what begins after the last step is left out."""
    seen = [
        (context.view.get(query.unit, condition.signal), context.view.get(query.unit, condition.work))
        for query in queries
    ]
    there = [(query, p.values, w.values) for query, (p, w) in zip(queries, seen, strict=True) if p and w]
    outcomes = iter(_evaluated(condition, context, there) if there else ())
    missing = [condition.signal if p is None else condition.work if w is None else None for p, w in seen]
    return [
        next(outcomes) if name is None else absent(name, query.unit)
        for query, name in zip(queries, missing, strict=True)
    ]


def _evaluated(
    condition: Stall, context: Context, there: Sequence[tuple[UnitQuery, np.ndarray, np.ndarray]]
) -> list[Outcome]:
    """there: units with their progress and their work."""
    progress, work = rows_of([p for _, p, _ in there]), rows_of([w for _, _, w in there])
    with np.errstate(invalid="ignore"):
        stuck = (progress == 0) & (work > 0)
    stalls: dict[int, _Stall] = {}
    shortest = length_of(condition.for_) if condition.for_ else 0.0
    for row in np.flatnonzero(stuck.sum(axis=1) >= 2).tolist():
        known, query = np.isfinite(progress[row] + work[row]), there[row][0]
        stall = _newest_stall(stuck[row], progress[row] > 0, known, context, shortest, query.last)
        if stall is not None and condition.stale == _is_stale(condition, context, query.unit, stall, work[row]):
            stalls[row] = stall
    begins = np.array([stalls[row].first if row in stalls else progress.shape[1] for row in range(len(there))])
    shown = np.isfinite(progress) & (np.arange(progress.shape[1]) < begins[:, np.newaxis])
    usual = middles(progress, shown).tolist()
    return [
        _stands(condition, context, query.unit, usual[row], stalls[row], work[row])
        if row in stalls
        else _moves(condition, context, query.unit, usual[row])
        for row, (query, _, _) in enumerate(there)
    ]


@dataclass(frozen=True)
class _Stall:
    """first, last: grid steps; zero_at: the first step at which the rate reads 0; from_start: nothing else was seen
    before it."""

    first: int
    last: int
    zero_at: int
    from_start: bool


def _newest_stall(
    stuck: np.ndarray,
    progresses: np.ndarray,
    is_known: np.ndarray,
    context: Context,
    shortest: float,
    until: int | None,
) -> _Stall | None:
    """The newest stall of one unit, of at least so many seconds, that begins by a step. bool[T] each. A step without a
    scrape neither ends a stall nor makes it longer."""
    clock = context.clock
    known = np.flatnonzero(is_known)
    # The rate is 0 only once the last progress has left the window: the stall started a window earlier.
    earlier = clock.window_steps - 1
    need, healed = clock.steps(shortest, MIN_SCRAPES), clock.steps(max(HEALED_SECONDS, shortest), MIN_SCRAPES)
    found, pause = None, 0
    for begin, stop in runs(stuck[known]):
        if until is not None and known[begin] > until:
            break
        length = stop - begin
        # Counters scraped for the first time include progress from before the first scrape.
        progressed = bool(progresses[known[:begin]].any()) or context.view.lead_kind == "lifetime"
        least = need if progressed and stop == len(known) else healed
        if length >= 2 and length + earlier >= max(least, LONGEST_GAP_FACTOR * pause):
            zero_at = int(known[begin])
            found = _Stall(max(0, zero_at - earlier), int(known[stop - 1]), zero_at, begin == 0)
        else:
            pause = max(pause, length)
    return found


def _is_stale(condition: Stall, context: Context, unit: Unit, stall: _Stall, work: np.ndarray) -> bool:
    """Whether what the gauge shows was aborted as progress stopped, and the gauge was not updated since: a load test
    that is cut leaves the last values behind until the next step."""
    aborted = context.view.get(unit, condition.aborts) if condition.aborts else None
    if aborted is None or not _is_frozen(stall, work):
        return False
    near = aborted.values[max(0, stall.first - context.clock.window_steps) : stall.zero_at + context.clock.window_steps]
    return bool((np.nan_to_num(near) >= MOSTLY_ABORTED).any())


def _is_frozen(stall: _Stall, work: np.ndarray) -> bool:
    stuck = work[stall.zero_at : stall.last + 1]
    return bool(np.nanmin(stuck) == np.nanmax(stuck))


def _moves(condition: Stall, context: Context, unit: Unit, usual: float) -> Outcome:
    signal = context.signals[condition.signal]
    text, observed = f"{signal.title} moves while there is work", None if math.isnan(usual) else usual
    return Outcome(False, text, condition.signal, unit.name, signal.unit, observed=observed)


def _stands(condition: Stall, context: Context, unit: Unit, usual: float, stall: _Stall, work: np.ndarray) -> Outcome:
    signal, title = context.signals[condition.signal], context.signals[condition.work]
    reads = f"{within_sentence(title.title)} reads {figure(float(work[stall.last]), title.unit)}"
    if condition.stale:
        reads += ", as many as were aborted when it stopped: the gauges may be stale"
    return Outcome(
        True,
        f"{signal.title} is 0 (usually {figure(usual, signal.unit)}) while {reads}",
        condition.signal,
        unit.name,
        signal.unit,
        first=stall.first,
        last=stall.last,
        baseline=None if math.isnan(usual) else usual,
        observed=0.0,
        threshold=0.0,
        from_start=stall.from_start,
        frozen=_is_frozen(stall, work),
    )


def explain(condition: Stall) -> str:
    """The condition in words."""
    stale = ", which was aborted: the gauge is stale" if condition.stale else ""
    lasts = f" for {condition.for_}" if condition.for_ else ""
    return f"`{condition.signal}` is 0 while `{condition.work}` is above 0{lasts}{stale}"


def promql(condition: Stall, rendering: Rendering) -> str | None:
    """No progress now, and work now; whether the work was aborted before no rule can see."""
    if condition.stale or condition.for_:
        return None
    progress, work = rendering.signal(condition.signal), rendering.signal(condition.work)
    if progress is None or work is None:
        return None
    first, second = JOIN[rendering.level(condition.signal)], JOIN[rendering.level(condition.work)]
    return Expression(f"{progress} == 0", first).joined("and", Expression(f"{work} > 0", second)).text
