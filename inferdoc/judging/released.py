"""Impact that no cause explains and that started with a rollout is the rollout's.

Most settings are on no page: fewer places in the batch, another attention backend, a slower image. What shows is that
the pods that are affected run another pod template than those whose place they took, and started to serve when the
impact started. It stays possible: nothing shows what the template changed. Where no name shows the template (a
StatefulSet, a static target, an address alone), pods that most of their pool's starts surround are as new.

So is a machine that nothing accuses but the work of its pod, where the pod is slow from its first request on: a GPU
does not wait for a new process to slow down, but what the process was started with does, unless settings and image are
both shown and are as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from inferdoc.catalogue.conditions import Move
from inferdoc.catalogue.recipe import Recipe
from inferdoc.fleet.lineage import REPLACED_SECONDS, Key
from inferdoc.judging.conditions import evaluate
from inferdoc.judging.context import Context, Outcome
from inferdoc.judging.fold import Cause
from inferdoc.judging.match import BLUR
from inferdoc.judging.restarts import came_back, later_starts
from inferdoc.judging.verdict import Evidence, Match
from inferdoc.judging.view import Unit

REGRESSION, STARTED, UP = "config-regression", "process_start_time", "target_up"
SHOWN = ("settings_changed", "image_changed")
NEAR_SECONDS = 300.0
"""Impact that begins later after the first new pod serves than this is not the rollout's at first sight (as for the
changes that stand beside a finding)."""
MOST = 0.5
"""A rollout takes a pool; a pod that alone was started again was moved, or failed."""
MORE_LOAD = (
    Move(signal="arrival_rate", ratio=1.3, up=True, average=True),
    Move(signal="request_rate", ratio=1.3, up=True, average=True),
    Move(signal="prompt_tokens_per_request", ratio=1.3, up=True, average=True),
    Move(signal="output_len_mean", ratio=1.3, up=True, average=True),
)
"""Load that changed at the same time explains as much as the rollout does."""


def blame_rollouts(roots: list[Cause], context: Context, recipes: Mapping[str, Recipe]) -> list[Cause]:
    """The roots, with impact that started with a rollout as a regression that the rollout brought: impact that nothing
    explains, or a machine that only the work of its pods accuses."""
    recipe = recipes.get(REGRESSION)
    return roots if recipe is None else [_blamed(root, context, recipe) or root for root in roots]


def _blamed(root: Cause, context: Context, recipe: Recipe) -> Cause | None:
    # That clients changed their prompts in the minute in which the engines were started again is the less likely story.
    engine_is_suspect = root.recipe.kind == "unexplained" or root.recipe.scope == "tenant"
    if not engine_is_suspect and not _accused_by_work_alone(root, context):
        return None
    started: list[tuple[Match, int, str]] = []
    for match in root.matches:
        since = _released(match.unit, context) or (_started_anew if engine_is_suspect else _started_unseen)(
            match, context
        )
        if since is None:
            return None
        started.append((match, *since))
    near = NEAR_SECONDS / context.view.step_seconds if engine_is_suspect else BLUR * context.clock.window_steps
    if not -context.clock.window_steps <= root.onset - min(step for _, step, _ in started) <= near:
        return None
    if _unlike_its_own(root, context):
        return None
    matches = [_match(match, context, recipe, step, text) for match, step, text in started]
    kept = [match for match in matches if match is not None]
    return replace(root, recipe=recipe, matches=kept) if kept else None


def _accused_by_work_alone(root: Cause, context: Context) -> bool:
    """Whether a cause in the hardware shows in what its pods do, and in no counter of a device."""
    known = (e.outcome.signal for match in root.matches for e in match.evidence)
    devices = any(signal in context.signals and context.signals[signal].level == "gpu" for signal in known)
    return root.recipe.kind == "hardware" and not devices


def _unlike_its_own(root: Cause, context: Context) -> bool:
    """Whether another pod that the same template made is well: then it is not the template. What a process in an old
    pod was started with is no matter of its template (a tag, a mounted file)."""
    templates, lives = context.view.lineage.templates, context.view.lineage.lives
    affected = {templates.get(key, "") for key in root.pods if key in lives and lives[key].came} - {""}
    others = (m.key for m in context.view.fleet.members if m.pool == root.pool and m.key not in root.pods)
    return any(templates.get(key) in affected for key in others)


def _match(match: Match, context: Context, recipe: Recipe, started: int, text: str) -> Match | None:
    """The same episode as one of what a process started with at a step; None where something else explains it."""
    inside, unit = context.at(match.onset, match.last), match.unit
    required = (*(c for c in recipe.unless if c.when == "any"), *MORE_LOAD)
    if any(evaluate(condition, inside, unit).holds for condition in required):
        return None
    rollout = Outcome(True, text, STARTED, unit.name, first=started, last=match.last)
    return replace(match, recipe=recipe, evidence=[Evidence("symptom", rollout), *match.evidence], certainty="possible")


def _released(unit: Unit, context: Context) -> tuple[int, str] | None:
    """When a pod that a rollout brought started to serve, and what changed; None for any other pod."""
    templates = _templates(unit.member.key, context)
    if templates is None:
        return None
    old, new = templates
    born = context.view.lineage.lives[unit.member.key].born + context.view.lead_steps
    return born, f"it serves since a rollout changed its pod template from {old} to {new}"


def _started_unseen(match: Match, context: Context) -> tuple[int, str] | None:
    """When the process of a pod started, the start nearest to an episode, where what it was started with is not shown;
    None where it is, or where no process started."""
    if all(context.view.get(match.unit, name) is not None for name in SHOWN):
        return None
    starts = _starts(match.unit, context)
    if not starts:
        return None
    text = "it is slow since its process started; which settings or image it was started with is not shown"
    return min(starts, key=lambda step: abs(step - match.onset)), text


def _started_anew(match: Match, context: Context) -> tuple[int, str] | None:
    """The same of a pod whose template is unknown, where most of its pool was started in those minutes."""
    view, key = context.view, match.unit.member.key
    before = view.lineage.predecessor.get(key)
    if any(view.lineage.templates.get(each) for each in (key, before.key if before else key)):
        return None
    since = _started_unseen(match, context)
    if since is None:
        return None
    reach = REPLACED_SECONDS / view.step_seconds
    pool = [unit for unit in view.units if unit.member.pool == match.unit.member.pool]
    anew = [unit for unit in pool if any(abs(step - since[0]) <= reach for step in _starts(unit, context))]
    if len(anew) < MOST * len(pool):
        return None
    text = "it serves since most of its pool was started again; which settings or image with is not shown"
    return since[0], text


def _starts(unit: Unit, context: Context) -> list[int]:
    """The steps at which the process of a pod started, as far as its data show it."""
    view = context.view
    life = view.lineage.lives.get(unit.member.key)
    starts = [life.born + view.lead_steps] if life is not None and life.came else []
    up, times = view.get(unit, UP), view.get(unit, STARTED)
    for series, again in ((up, came_back), (times, later_starts)):
        if series is not None:
            steps = np.flatnonzero(np.isfinite(series.values))
            starts += steps[again(series.values[steps])].tolist() if len(steps) else []
    return starts


def _templates(key: Key, context: Context) -> tuple[str, str] | None:
    """The template of the pod whose place a pod took, and its own; None where they do not differ, or one is unknown."""
    lineage = context.view.lineage
    before = lineage.predecessor.get(key)
    old, new = "" if before is None else lineage.templates.get(before.key, ""), lineage.templates.get(key, "")
    return (old, new) if old and new and old != new else None
