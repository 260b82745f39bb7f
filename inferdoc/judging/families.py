"""Which mechanism is at work where users are affected and no cause is complete.

A cause needs all of its observations; its family needs one that shows the mechanism. So where no cause is found, the
first family that shows on most of the pods is the finding, with its causes as candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from msgspec import structs

from inferdoc.catalogue.family import Family
from inferdoc.judging.conditions import evaluate, prepare
from inferdoc.judging.context import Ask, Context, Outcome
from inferdoc.judging.fold import Cause
from inferdoc.judging.verdict import Evidence, Match


def name_mechanisms(roots: Iterable[Cause], context: Context, families: Mapping[str, Family]) -> None:
    """Give causes that nothing explains the name of the mechanism that shows; those without one stay as they are."""
    for root in roots:
        if root.recipe.kind == "unexplained":
            _name(root, context, families.values())


def _name(root: Cause, context: Context, families: Iterable[Family]) -> None:
    asks = [Ask(match.unit, match.onset, match.last) for match in root.matches]
    for family in families:
        prepare([family.shown] if family.shown is not None else [], context, asks)
        shown = [_shown(family, match, context) for match in root.matches]
        if 2 * sum(map(bool, shown)) > len(shown):
            named = structs.replace(
                root.recipe,
                id=family.id,
                family=family.id,
                title=family.title,
                phase=family.phase,
                next_steps=family.next_steps,
                look_alikes=(),
            )
            root.recipe = named
            root.matches = [
                replace(match, recipe=named, evidence=[*outcomes, *match.evidence])
                for match, outcomes in zip(root.matches, shown, strict=True)
            ]
            return


def _shown(family: Family, match: Match, context: Context) -> list[Evidence]:
    """What shows a mechanism on the pod of a match while its impact lasts."""
    if family.shown is None:
        return []
    outcome = evaluate(family.shown, context.at(match.onset, match.last), match.unit)
    seen = [one for one in outcome.parts or (outcome,) if one.holds and _lasts(one, match)]
    return [Evidence("symptom", leaf) for one in seen[:1] for leaf in one.leaves]


def _lasts(one: Outcome, match: Match) -> bool:
    """Whether an observation covers half of the impact: what only its first minutes show came with its beginning."""
    first, last = max(one.first or 0, match.onset), match.last if one.last is None else min(one.last, match.last)
    return 2 * (last - first + 1) >= match.last - match.onset + 1
