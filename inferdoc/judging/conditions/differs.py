"""differs: the odd one out among like members: pods of a pool, ranks of a deployment, GPUs of a pod, classes of
requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from inferdoc.catalogue.conditions import Odd
from inferdoc.catalogue.span import deciding
from inferdoc.judging.clock import Rule
from inferdoc.judging.conditions.render import Rendering, number
from inferdoc.judging.context import Context, Outcome, UnitQuery, absent, rule_of_condition
from inferdoc.judging.deviation import STANDARD_ERRORS, Deviation, find_rows, parting, shift
from inferdoc.judging.order import medians_of_others, middles, rows_of
from inferdoc.judging.spans import NONE, holding
from inferdoc.words import figure


def evaluate_rows(condition: Odd, context: Context, queries: Sequence[UnitQuery]) -> list[Outcome]:
    """Whether a unit, or one GPU of its pod, stands off its like members by the factor, of many units at once."""
    answers: list[Outcome | list[_Compared]] = [_compared(condition, context, query) for query in queries]
    rows = [row for answer in answers if isinstance(answer, list) for row in answer]
    outcomes = iter(_odd(condition, context, rows) if rows else ())
    of_each = [[one] if isinstance(one, Outcome) else [next(outcomes) for _ in one] for one in answers]
    return [next((one for one in found if one.holds), found[0]) for found in of_each]


class _Compared(NamedTuple):
    """What an entity shows, and what its like: float64[T] each. split: of the episode that it is looked at in."""

    entity: str
    split: int | None
    own: np.ndarray
    usual: np.ndarray


def _compared(condition: Odd, context: Context, query: UnitQuery) -> Outcome | list[_Compared]:
    """The rows to compare of a unit, or the answer where there is nothing to compare, or only means."""
    signal, unit = condition.signal, query.unit
    title, measure, level = (getattr(context.signals[signal], name) for name in ("title", "unit", "level"))
    if level in ("gpu", "tenant"):
        parts = context.view.gpus(unit, signal) if level == "gpu" else context.view.tenants(unit, signal)
        if not parts:
            return absent(signal, unit)
        if len(parts) < 2:
            text = f"{title}: {next(iter(parts))} is alone, nothing to compare with"
            return Outcome(None, text, signal, unit.name, measure)
        others = medians_of_others(rows_of(list(parts.values())))
        return [
            _Compared(f"{unit.name} {name}", query.split, row, rest)
            for (name, row), rest in zip(parts.items(), others, strict=True)
        ]
    series = context.view.get(unit, signal)
    if series is None:
        return absent(signal, unit)
    usual = context.usual(signal, unit)
    if usual is None:
        return Outcome(None, f"{title}: no peer to compare with", signal, unit.name, measure)
    if condition.newly and query.split is None:
        return _parted(condition, context, unit.name, series.values, usual)
    if condition.average:
        return _on_average(condition, context.at(query.split, query.last), unit.name, series.values, usual)
    return [_Compared(unit.name, query.split, series.values, usual)]


def _odd(condition: Odd, context: Context, rows: Sequence[_Compared]) -> list[Outcome]:
    """Whether each row stands off the median of the others by the factor, and did not before."""
    factor, floor = condition.factor, context.signals[condition.signal].floor
    own, usual = rows_of([row.own for row in rows]), rows_of([row.usual for row in rows])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(
            usual > floor, own / np.maximum(usual, 1e-12), np.where(own > floor, own / max(floor, 1e-12), 1.0)
        )
        ratio = np.where(np.isfinite(own) & np.isfinite(usual), ratio, np.nan)
        seen = np.isfinite(ratio)
        finite = seen & (np.arange(own.shape[1]) >= np.array([row.split or 0 for row in rows])[:, np.newaxis])
        mask = finite & (np.abs(own - usual) > floor) & ((ratio >= factor) if factor >= 1 else (ratio <= factor))
    rule = rule_of_condition(condition, factor)
    starts, lasts = holding(mask, finite, rule, context.clock)
    stands = starts != NONE
    looked_at = np.where(stands[:, np.newaxis], mask, finite)
    own_now, usual_now = (_or_none(middles(values, looked_at)) for values in (own, usual))
    started: dict[int, Deviation | None] = {}
    whole = [row for row in np.flatnonzero(stands).tolist() if rows[row].split is None]
    if whole:
        newly = find_rows(ratio[whole], Rule(factor, share=rule.share), context.clock)
        started = {row: newly[place] for place, row in enumerate(whole)}
    outcomes = []
    for row, one in enumerate(rows):
        if not seen[row].any():
            outcomes.append(_unseen(condition, context, one.entity))
        elif not stands[row]:
            outcomes.append(_like(condition, context, one.entity, own_now[row], usual_now[row]))
        else:
            new, first = started.get(row), int(starts[row])
            apart = _apart(condition, context, one.entity, own_now[row], usual_now[row])
            begin = new.start if new else first
            from_start = new is None and not seen[row, :first].any()
            outcomes.append(apart.but(first=begin, last=int(lasts[row]), from_start=from_start))
    return outcomes


def _or_none(values: np.ndarray) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _unseen(condition: Odd, context: Context, entity: str) -> Outcome:
    signal = context.signals[condition.signal]
    text = f"{signal.title}: never seen together with a peer"
    return Outcome(None, text, condition.signal, entity, signal.unit)


def _like(condition: Odd, context: Context, entity: str, own: float | None, usual: float | None) -> Outcome:
    title, measure = context.signals[condition.signal].title, context.signals[condition.signal].unit
    text = f"{title} is like its peers' ({figure(own, measure)} against {figure(usual, measure)})"
    limit = condition.factor
    return Outcome(False, text, condition.signal, entity, measure, baseline=usual, observed=own, threshold=limit)


def _apart(condition: Odd, context: Context, entity: str, own: float | None, usual: float | None) -> Outcome:
    title, measure = context.signals[condition.signal].title, context.signals[condition.signal].unit
    text = f"{title} is {figure(own, measure)} against {figure(usual, measure)} of its peers"
    apart = Outcome(True, text, condition.signal, entity, measure, reference="peers")
    return apart.but(baseline=usual, observed=own, threshold=condition.factor)


def _on_average(condition: Odd, context: Context, entity: str, own: np.ndarray, usual: np.ndarray) -> Outcome:
    """Whether the mean over the episode stands off the peers' by the factor and by two standard errors."""
    signal, factor = condition.signal, condition.factor
    title, measure = context.signals[signal].title, context.signals[signal].unit
    start, stop = context.split or 0, context.view.steps if context.last is None else context.last + 1
    both = np.flatnonzero(np.isfinite(own) & np.isfinite(usual))
    both = both[(both >= start) & (both < stop)][:: -context.clock.window_steps]
    if len(both) < 3:
        return Outcome(None, f"{title}: too short to compare means", signal, entity, measure)
    mine, theirs = float(own[both].mean()), float(usual[both].mean())
    error = float(np.sqrt((own[both].var(ddof=1) + usual[both].var(ddof=1)) / len(both)))
    beyond = mine >= factor * theirs if factor >= 1 else mine <= factor * theirs
    holds = bool(
        beyond and abs(mine - theirs) >= STANDARD_ERRORS * error and abs(mine - theirs) > context.signals[signal].floor
    )
    text = f"{title} is {figure(mine, measure)} against {figure(theirs, measure)} of its peers on average"
    return Outcome(
        holds, text, signal, entity, measure, baseline=theirs, observed=mine, threshold=factor, reference="peers"
    )


PEERS_CHANCE = 0.01
"""At a split that the unit alone decided there is one comparison with its peers."""


def _parted(condition: Odd, context: Context, entity: str, own: np.ndarray, usual: np.ndarray) -> Outcome:
    """Whether the mean of a unit rose for good at some moment, and what it is beside its peers rose with it, to the
    factor and by it. Logarithms are compared: latencies swing by factors."""
    signal, factor, clock = condition.signal, condition.factor, context.clock
    title, measure, floor = (getattr(context.signals[signal], name) for name in ("title", "unit", "floor"))
    mine, theirs = (np.log(np.maximum(values, floor)) for values in (own, usual))
    found = parting(mine, clock, float(np.log(factor)))
    beside = None if found is None else shift(mine - theirs, found[0], len(own) - 1, clock)
    unchanged = f"{title} did not part from its peers'"
    if found is None or beside is None or not beside.is_beyond(PEERS_CHANCE):
        return Outcome(False, unchanged, signal, entity, measure)
    now = np.arange(len(own)) >= found[0]
    if min(found[1].after - found[1].before, beside.after, beside.after - beside.before) < np.log(factor):
        return Outcome(False, unchanged, signal, entity, measure)
    observed, baseline = (float(np.exp(np.nanmean(values[now]))) for values in (mine, theirs))
    last = int(np.flatnonzero(now & (mine - theirs >= np.log(factor)))[-1])
    return _apart(condition, context, entity, observed, baseline).but(first=found[0], last=last)


def explain(condition: Odd) -> str:
    """The condition in words."""
    side = "at least" if condition.factor >= 1 else "at most"
    newly = ", from some moment on" if condition.newly else ""
    return f"`{condition.signal}` {side} {condition.factor:g} times that of its peers{newly}"


AVERAGED = "15m"


def promql(condition: Odd, rendering: Rendering) -> str | None:
    """Against the mean of the like members, the member itself left out; that it is new the impact of a cause shows.
    Classes of requests come and go with their clients, so no rule compares them."""
    name, factor = condition.signal, condition.factor
    if rendering.level(name) == "tenant":
        return None
    now, like = rendering.signal(name), rendering.peers(name)
    if now is None or like is None:
        return None
    if condition.average:
        now = f"avg_over_time({rendering.over(name, AVERAGED)})"
    side, sign = (">", "+") if factor >= 1 else ("<", "-")
    by = max(condition.by or 0.0, rendering.signals[name].floor)
    decide = deciding(factor, by, factor >= 1, rendering.signals[name])
    lines = [f"{now} {side} {number(factor)} * {like}"] if "factor" in decide else []
    lines += [f"{now} {side} {like} {sign} {number(by)}"] if "by" in decide else []
    return "\nand ".join(lines)
