"""Causes at first look: what can be asked of an engine that nobody watched before.

Its counters tell what was usual (`lifetime`), most gauges do not: whether the cache is full can be seen, whether it
filled just now cannot. A condition that compares a gauge with its past is left out, and what is left is at most a
possible cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from inferdoc.catalogue.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Level,
    Move,
    Not,
    OfParts,
    Presence,
    Witnesses,
    leaves,
)
from inferdoc.catalogue.recipe import Recipe
from inferdoc.judging.fold import Cause
from inferdoc.judging.references.lifetime import LITTLE, RAN
from inferdoc.judging.view import View

QUIET = Move(signal="arrival_rate", ratio=0.95, up=False, average=True)
"""A quiet hour: less arrives than on average over days and nights."""
MORE_MADE = Move(signal="generation_tokens_rate", ratio=1.1, up=True, share_of=0.5)
MUCH_MORE = 1.5
"""Own choice: as much as the recipes ask of a wait before they call it late."""

NOTHING: frozenset[str] = frozenset()
Ask = Callable[[Move], Condition | None]
"""What is asked at first look in the place of a move; None: nothing."""


@dataclass(frozen=True)
class FirstLook:
    """What a first look can be asked. told: signals whose past is known; means: those of which a mean over days and
    nights is: less than that says nothing; brief: too little was seen for two means of rate windows."""

    told: frozenset[str]
    means: frozenset[str]
    brief: bool

    @classmethod
    def of(cls, view: View) -> FirstLook:
        """What the first look at these series can be asked."""
        told = {name for name, one in view.frame.signals.items() if np.isfinite(one.values[:, : view.lead_steps]).any()}
        brief = view.steps - view.begin <= 2 * view.window_steps
        return cls(frozenset(told), view.lead_means, brief)

    def exactly(self, move: Move) -> Condition | None:
        """The move itself, where its past is known; where too little was seen for means, of the values. Less than in a
        mean over days and nights counts where no less arrives."""
        if move.signal not in self.told or (self.excused(move) and QUIET.signal not in self.told):
            return None
        asked = self._in_time(move)
        return AllOf((asked, Not(self._in_time(QUIET)))) if self.excused(move) else asked

    def _in_time(self, move: Move) -> Move:
        return structs.replace(move, average=False) if self.brief else move

    def widely(self, move: Move) -> Condition | None:
        """The move, or that of the median: the fault that is looked at is a part of the life, and moves its mean at
        once and its median last. What runs rises with whatever slows the engine: it speaks of a larger batch only where
        more tokens come out as well."""
        asked, median = self.exactly(move), move.signal.removesuffix("_mean") + "_p50"
        if asked is not None and move.up and LITTLE.get(move.signal) == RAN and MORE_MADE.signal in self.told:
            return AllOf((asked, MORE_MADE))
        if asked is None or not move.up or not move.signal.endswith("_mean") or median not in self.told:
            return asked
        return AnyOf((asked, structs.replace(move, signal=median, average=False)))

    def excuse(self, move: Move) -> Condition | None:
        """A move whose absence is asked: more work excuses slower answers. A mean over hours without work is less than
        what was usual while there was some, so it takes more than a little above it. How much runs or waits is no
        work that came: whatever slows the engine raises it."""
        if move.signal in LITTLE:
            return None
        if move.signal in self.means and move.up:
            move = structs.replace(move, ratio=max(move.ratio, MUCH_MORE))
        return self.exactly(move)

    def known(self, ask: Ask) -> Ask:
        """For what speaks for or against a cause: unknown pasts stay in, as what cannot be told."""
        return lambda move: ask(move) if move.signal in self.told else move

    def excused(self, move: Move) -> bool:
        """Whether it would compare a quiet hour with a mean over days and nights."""
        return move.signal in self.means and not move.up


def absolute(recipes: Mapping[str, Recipe], look: FirstLook) -> dict[str, Recipe]:
    """The recipes without what compares a signal with a past that nobody knows. Where a symptom is lost, a level of the
    same signal must speak for it (the cache is full, if not fuller than before): else the recipe is left out, since
    what is left would fit too much. So would a symptom of which only the impact is left, or what other symptoms tell:
    pages that are written slowly together with slow tokens are a sign of the host, slow tokens are none."""
    found = {}
    for name, recipe in recipes.items():
        within_not = look.excuse if recipe.kind == "unexplained" else look.exactly
        symptoms: list[Condition] = []
        lost: list[Condition] = []
        for one in recipe.symptoms:
            told = _signals((*recipe.harm, *(other for other in recipe.symptoms if other is not one)))
            symptoms += _kept([one], look.widely, within_not, told)
            if not _kept([one], look.exactly, look.exactly, told):
                lost.append(one)
        harm = _kept(recipe.harm, look.widely, within_not)
        seen = {leaf.signal for one in symptoms for leaf in leaves(one) if isinstance(leaf, Level)}
        if symptoms and harm and all(_vouched(one, seen) for one in lost):
            around, excuse = look.known(look.exactly), look.known(look.excuse)
            unless = _kept(recipe.unless, around, excuse)
            support, proof = (_kept(each, around, around) for each in (recipe.support, recipe.proof))
            kept = structs.replace(recipe, symptoms=tuple(symptoms), harm=harm, unless=unless)
            found[name] = structs.replace(kept, support=support, proof=proof)
    return found


def _vouched(condition: Condition, levels: set[str]) -> bool:
    """Whether levels of the same signals, by name, speak for a condition in the place of its moves: for all of what
    belongs together, for one of alternatives."""
    if isinstance(condition, AllOf | Witnesses):
        return all(_vouched(part, levels) for part in condition.parts if not isinstance(part, Not))
    if isinstance(condition, OfParts):
        return any(_vouched(part, levels) for part in condition.parts)
    return not levels.isdisjoint(condition.signals)


def doubted(roots: Iterable[Cause], recipes: Mapping[str, Recipe], look: FirstLook) -> None:
    """Lower the certainty: possible where not all of a recipe could be asked, or where it rests on a mean over days and
    nights, else likely at most."""
    for root in roots:
        whole = recipes.get(root.recipe.id)
        for match in root.matches:
            rests = {one.outcome.signal for one in match.evidence if one.role == "symptom"}
            if whole is None or not _whole(whole, match.recipe, look) or rests.intersection(look.means):
                match.certainty = "possible"
            elif match.certainty == "proven":
                match.certainty = "likely"
        doubted((*root.effects, *root.load_changes), recipes, look)


def _whole(recipe: Recipe, asked: Recipe, look: FirstLook) -> bool:
    """Whether all moves among the symptoms of a recipe could be asked."""
    moves = {leaf.signal for one in recipe.symptoms for leaf in leaves(one) if isinstance(leaf, Move)}
    return moves <= look.told and len(asked.symptoms) == len(recipe.symptoms)


def _kept(
    conditions: Iterable[Condition], ask: Ask, within_not: Ask, told: frozenset[str] = NOTHING
) -> tuple[Condition, ...]:
    pruned = (_pruned(condition, ask, within_not, told) for condition in conditions)
    return tuple(condition for condition in pruned if condition is not None)


def _pruned(condition: Condition, ask: Ask, within_not: Ask, told: frozenset[str]) -> Condition | None:
    """The condition with its moves as they are asked; None where nothing is left, or of parts that belong together only
    what is absent, what other pods show, or what `told` (the signals of others) tells."""
    if isinstance(condition, Move):
        return ask(condition)
    if not isinstance(condition, OfParts):
        return condition
    if isinstance(condition, Not):
        part = _pruned(condition.part, within_not, within_not, NOTHING)
        return None if part is None else structs.replace(condition, part=part)
    pruned = [(part, _pruned(part, ask, within_not, told)) for part in condition.parts]
    parts = tuple(kept for _, kept in pruned if kept is not None)
    if not parts or parts == condition.parts:
        return condition if parts else None
    left = _signals(part for part, kept in pruned if kept is not None)
    if isinstance(condition, AllOf) and len(parts) < len(pruned) and left <= told:
        return None
    return structs.replace(condition, parts=parts)


def _signals(conditions: Iterable[Condition]) -> frozenset[str]:
    """The signals of a pod that speak for conditions: not those whose absence is asked."""
    found: set[str] = set()
    for one in conditions:
        if isinstance(one, OfParts):
            found |= NOTHING if isinstance(one, Not) else _signals(one.parts)
        elif one.scope == "own" and not (isinstance(one, Presence) and not one.there):
            found.update(one.signals)
    return frozenset(found)
