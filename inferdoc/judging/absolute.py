"""Causes at first look: what can be asked of an engine that nobody watched before.

Its counters tell what was usual (`lifetime`), its gauges do not: whether the cache is full can be seen, whether it
filled just now cannot. A condition that compares a gauge with its past is left out, and what is left is at most a
possible cause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from msgspec import structs

from inferdoc.catalogue.conditions import Condition, Level, Move, Not, OfParts, leaves
from inferdoc.catalogue.recipe import Recipe
from inferdoc.judging.fold import Cause
from inferdoc.judging.view import View


def told_by_lead(view: View) -> set[str]:
    """The signals of which the baseline before the window holds a value."""
    lead = view.lead_steps
    return {name for name, one in view.frame.signals.items() if np.isfinite(one.values[:, :lead]).any()}


def absolute(recipes: Mapping[str, Recipe], told: Collection[str]) -> dict[str, Recipe]:
    """The recipes without what compares a signal with a past that nobody knows. Where a symptom is lost, a level of the
    same signal must speak for it (the cache is full, if not fuller than before): else the recipe is left out, since
    what is left would fit too much. told: signals whose past is known."""
    found = {}
    for name, recipe in recipes.items():
        symptoms, harm = _kept(recipe.symptoms, told), _kept(recipe.harm, told)
        seen = {leaf.signal for one in symptoms for leaf in leaves(one) if isinstance(leaf, Level)}
        lost = [one for one in recipe.symptoms if not _kept([one], told)]
        if symptoms and harm and all(seen.intersection(one.signals) for one in lost):
            found[name] = structs.replace(recipe, symptoms=symptoms, harm=harm)
    return found


def doubted(roots: Iterable[Cause], recipes: Mapping[str, Recipe]) -> None:
    """Lower the certainty: possible where not all of a recipe could be asked, else likely at most."""
    for root in roots:
        whole = recipes.get(root.recipe.id)
        for match in root.matches:
            if whole is None or whole.symptoms != match.recipe.symptoms:
                match.certainty = "possible"
            elif match.certainty == "proven":
                match.certainty = "likely"
        doubted((*root.effects, *root.load_changes), recipes)


def _kept(conditions: Iterable[Condition], told: Collection[str]) -> tuple[Condition, ...]:
    pruned = (_pruned(condition, told) for condition in conditions)
    return tuple(condition for condition in pruned if condition is not None)


def _pruned(condition: Condition, told: Collection[str]) -> Condition | None:
    """The condition without its parts that compare with an unknown past; None where nothing is left."""
    if isinstance(condition, Move):
        return condition if condition.signal in told else None
    if not isinstance(condition, OfParts):
        return condition
    parts = _kept(condition.parts, told)
    if not parts or parts == condition.parts:
        return condition if parts else None
    if isinstance(condition, Not):
        return structs.replace(condition, part=parts[0])
    return structs.replace(condition, parts=parts)
