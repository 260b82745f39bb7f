"""differs: the odd one out among like members: pods of a pool, ranks of a deployment, GPUs of a pod, classes of
requests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from inferdoc.catalogue.conditions import Odd
from inferdoc.judging.clock import Rule
from inferdoc.judging.conditions.render import Rendering, number
from inferdoc.judging.context import Context, Outcome, absent, quiet, rule_asked
from inferdoc.judging.deviation import find
from inferdoc.judging.order import medians_of_others
from inferdoc.judging.shift import STANDARD_ERRORS
from inferdoc.judging.stretches import NONE, held
from inferdoc.judging.view import Unit
from inferdoc.judging.words import figure


def evaluate(condition: Odd, context: Context, unit: Unit) -> Outcome:
    """Whether a unit, or one GPU of its pod, stands off its like members by the factor."""
    signal = condition.signal
    level = context.signals[signal].level
    if level in ("gpu", "tenant"):
        parts = context.view.gpus(unit, signal) if level == "gpu" else context.view.tenants(unit, signal)
        return _among_parts(condition, context, unit, parts)
    series = context.view.get(unit, signal)
    if series is None:
        return absent(signal, unit)
    usual = context.usual(signal, unit)
    title, measure = context.signals[signal].title, context.signals[signal].unit
    if usual is None:
        return Outcome(None, f"{title}: no peer to compare with", signal, unit.name, measure)
    if condition.average:
        return _on_average(condition, context, unit.name, series.values, usual)
    return _odd(condition, context, unit.name, series.values, usual)


def _among_parts(condition: Odd, context: Context, unit: Unit, parts: Mapping[str, np.ndarray]) -> Outcome:
    """The first of the GPUs of a pod, or of the classes of requests at its router, that stands off the others."""
    signal = condition.signal
    title, measure = context.signals[signal].title, context.signals[signal].unit
    if not parts:
        return absent(signal, unit)
    if len(parts) < 2:
        return Outcome(
            None, f"{title}: {next(iter(parts))} is alone, nothing to compare with", signal, unit.name, measure
        )
    best: Outcome | None = None
    usual = medians_of_others(np.vstack(list(parts.values())))
    for (name, row), rest in zip(parts.items(), usual, strict=True):
        outcome = _odd(condition, context, f"{unit.name} {name}", row, rest)
        if outcome.holds:
            return outcome
        best = best or outcome
    assert best is not None
    return best


def _odd(condition: Odd, context: Context, entity: str, own: np.ndarray, usual: np.ndarray) -> Outcome:
    """Whether one row stands off the median of the others, `usual`, by the factor, and did not before."""
    signal, factor = condition.signal, condition.factor
    title, measure = context.signals[signal].title, context.signals[signal].unit
    floor = context.signals[signal].floor
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(
            usual > floor, own / np.maximum(usual, 1e-12), np.where(own > floor, own / max(floor, 1e-12), 1.0)
        )
    ratio = np.where(np.isfinite(own) & np.isfinite(usual), ratio, np.nan)
    if not np.isfinite(ratio).any():
        return Outcome(None, f"{title}: never seen together with a peer", signal, entity, measure)
    away = np.abs(own - usual) > floor
    with np.errstate(invalid="ignore"):
        mask = np.isfinite(ratio) & away & ((ratio >= factor) if factor >= 1 else (ratio <= factor))
    finite = np.isfinite(ratio)
    if context.split is not None:
        mask[: context.split] = False
        finite[: context.split] = False
    rule = rule_asked(condition, factor)
    starts, lasts = held(mask[np.newaxis], finite[np.newaxis], rule, context.clock)
    stretch = None if starts[0] == NONE else (int(starts[0]), int(lasts[0]))
    looked_at = mask if stretch else finite
    own_now, usual_now = quiet(own[looked_at]), quiet(usual[looked_at])
    if stretch is None:
        text = f"{title} is like its peers' ({figure(own_now, measure)} against {figure(usual_now, measure)})"
        return Outcome(False, text, signal, entity, measure, baseline=usual_now, observed=own_now, threshold=factor)
    first, last = stretch
    newly = find(ratio, Rule(factor, share=rule.share), context.clock) if context.split is None else None
    return Outcome(
        True,
        f"{title} is {figure(own_now, measure)} against {figure(usual_now, measure)} of its peers",
        signal,
        entity,
        measure,
        first=newly.start if newly else first,
        last=last,
        baseline=usual_now,
        observed=own_now,
        threshold=factor,
        from_start=newly is None and not np.isfinite(ratio[:first]).any(),
        reference="peers",
    )


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


def explain(condition: Odd) -> str:
    """The condition in words."""
    side = "at least" if condition.factor >= 1 else "at most"
    return f"`{condition.signal}` {side} {condition.factor:g} times that of its peers"


AVERAGED = "15m"


def promql(condition: Odd, rendering: Rendering) -> str | None:
    """Against the mean of the like members, the member itself left out. Classes of requests come and go with their
    clients, so no rule compares them."""
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
    lines = [f"{now} {side} {number(factor)} * {like}"]
    lines += [f"{now} {side} {like} {sign} {number(by)}"] if by else []
    return "\nand ".join(lines)
