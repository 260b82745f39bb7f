"""Which module answers for which kind of condition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from msgspec import structs

from inferdoc.catalogue.conditions import (
    AllOf,
    Condition,
    Fact,
    Follow,
    KOf,
    Level,
    Move,
    Not,
    Odd,
    OfParts,
    OfSignal,
    Presence,
    Reaches,
    Slope,
    Stall,
    Turns,
    leaves,
)
from inferdoc.catalogue.signal import WIDE
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
from inferdoc.judging.conditions.render import JOIN, LIKE, POOL, Expression, Rendering, clause
from inferdoc.judging.context import Context, Outcome, UnitQuery
from inferdoc.judging.view import Unit

ConditionT = TypeVar("ConditionT", bound=OfSignal, contravariant=True)
Kind = TypeVar("Kind", bound=OfSignal)


class Answering(Protocol[ConditionT]):
    """What the module of a kind of fact has."""

    def explain(self, condition: ConditionT, /) -> str: ...

    def promql(self, condition: ConditionT, rendering: Rendering, /) -> str | None: ...


def _by(kind: type[Kind], module: Answering[Kind]) -> tuple[type[OfSignal], Answering[Any]]:
    """A kind and its module, which must take that kind."""
    return kind, module


SIMPLE: Mapping[type[OfSignal], Answering[Any]] = dict(
    (
        _by(Level, levels),
        _by(Move, relative),
        _by(Slope, slope),
        _by(Reaches, reaches),
        _by(Stall, stalls),
        _by(Odd, differs),
        _by(Follow, follows),
        _by(Turns, turns),
        _by(Presence, presence),
    )
)
PER_GPU = (Level, Move, Slope, Reaches)
"""Kinds that look at one series: on a signal of GPUs they are evaluated on every GPU of the pod, and one that says yes
is enough."""
BY_MEANS = (Move, Odd)
"""Kinds that may compare means, which depend on where an episode ends."""
AT_ONCE: Mapping[type[OfSignal], Callable[[Any, Context, Sequence[UnitQuery]], list[Outcome]]] = {
    Level: levels.evaluate_rows,
    Move: relative.evaluate_rows,
    Stall: stalls.evaluate_rows,
    Odd: differs.evaluate_rows,
}
"""Kinds that look at many units at once."""
ONE_BY_ONE: Mapping[type[OfSignal], Callable[[Any, Context, Unit], Outcome]] = {
    Slope: slope.evaluate,
    Reaches: reaches.evaluate,
    Follow: follows.evaluate,
    Turns: turns.evaluate,
    Presence: presence.evaluate,
}
AT_ONCE_ROWS = 1024
"""Rows of one look: some megabytes for each step of the arithmetic, so that they stay in the cache."""


def evaluate(condition: Condition, context: Context, unit: Unit) -> Outcome:
    """Whether the condition holds for a unit, or for the units its `scope` names."""
    if isinstance(condition, OfParts):
        outcomes = [evaluate(part, context, unit) for part in condition.parts]
        return (
            groups.k_of(condition.k, outcomes)
            if isinstance(condition, KOf)
            else groups.combine(condition.word, outcomes)
        )
    if condition.scope == "own":
        return _on(condition, context, unit)
    outcomes = _of_others(condition, context, unit)
    if not outcomes:
        # It holds on no peer where there is none; of roles that are not there nothing is known.
        holds = False if condition.scope == "peers" else None
        return Outcome(holds, f"no {condition.scope} units to look at", condition.signal)
    if condition.scope == "most":
        return groups.at_least_half(outcomes)
    return groups.combine("any", outcomes)


def prepare(conditions: Iterable[Condition], context: Context, queries: Iterable[UnitQuery]) -> None:
    """Work the conditions out for many units at once, as far as their kinds can: `evaluate` then finds the outcomes.
    What others than the unit show is worked out for all of its like, at the split of the unit."""
    queries = list(dict.fromkeys(queries))
    for leaf in dict.fromkeys(leaf for condition in conditions for leaf in leaves(condition)):
        judge = AT_ONCE.get(type(leaf))
        if judge is None:
            continue
        cached, by_last = context.cached(leaf), _by_last(leaf)
        looked_at = _looked_at(leaf, context, queries)
        if _is_per_gpu(leaf, context):
            looked_at = [part for query in looked_at for part in _parts(leaf, context, query)]
        needed = {query if by_last else query[:2]: query for query in looked_at}
        rest = [(key, query) for key, query in needed.items() if key not in cached]
        for begin in range(0, len(rest), AT_ONCE_ROWS):
            keys, some = zip(*rest[begin : begin + AT_ONCE_ROWS], strict=True)
            context.record(leaf, zip(keys, judge(leaf, context, some), strict=True))


def holding_until(condition: Condition, context: Context) -> tuple[list[Unit], np.ndarray] | None:
    """The units of the view that have the signal of a condition, and the last step at which it holds on each, -1 where
    it does not: int64[units]. In figures alone, which takes a part of the time of outcomes in words; None for what is
    no level or move of a unit itself."""
    if not isinstance(condition, Level | Move) or condition.scope != "own" or _is_per_gpu(condition, context):
        return None
    return levels.lasts(condition, context) if isinstance(condition, Level) else relative.lasts(condition, context)


def _looked_at(condition: Fact, context: Context, queries: Sequence[UnitQuery]) -> Iterable[UnitQuery]:
    """Whose series a condition on some units rests on, and at which splits."""
    if condition.scope == "own":
        return queries
    groups = {
        (id(group := _others(condition, context, query.unit)), query.split, query.last): group for query in queries
    }
    return [UnitQuery(unit, split, last) for (_, split, last), group in groups.items() for unit in group]


def _others(condition: Fact, context: Context, unit: Unit) -> list[Unit]:
    """The units that a scope looks at, as seen from a unit: a list that the view keeps."""
    if condition.scope in ("prefill", "decode"):
        return context.view.siblings(unit, condition.scope)
    return context.view.like(unit)


def _parts(condition: Fact, context: Context, query: UnitQuery) -> list[UnitQuery]:
    """The unit, or the GPUs of its pod where the signal is theirs."""
    gpus = context.view.gpus(query.unit, condition.signal)
    return [query._replace(unit=query.unit.of_gpu(name)) for name in gpus] if gpus else [query]


def _is_per_gpu(condition: Fact, context: Context) -> bool:
    return context.signals[condition.signal].level == "gpu" and isinstance(condition, PER_GPU)


def _by_last(condition: Fact) -> bool:
    """Whether an outcome depends on the last step of an episode: that counts for means and stalls alone."""
    return isinstance(condition, Stall) or (isinstance(condition, BY_MEANS) and condition.average)


def _of_others(condition: Fact, context: Context, unit: Unit) -> list[Outcome]:
    """The outcomes on the units that the scope names, as seen from a unit."""
    group = _others(condition, context, unit)
    outcomes = context.together(condition, group, _on)
    if condition.scope in ("prefill", "decode"):
        return outcomes
    place = context.view.place(unit)
    if condition.scope == "most":
        there = [outcomes[at] for at in _places_there(group, context) if at != place]
        return there or outcomes[:place] + outcomes[place + 1 :]
    others = outcomes[:place] + outcomes[place + 1 :]
    return [outcomes[place], *others] if condition.scope == "pool" else others


def _places_there(group: list[Unit], context: Context) -> list[int]:
    """Which places of a group (a list that the view keeps) count where most are requested: a pod that was replaced
    counts through its successor, whose series goes on from its own, and one that had left before the episode has no
    part in it."""
    view = context.view
    known = view.there.get((id(group), context.split))
    if known is None:
        begin = 0 if context.split is None else context.split - view.lead_steps
        known = [at for at, unit in enumerate(group) if view.lineage.counts(unit.member.key, begin)]
        view.there[id(group), context.split] = known
    return known


def _on(condition: Fact, context: Context, unit: Unit) -> Outcome:
    """A simple condition on one unit: on its series, or on those of its GPUs (then on the first that shows it)."""
    gpus = context.view.gpus(unit, condition.signal) if _is_per_gpu(condition, context) else ()
    if not gpus:
        return _simple(condition, context, unit)
    outcomes = [_simple(condition, context, unit.of_gpu(name)) for name in gpus]
    holding = [o for o in outcomes if o.holds]
    if holding:
        return min(holding, key=lambda found: (found.first is None, found.first or 0))
    return groups.combine("any", outcomes)


def _simple(condition: Fact, context: Context, unit: Unit) -> Outcome:
    """One series: the outcome that was prepared, or one worked out now."""
    key = (unit, context.split, context.last) if _by_last(condition) else (unit, context.split)
    cached, judge = context.cached(condition).get(key), AT_ONCE.get(type(condition))
    if cached is None and judge is not None:
        return judge(condition, context, [UnitQuery(unit, context.split, context.last)])[0]
    return cached or ONE_BY_ONE[type(condition)](condition, context, unit)


def explain(condition: Condition) -> str:
    """The condition in words, without data."""
    if isinstance(condition, OfParts):
        parts = [explain(part) for part in condition.parts]
        return (
            f"{condition.k} of: {', '.join(parts)}"
            if isinstance(condition, KOf)
            else groups.explain(condition.word, parts)
        )
    where = {
        "own": "",
        "pool": " on a pod of the pool",
        "peers": " on a peer",
        "most": " on most peers",
        "prefill": " on a prefill pod",
        "decode": " on a decode pod",
    }
    return SIMPLE[type(condition)].explain(condition) + where[condition.scope]


def promql(condition: Condition, rendering: Rendering) -> Expression | None:
    """The condition as a PromQL clause that has series while it holds; None where PromQL cannot say it.

    One on pods of a role, or of the pool, holds for the pool; one on peers counts those that meet it without the pod.
    """
    return rendering.once(condition, lambda those: _expression(condition, those))


def _expression(condition: Condition, rendering: Rendering) -> Expression | None:
    if isinstance(condition, KOf):
        return None
    if isinstance(condition, OfParts):
        parts = [promql(part, rendering) for part in condition.parts if not isinstance(part, Not)]
        if isinstance(condition, AllOf) and isinstance(condition.parts[0], Level) and parts[0] is None:
            return None  # without what it is about it would say another thing, not a wider one
        if isinstance(condition, AllOf) and None in parts and _is_wider(condition, parts, rendering):
            return None  # it would be about every pod behind a router
        if isinstance(condition, AllOf) and condition.only_denies:
            parts = _denied(condition, rendering)
        apart = {label for one in parts if one is not None for label in one.by}
        barred = [_barred(part.part, rendering, apart) for part in condition.parts if isinstance(part, Not)]
        seen = [_visible(part, rendering) for part in condition.parts if not isinstance(part, Not)]
        return groups.promql(condition.word, parts, barred, seen)
    level = rendering.level(condition.signal)
    if condition.scope == "own":
        text = SIMPLE[type(condition)].promql(condition, rendering)
        return None if text is None else Expression(text, JOIN[level])
    return _expression_of_others(condition, rendering)


def _barred(condition: Condition, rendering: Rendering, apart: Collection[str]) -> Expression | None:
    """What bars a rule: the condition, and of a move also a signal that has no past yet. The judge cannot distinguish a
    move then, so it does not take it for none. A signal that is not there at all silences no rule, nor does one newborn
    pod that of its pool: `apart` are the labels that distinguish what the rule is about."""
    cached = promql(condition, rendering)
    if cached is None or not isinstance(condition, Move) or condition.scope != "own":
        return cached
    now, usual = rendering.signal(condition.signal), rendering.usual(condition.signal)
    by = JOIN[rendering.level(condition.signal)]
    if now is None or usual is None or not set(by) <= set(apart):
        return cached
    return cached.joined("or", Expression(now, by).joined("unless", Expression(usual, by)))


def _is_wider(condition: AllOf, parts: Sequence[Expression | None], rendering: Rendering) -> bool:
    """Whether only what is above the pods is left of an `all` that is about a pod."""
    own = any(rendering.level(leaf.signal) not in WIDE for leaf in leaves(condition))
    return own and any(parts) and not any("pod" in one.by for one in parts if one is not None)


def _denied(condition: AllOf, rendering: Rendering) -> list[Expression | None]:
    """Series of those of whom all is known that must not hold. One signal that is not there leaves it open, as for
    the judge; a rule says nothing of what it cannot say whole."""
    visible = [_visible(part, rendering) for part in condition.parts]
    sayable = all(promql(leaf, rendering) is not None for leaf in leaves(condition))
    return list(dict.fromkeys(visible)) if sayable and None not in visible else []


def _expression_of_others(condition: Fact, rendering: Rendering) -> Expression | None:
    own, level = structs.replace(condition, scope="own"), rendering.level(condition.signal)
    if level in WIDE:
        return promql(own, rendering)  # what is above the pods is the same for all of them
    if condition.scope in ("prefill", "decode"):
        found = promql(own, replace(rendering, extra=(*rendering.extra, ("role", "=", condition.scope))))
        pool = tuple(label for label in LIKE[level] if label not in POOL)
        return None if found is None else Expression(f"count by ({', '.join(pool)}) {clause(found.text)} > 0", pool)
    found = promql(own, rendering)
    if found is None:
        return None
    like, now = ", ".join(LIKE[level]), rendering.signal(condition.signal)
    those = f"count by ({like}) {clause(found.text)}"
    if condition.scope == "pool":
        return Expression(f"{those} > 0", LIKE[level])
    others = f"{those}\n- on ({like}) group_right () (0 * {clause(found.text)} + 1 or 0 * {now})"
    most = f">= on ({like}) group_left () (0.5 * (count by ({like}) ({now}) - 1) > 0)"
    return Expression(f"{others}\n{'> 0' if condition.scope == 'peers' else most}", JOIN[level])


def _visible(condition: Condition, rendering: Rendering) -> Expression | None:
    """Series while the signal of a condition is there; of several, the first."""
    name = next(leaves(condition)).signal
    now = rendering.signal(name)
    return None if now is None else Expression(now, JOIN[rendering.level(name)])
