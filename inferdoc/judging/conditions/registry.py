"""Which module answers for which kind of condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from inferdoc.catalogue.recipe import Condition
from inferdoc.judging.conditions import (
    differs,
    follows,
    groups,
    levels,
    presence,
    reaches,
    relative,
    slope,
    stalls,
    turns,
)
from inferdoc.judging.conditions.render import JOIN, LIKE, POOL, Rendering, Said, clause
from inferdoc.judging.context import Context, Outcome
from inferdoc.judging.view import Unit

SIMPLE = {
    "above": levels,
    "below": levels,
    "rises": relative,
    "falls": relative,
    "slope": slope,
    "reaches": reaches,
    "stalls": stalls,
    "differs": differs,
    "follows": follows,
    "turns": turns,
    "present": presence,
    "absent": presence,
}
PER_GPU = ("above", "below", "rises", "falls", "slope", "reaches")
"""Kinds that look at one series: on a signal of GPUs they are asked of every GPU of the pod, and one that says yes is
enough."""
GROUPS = ("all", "any", "witnesses", "not_", "k_of")


def evaluate(condition: Condition, context: Context, unit: Unit) -> Outcome:
    """Whether the condition holds for a unit, or for the units its `scope` names."""
    kind = condition.kind
    if kind in GROUPS:
        outcomes = [evaluate(part, context, unit) for part in condition.parts]
        return groups.combine(kind, outcomes) if condition.k_of is None else groups.k_of(condition.k_of, outcomes)
    if condition.scope == "own":
        return _on(condition, context, unit)
    outcomes = _of_others(condition, context, unit)
    if not outcomes:
        return Outcome(None, f"no {condition.scope} units to look at", str(condition.signal))
    if condition.scope == "most":
        return groups.at_least_half(outcomes)
    return groups.combine("any", outcomes)


def _of_others(condition: Condition, context: Context, unit: Unit) -> list[Outcome]:
    """The outcomes on the units that the scope names, as seen from a unit."""
    if condition.scope in ("prefill", "decode"):
        return context.together(condition, context.view.siblings(unit, condition.scope), _on)
    like = context.view.like(unit)
    outcomes = context.together(condition, like, _on)
    place = context.view.place(unit)
    others = outcomes[:place] + outcomes[place + 1 :]
    return [outcomes[place], *others] if condition.scope == "pool" else others


def _on(condition: Condition, context: Context, unit: Unit) -> Outcome:
    """A simple condition on one unit: on its series, or on those of its GPUs (then on the first that shows it)."""
    kind, signal = condition.kind, str(condition.signal)
    judge = SIMPLE[kind].evaluate
    gpus = context.view.gpus(unit, signal) if context.signals[signal].level == "gpu" and kind in PER_GPU else {}
    if not gpus:
        outcome: Outcome = judge(condition, context, unit)
        return outcome
    outcomes: list[Outcome] = [judge(condition, context, replace(unit, gpu=name)) for name in gpus]
    holding = [o for o in outcomes if o.holds]
    if holding:
        return min(holding, key=lambda found: (found.first is None, found.first or 0))
    return groups.combine("any", outcomes)


def explain(condition: Condition) -> str:
    """The condition in words, without data."""
    kind = condition.kind
    if kind in GROUPS:
        said = [explain(part) for part in condition.parts]
        return groups.explain(kind, said) if condition.k_of is None else f"{condition.k_of} of: {', '.join(said)}"
    where = {
        "own": "",
        "pool": " on a pod of the pool",
        "peers": " on a peer",
        "most": " on most peers",
        "prefill": " on a prefill pod",
        "decode": " on a decode pod",
    }
    text: str = SIMPLE[kind].explain(condition)
    return text + where[condition.scope]


def promql(condition: Condition, rendering: Rendering) -> Said | None:
    """The condition as a PromQL clause that has series while it holds; None where PromQL cannot say it.

    One on pods of a role, or of the pool, holds for the pool; one on peers counts those that meet it without the pod.
    """
    kind = condition.kind
    if kind == "k_of":
        return None
    if kind in GROUPS:
        parts = condition.parts
        held = [promql(part, rendering) for part in parts if part.not_ is None]
        barred = [promql(part.not_, rendering) for part in parts if part.not_ is not None]
        return groups.promql(kind, held, barred)
    level = rendering.level(str(condition.signal))
    pool = tuple(label for label in LIKE[level] if label not in POOL)
    if condition.scope in ("prefill", "decode"):
        text = SIMPLE[kind].promql(condition, rendering.for_role(condition.scope))
        return None if text is None else Said(f"count by ({', '.join(pool)}) {clause(text)} > 0", pool)
    text = SIMPLE[kind].promql(condition, rendering)
    if text is None or condition.scope == "own":
        return None if text is None else Said(text, JOIN[level])
    like, now = ", ".join(LIKE[level]), rendering.signal(str(condition.signal))
    those = f"count by ({like}) {clause(text)}"
    if condition.scope == "pool":
        return Said(f"{those} > 0", LIKE[level])
    others = f"{those}\n- on ({like}) group_right () (0 * {clause(text)} + 1 or 0 * {now})"
    most = f">= on ({like}) group_left () (0.5 * (count by ({like}) ({now}) - 1) > 0)"
    return Said(f"{others}\n{'> 0' if condition.scope == 'peers' else most}", JOIN[level])


def signals_of(condition: Condition) -> Iterator[str]:
    """Every signal a condition reads."""
    for name in (condition.signal, condition.stalls, condition.follows):
        if name:
            yield name
    for part in condition.parts:
        yield from signals_of(part)
