"""Which module answers for which kind of condition."""

from __future__ import annotations

from collections.abc import Iterator

from inferdoc.catalogue.recipe import Condition
from inferdoc.diagnose.conditions import differs, follows, groups, levels, presence, reaches, relative, slope, stalls
from inferdoc.diagnose.conditions.render import JOIN, LIKE, POOL, Rendering, Said, clause
from inferdoc.diagnose.context import Context, Outcome
from inferdoc.diagnose.view import Unit

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
    "present": presence,
    "absent": presence,
}
GROUPS = ("all", "any", "not_")
KINDS = (*SIMPLE, *GROUPS)


def kind_of(condition: Condition) -> str:
    """The one kind a condition sets; `differs` beside `above`/`below` does not occur (the catalogue checks it)."""
    return next(kind for kind in KINDS if getattr(condition, kind) is not None)


def parts_of(condition: Condition) -> tuple[Condition, ...]:
    """The members of a group; empty for a simple condition."""
    negated = () if condition.not_ is None else (condition.not_,)
    return (*(condition.all or ()), *(condition.any or ()), *negated)


def evaluate(condition: Condition, context: Context, unit: Unit) -> Outcome:
    """Whether the condition holds for a unit, or for the units its `scope` names."""
    kind = kind_of(condition)
    if kind in GROUPS:
        return groups.combine(kind, [evaluate(part, context, unit) for part in parts_of(condition)])
    judge = SIMPLE[kind].evaluate
    if condition.scope == "own":
        outcome: Outcome = judge(condition, context, unit)
        return outcome
    others = {
        "pool": [unit, *context.view.peers(unit)],
        "peers": context.view.peers(unit),
        "prefill": context.view.siblings(unit, "prefill"),
        "decode": context.view.siblings(unit, "decode"),
    }[condition.scope]
    if not others:
        return Outcome(None, f"no {condition.scope} units to look at", str(condition.signal))
    return groups.combine("any", [judge(condition, context, other) for other in others])


def explain(condition: Condition) -> str:
    """The condition in words, without data."""
    kind = kind_of(condition)
    if kind in GROUPS:
        return groups.explain(kind, [explain(part) for part in parts_of(condition)])
    where = {
        "own": "",
        "pool": " on a pod of the pool",
        "peers": " on a like pod",
        "prefill": " on a prefill pod",
        "decode": " on a decode pod",
    }
    text: str = SIMPLE[kind].explain(condition)
    return text + where[condition.scope]


def promql(condition: Condition, rendering: Rendering) -> Said | None:
    """The condition as a PromQL clause that has series while it holds; None where PromQL cannot say it.

    A condition on other units of the pool speaks of the pool: whether any pod of it, more than one (`peers`: one of
    them is not the pod itself), or one of the role meets it.
    """
    kind = kind_of(condition)
    if kind in GROUPS:
        return groups.promql(kind, [promql(part, rendering) for part in parts_of(condition)])
    level = rendering.level(str(condition.signal))
    pool = tuple(label for label in LIKE[level] if label not in POOL)
    if condition.scope in ("prefill", "decode"):
        text = SIMPLE[kind].promql(condition, rendering.for_role(condition.scope))
        return None if text is None else Said(f"count by ({', '.join(pool)}) {clause(text)} > 0", pool)
    text = SIMPLE[kind].promql(condition, rendering)
    if text is None or condition.scope == "own":
        return None if text is None else Said(text, JOIN[level])
    like, least = LIKE[level], 1 if condition.scope == "peers" else 0
    return Said(f"count by ({', '.join(like)}) {clause(text)} > {least}", like)


def signals_of(condition: Condition) -> Iterator[str]:
    """Every signal a condition reads."""
    for name in (condition.signal, condition.stalls, condition.follows):
        if name:
            yield name
    for part in parts_of(condition):
        yield from signals_of(part)
