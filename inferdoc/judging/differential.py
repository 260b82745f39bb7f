"""A second opinion beside the logic: which other cause the same observations speak for, and what would decide.

The logic of the recipes says yes or no. A graded look at the same observations says how near the others come: every
sign of a cause that shows adds the logarithm of how much more often it shows under that cause than otherwise, every
sign that does not show takes away. How often a sign shows otherwise is measured where the finding is not: on the other
units of the same window. Bayes' rule with independent signs (D. J. Spiegelhalter, R. P. Knill-Jones, "Statistical and
knowledge-based approaches to clinical decision-support systems", J. R. Statist. Soc. A 147, 1984).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.catalogue.conditions import AnyOf, Condition
from inferdoc.catalogue.recipe import Recipe
from inferdoc.judging.conditions import evaluate, prepare
from inferdoc.judging.context import Context, UnitQuery
from inferdoc.judging.fold import Cause
from inferdoc.judging.view import Unit

SHOWN_UNDER_ITS_CAUSE = 0.9
"""How often a sign shows where its cause is at work: recipes query for every need, so nearly always (own choice)."""
PRIOR_SHOWN, PRIOR_UNITS = 1.0, 5.0
"""Before any other unit was looked at, a sign shows by chance in one of five (own choice)."""
RULED_OUT = math.log(0.02)
"""What an exclusion that holds takes away: it is the test that separates two look-alikes (own choice: wrong once in
fifty times)."""
MUCH_LIKELIER = math.log(3.0)
"""Another cause contradicts a finding where its odds are three times as high; less is a draw (own choice)."""
ONE_POD = ("gpu", "rank", "pod", "tenant")
MOST_OTHERS = 6
MOST_CANDIDATES = 3


@dataclass
class Candidate:
    """A cause that the observations of a finding might also speak for. log_odds: the sum of its signs; speaks_for,
    speaks_against: sentences; not_seen: signals of its signs and exclusions that are not visible; judged: whether all
    of its signs can be seen."""

    recipe: Recipe
    log_odds: float = 0.0
    speaks_for: list[str] = field(default_factory=list)
    speaks_against: list[str] = field(default_factory=list)
    not_seen: list[str] = field(default_factory=list)
    judged: bool = True


def opinions(context: Context, cause: Cause, recipes: Mapping[str, Recipe]) -> list[Candidate]:
    """The cause and its rivals as graded from the observations on the unit that shows it best, likeliest first."""
    match = cause.best
    inside = context.at(match.onset, match.last)
    others = _others(context, cause)
    graded = [_graded(recipe, inside, match.unit, others) for recipe in _rivals(cause, recipes)]
    own = _graded(cause.recipe, inside, match.unit, others)
    return sorted([own, *graded], key=lambda candidate: -candidate.log_odds)


def _rivals(cause: Cause, recipes: Mapping[str, Recipe]) -> list[Recipe]:
    """Look-alikes of a cause, in either direction, that are neither folded under it nor impossible for its role; of a
    family its causes; of harm without a known mechanism every cause of one pod that is no mere limit."""
    family = cause.recipe.family if cause.recipe.is_family else None
    unknown = cause.recipe.kind == "unexplained" and family is None
    inside = {cause.recipe.id, *(c.recipe.id for c in (*cause.effects, *cause.load_changes))}
    role = cause.best.unit.member.role
    return [
        recipe
        for recipe in recipes.values()
        if recipe.id not in inside
        and (
            (unknown and recipe.scope in ONE_POD and not recipe.catch_all)
            or (family is not None and recipe.family == family)
            or recipe.id in cause.recipe.look_alikes
            or cause.recipe.id in recipe.look_alikes
        )
        and recipe.kind not in ("unexplained", "telemetry")
        and (not recipe.roles or role in recipe.roles)
    ]


def _others(context: Context, cause: Cause) -> list[Unit]:
    """Units that the cause does not name, evenly taken from the fleet."""
    rest = [unit for unit in context.view.units if unit.member.key not in cause.pods]
    return rest[:: max(1, -(-len(rest) // MOST_OTHERS))]


def _graded(recipe: Recipe, inside: Context, unit: Unit, others: list[Unit]) -> Candidate:
    candidate = Candidate(recipe)
    own = UnitQuery(unit, inside.split, inside.last)
    inside.make_room()
    prepare(tuple(_signs(recipe)), inside, [own, *(own._replace(unit=other) for other in others)])
    prepare(recipe.unless, inside, [own])
    for sign in _signs(recipe):
        outcome = evaluate(sign, inside, unit)
        if outcome.holds is None:
            candidate.judged = False
            candidate.not_seen += [name for name in outcome.missing if name not in candidate.not_seen]
            continue
        shown = sum(bool(evaluate(sign, inside, other).holds) for other in others)
        chance = (shown + PRIOR_SHOWN) / (len(others) + PRIOR_UNITS)
        if outcome.holds:
            candidate.log_odds += math.log(SHOWN_UNDER_ITS_CAUSE / chance)
            candidate.speaks_for.append(outcome.text)
        else:
            candidate.log_odds += math.log((1 - SHOWN_UNDER_ITS_CAUSE) / (1 - chance))
            candidate.speaks_against.append(outcome.text)
    for exclusion in recipe.unless:
        outcome = evaluate(exclusion, inside, unit)
        if outcome.holds and exclusion.when != "before":
            candidate.log_odds += RULED_OUT
            candidate.speaks_against.append(f"{exclusion.because or 'ruled out'}: {outcome.text}")
        elif outcome.holds is None:
            candidate.not_seen += [name for name in outcome.missing if name not in candidate.not_seen]
    return candidate


def _signs(recipe: Recipe) -> Iterable[Condition]:
    """What must show: every need, and of the impact any."""
    yield from recipe.symptoms
    if len(recipe.harm) > 1:
        yield AnyOf(recipe.harm)
    else:
        yield from recipe.harm


def contradicted(candidates: Sequence[Candidate], own: Recipe) -> bool:
    """Whether another cause is much likelier than the finding's by the graded look."""
    odds = next((c.log_odds for c in candidates if c.recipe is own), math.inf)
    return bool(candidates) and candidates[0].log_odds - odds > MUCH_LIKELIER


def shares(candidates: Sequence[Candidate]) -> list[float]:
    """How the odds divide between the candidates: each 0..1, together 1."""
    top = max(candidate.log_odds for candidate in candidates)
    weights = [math.exp(candidate.log_odds - top) for candidate in candidates]
    return [weight / sum(weights) for weight in weights]


def decisive(candidate: Candidate, own: Candidate, context: Context, unit: Unit) -> str | None:
    """The signal that would separate a candidate from the finding if it were visible, of those that are not visible on
    the unit: what the finding's certainty lacks first, then what proves either, then what a sign of either rests on.
    Signals of features that are off decide nothing."""
    needed = [*own.recipe.optional]
    needed += [name for recipe in (candidate.recipe, own.recipe) for c in recipe.proof for name in c.signals]
    needed += [*candidate.not_seen, *own.not_seen]
    for name in dict.fromkeys(needed):
        signal = context.signals.get(name)
        shown = context.view.get(unit, name) is not None or context.view.gpus(unit, name)
        if signal is not None and not shown and (name in own.recipe.optional or not signal.feature):
            return name
    return None
