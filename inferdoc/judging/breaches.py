"""Limits that are broken whatever came before: an objective, or what no user puts up with.

A comparison needs a past; an objective does not. Where one is broken and no cause covers the place, users are hurt and
the diagnosis says so, with the limit as its evidence. Without objectives two absolute signs remain, which hold on any
hardware: waits that no user puts up with (`patience`), or nothing moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from inferdoc.catalogue.recipe import Recipe
from inferdoc.judging.conditions import evaluate, prepare
from inferdoc.judging.context import Ask, Context, Outcome
from inferdoc.judging.match import objective
from inferdoc.judging.patience import levels_of, lost
from inferdoc.judging.verdict import Evidence, Match
from inferdoc.judging.view import Unit

UNEXPLAINED = "unexplained-anomaly"


def breaches(context: Context, recipes: Mapping[str, Recipe]) -> list[Match]:
    """A match of the recipe for unexplained harm on every unit whose objective, or absolute limit, is broken in the
    window; empty without that recipe."""
    recipe = recipes.get(UNEXPLAINED)
    if recipe is None:
        return []
    window = context.at(context.view.begin, context.view.steps - 1)
    asks = [Ask(unit, window.split, window.last) for unit in context.view.units]
    prepare(levels_of(window), window, asks)
    broken = ((unit, _broken(window, unit)) for unit in context.view.units)
    return [_match(recipe, unit, outcomes, context) for unit, outcomes in broken if outcomes]


def _broken(window: Context, unit: Unit) -> list[Outcome]:
    limits = window.limits(unit)
    asked = [objective(name, limit) for name, limit in limits.items()]
    outcomes = [evaluate(condition, window, unit) for condition in asked if condition.signal in window.signals]
    broken = [
        replace(one, text=f"{one.text}: the objective is {one.threshold:g}", missing=())
        for one in outcomes
        if one.holds
    ]
    return [*broken, *lost(window, unit)]


def _match(recipe: Recipe, unit: Unit, outcomes: list[Outcome], context: Context) -> Match:
    """from_start: what an absolute limit shows from the first step of the window on began nobody knows when."""
    first = min(o.first for o in outcomes if o.first is not None)
    last = max(o.last for o in outcomes if o.last is not None)
    from_start = first <= context.view.begin + context.clock.window_steps
    evidence = [Evidence("harm", outcome) for outcome in outcomes]
    return Match(recipe, unit, first, last, from_start, evidence, "possible", stands=first)
