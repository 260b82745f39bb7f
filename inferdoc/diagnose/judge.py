"""Every recipe on every unit, then roots, effects, look-alikes that were ruled out, and what could not be judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from inferdoc.catalogue.recipe import Recipe
from inferdoc.diagnose.context import Context
from inferdoc.diagnose.fold import Cause, fold, group
from inferdoc.diagnose.match import Verdict, judge_recipe
from inferdoc.diagnose.view import Unit
from inferdoc.fleet.members import Pool

PROGRESS = ("generation_tokens_rate", "prompt_tokens_rate", "step_rate", "request_rate")
LATENCY = ("ttft_mean", "itl_mean", "e2e_mean", "ttft_p99", "itl_p99", "e2e_p99", "tpot_request_mean")


@dataclass
class Judgement:
    """roots: best first; verdicts by recipe id and unit; episodes that ended as changes, not findings."""

    roots: list[Cause]
    verdicts: dict[str, dict[Unit, Verdict]] = field(default_factory=dict)
    recovered: list[Cause] = field(default_factory=list)


def judge(context: Context, recipes: Mapping[str, Recipe]) -> Judgement:
    """Judge all recipes on all units of a view."""
    verdicts: dict[str, dict[Unit, Verdict]] = {
        recipe.id: {unit: judge_recipe(recipe, context, unit) for unit in context.view.units}
        for recipe in recipes.values()
    }
    matches = [v.match for by_unit in verdicts.values() for v in by_unit.values() if v.match is not None]
    sizes: dict[Pool, int] = {}
    for member in context.view.fleet.members:
        sizes[member.pool] = sizes.get(member.pool, 0) + 1
    causes: list[Cause] = []
    recovered: list[Cause] = []
    for cause in group(matches, sizes):
        (recovered if _recovered(cause, context) else causes).append(cause)
    return Judgement(fold(causes, recipes, context.clock.window_steps), verdicts, recovered)


def _recovered(cause: Cause, context: Context) -> bool:
    """An outage that ended within the cold-start time of its tier is a restart, not an incident."""
    if not cause.recipe.recovers or ongoing(cause.last, context) or not _answers_again(cause, context):
        return False
    cold, _ = _cold_start(cause, context)
    return (cause.last - cause.onset) * context.view.step_seconds <= cold


def _answers_again(cause: Cause, context: Context) -> bool:
    """Whether every pod of the cause was scraped with success after the episode."""
    for match in cause.matches:
        up = context.view.get(match.unit, "target_up")
        if up is None or not (np.nan_to_num(up.values[match.last + 1 :]) > 0).any():
            return False
    return True


def _cold_start(cause: Cause, context: Context) -> tuple[float, str]:
    tier = context.tiers.tiers.get(cause.pool.tier) or context.tiers.tiers["unknown"]
    return tier.cold_start_s.value, cause.pool.tier


def ongoing(last: int, context: Context) -> bool:
    """Whether an episode that was last seen at this step still lasts: the calm since is shorter than an excursion."""
    return context.view.steps - 1 - last < max(context.clock.out_steps, 2 * context.clock.window_steps)


def can_judge(context: Context) -> bool:
    """Some unit has both traffic and one latency or progress signal in the window (else the verdict is unknown)."""
    return any(_busy(context, unit) and _readable(context, unit) for unit in context.view.units)


def _busy(context: Context, unit: Unit) -> bool:
    seen = (context.view.get(unit, name) for name in ("running", "waiting", *PROGRESS))
    return any(series is not None and bool((np.nan_to_num(series.values) > 0).any()) for series in seen)


def _readable(context: Context, unit: Unit) -> bool:
    return any(context.view.get(unit, name) is not None for name in (*PROGRESS, *LATENCY))
