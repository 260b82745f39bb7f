"""Impact that no cause explains and that began with a rollout is the rollout's.

Most settings are on no page: fewer places in the batch, another attention backend, a slower image. What shows is that
the pods that are hurt run another pod template than those whose place they took, and began to serve when the impact
began. It stays possible: nothing shows what the template changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from inferdoc.catalogue.conditions import Move
from inferdoc.catalogue.recipe import Recipe
from inferdoc.fleet.lineage import Key
from inferdoc.judging.conditions import evaluate
from inferdoc.judging.context import Context, Outcome
from inferdoc.judging.fold import Cause
from inferdoc.judging.match import Evidence, Match

REGRESSION, STARTED = "config-regression", "process_start_time"
NEAR_SECONDS = 300.0
"""Impact that begins later after the first new pod serves than this is not the rollout's at first sight (as for the
changes that stand beside a finding)."""
MORE_LOAD = (
    Move(signal="arrival_rate", ratio=1.3, up=True, average=True),
    Move(signal="request_rate", ratio=1.3, up=True, average=True),
    Move(signal="prompt_tokens_per_request", ratio=1.3, up=True, average=True),
    Move(signal="output_len_mean", ratio=1.3, up=True, average=True),
)
"""Load that changed at the same time explains as much as the rollout does."""


def blame_rollouts(roots: list[Cause], context: Context, recipes: Mapping[str, Recipe]) -> list[Cause]:
    """The roots, with unexplained impact that began with a rollout as a regression that the rollout brought."""
    recipe = recipes.get(REGRESSION)
    return roots if recipe is None else [_blamed(root, context, recipe) or root for root in roots]


def _blamed(root: Cause, context: Context, recipe: Recipe) -> Cause | None:
    if root.recipe.kind != "unexplained" or any(_templates(key, context) is None for key in root.pods):
        return None
    births = [context.view.lineage.lives[key].born + context.view.lead_steps for key in root.pods]
    near = NEAR_SECONDS / context.view.step_seconds
    if not -context.clock.window_steps <= root.onset - min(births) <= near:
        return None
    matches = [_match(match, context, recipe) for match in root.matches]
    kept = [match for match in matches if match is not None]
    return replace(root, recipe=recipe, matches=kept) if kept else None


def _match(match: Match, context: Context, recipe: Recipe) -> Match | None:
    """The same episode as one of the rollout; None where something else explains it."""
    inside, unit = context.at(match.onset, match.last), match.unit
    templates = _templates(unit.member.key, context)
    asked = (*(c for c in recipe.unless if c.when == "any"), *MORE_LOAD)
    if templates is None or any(evaluate(condition, inside, unit).holds for condition in asked):
        return None
    old, new = templates
    born = context.view.lineage.lives[unit.member.key].born + context.view.lead_steps
    text = f"it serves since a rollout changed its pod template from {old} to {new}"
    rollout = Outcome(True, text, STARTED, unit.name, first=born, last=match.last)
    return replace(match, recipe=recipe, evidence=[Evidence("symptom", rollout), *match.evidence], certainty="possible")


def _templates(key: Key, context: Context) -> tuple[str, str] | None:
    """The template of the pod whose place a pod took, and its own; None where they do not differ, or one is unknown."""
    lineage = context.view.lineage
    before = lineage.predecessor.get(key)
    old, new = "" if before is None else lineage.templates.get(before.key, ""), lineage.templates.get(key, "")
    return (old, new) if old and new and old != new else None
