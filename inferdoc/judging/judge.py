"""Every recipe on every unit, then roots, effects, look-alikes that were ruled out, and what could not be judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs

from inferdoc.catalogue.conditions import AnyOf
from inferdoc.catalogue.recipe import Recipe
from inferdoc.catalogue.signal import WIDE
from inferdoc.fleet.members import Pool
from inferdoc.fleet.workloads import REPLICA_SET_POD
from inferdoc.judging.context import Context
from inferdoc.judging.fold import Cause, fold, group, score
from inferdoc.judging.impact import breaches
from inferdoc.judging.match import judge_recipe
from inferdoc.judging.verdict import Match, Verdict
from inferdoc.judging.view import Trace, Unit, by_family

PROGRESS = ("generation_tokens_rate", "prompt_tokens_rate", "step_rate", "request_rate")
LATENCY = (
    *("ttft_mean", "itl_mean", "e2e_mean", "ttft_p99", "itl_p99", "e2e_p99", "tpot_request_mean"),
    "inference_request_mean",
)
WAITS = (*LATENCY, "queue_time_mean", "router_ttft_mean")
WORK = ("running", "waiting", "request_rate", "arrival_rate", "prompt_tokens_rate", "generation_tokens_rate")
"""What an idle engine shows as 0."""
SEEN_SHARE = 0.5
"""Of the steps with work so many must show a latency: counts alone are no health, since tokens flow while a queue grows
(own choice; healthy fleets show 0.8 and more, pages without their latencies hardly any)."""
CONTAINER_STARTS, PROCESS_START = "kubelet_restarts", "process_start_time"
REPLACED = ("settings_changed", "image_changed", "container_image_changed")
ROUTER_FAILURES, FAILED_SHARE = "router_error_share", "error_share"
SLOWER = (*LATENCY, "router_ttft_mean")
"""Harm that is over once it is over."""

PAGED_AFTER_SECONDS = 90.0
"""The fastest page waits a minute and two scrapes of 15 s. Where nothing is known from before the window, less may
be the fault itself from end to end, and healthy in comparison with itself."""


@dataclass
class Judgement:
    """roots: those that last first, best first; verdicts by recipe id and unit."""

    roots: list[Cause]
    verdicts: dict[str, dict[Unit, Verdict]] = field(default_factory=dict)


def judge(context: Context, recipes: Mapping[str, Recipe]) -> Judgement:
    """Judge all recipes on all units of a view."""
    verdicts: dict[str, dict[Unit, Verdict]] = {
        recipe.id: _judge(_ways(recipe), context) for recipe in recipes.values()
    }
    matches = [v.match for by_unit in verdicts.values() for v in by_unit.values() if v.match is not None]
    odd = {m.unit for m in matches if m.recipe.kind == "unexplained"}
    matches += [match for match in breaches(context, recipes) if match.unit not in odd]
    lasting = [match for match in matches if _in_window(match, context)]
    causes = group(_nearest(lasting, context), lambda pool, step: _serving(context, pool, step))
    roots = fold(causes, recipes, context.clock.window_steps)
    for root in roots:
        root.again = _again(root, context) if root.recipe.id in recipes and root.recipe.kind != "telemetry" else []
    roots.sort(key=lambda one: (not ongoing(one.last, context), one.recipe.kind == "telemetry", -score(one), one.onset))
    return Judgement(roots, verdicts)


def _again(cause: Cause, context: Context) -> list[Match]:
    """The other episodes of a cause on the unit that shows it best: before and after it, and so far away that what lies
    between is long enough for a baseline."""
    unit, first, last = cause.best.unit, cause.best.onset, cause.best.last
    apart = context.clock.least_baseline
    times = context.at(None, first - apart), context.at(last + apart, None)
    found = (judge_recipe(cause.recipe, inside, [unit])[unit].match for inside in times)
    others = (one for one in found if one is not None and (one.last <= first - apart or one.onset >= last + apart))
    return [one for one in others if _in_window(one, context)]


def _in_window(match: Match, context: Context) -> bool:
    """Whether it reaches into the window and is more than a restart."""
    return match.last >= context.view.begin and not _recovered(match, context)


def _serving(context: Context, pool: Pool, step: int) -> int:
    """How many pods of a pool served at a step: who is born later, or has left, has no part in what happened then."""
    view = context.view
    members = [member.key for member in view.fleet.members if member.pool == pool]
    return sum(view.lineage.served(key, step - view.lead_steps) for key in members) or len(members)


def _ways(recipe: Recipe) -> list[Recipe]:
    """The recipe; harm without a known cause once for every kind of harm that it begins with. Which kind it is decides
    where the baseline ends, and of several kinds the first to show does."""
    first = recipe.symptoms[0]
    if recipe.kind != "unexplained" or not isinstance(first, AnyOf):
        return [recipe]
    return [structs.replace(recipe, symptoms=(one, *recipe.symptoms[1:])) for one in first.parts]


def _judge(ways: list[Recipe], context: Context) -> dict[Unit, Verdict]:
    """On every unit the verdict of the way that begins first, where one holds in the window: of those that begin with
    requests lost, if there are any, and of those that go on."""
    of_ways = [judge_recipe(way, context, context.view.units) for way in ways]
    return {unit: _first([verdicts[unit] for verdicts in of_ways], context) for unit in context.view.units}


def _first(verdicts: list[Verdict], context: Context) -> Verdict:
    matched = [(match, one) for one in verdicts if (match := one.match) is not None]
    lasting = [(match, one) for match, one in matched if _in_window(match, context)]
    first = min(lasting or matched, key=lambda each: _order(each[0], context), default=None)
    return verdicts[0] if first is None else first[1]


def _order(match: Match, context: Context) -> tuple[bool, bool, int]:
    """Whether it begins with slower answers, whether it is over, and when it begins."""
    return match.evidence[0].outcome.signal in SLOWER, not ongoing(match.last, context), match.onset


def _nearest(matches: list[Match], context: Context) -> list[Match]:
    """Harm without a known cause that shows above the pods (at a router) speaks for every pod of a model. Where some of
    them are affected themselves, they are the place of it; else the pool that the router sends to first."""
    odd = [m for m in matches if m.recipe.kind == "unexplained"]
    for match in odd:
        match.above = all(_is_wide(e.outcome.signal, context) for e in match.evidence if e.role == "harm")
    affected = {m.unit.member.pool.family for m in odd if not m.above}
    first = {m.unit.member.pool.family: m.unit.member.pool for m in reversed(odd) if m.above}
    places = {pool for family, pool in first.items() if family not in affected}
    return [m for m in matches if not m.above or m.unit.member.pool in places]


def _is_wide(signal: str, context: Context) -> bool:
    known = context.signals.get(signal)
    return known is not None and known.level in WIDE


def _recovered(match: Match, context: Context) -> bool:
    """An outage that ended within the cold-start time of its tier, and after which the pod was scraped with success, is
    a restart, not an incident; nor is one a few minutes in which answers were slower and none was lost."""
    if not match.recipe.recovers or ongoing(match.last, context):
        return False
    up = context.view.get(match.unit, "target_up")
    if up is None or not (np.nan_to_num(up.values[match.last + 1 :]) > 0).any():
        return False
    if _ended_by_itself(match, context) or _failed_requests(match, context):
        return False
    slower = all(e.outcome.signal in SLOWER for e in match.evidence if e.role == "harm")
    if not slower and not (up.values[match.onset : match.last + 1] < 0.5).any():  # work was lost otherwise
        return False
    cold = context.tiers.cold_start(match.unit.member.tier).value
    return (match.last - match.onset) * context.view.step_seconds <= cold


def _ended_by_itself(match: Match, context: Context) -> bool:
    """Whether the container of a pod was started again in its place: a planned end brings a new pod, a crash does not,
    and takes the requests with it. By the kubelet, else by the start time of the process in a pod of a Deployment,
    whose name a new pod does not have. What comes back with other settings or another image was replaced."""
    if any(_rises(context.view.get(match.unit, name), match, context) for name in REPLACED):
        return False
    starts = context.view.get(match.unit, CONTAINER_STARTS)
    key, lineage = match.unit.member.key, context.view.lineage
    if starts is None and key not in lineage.predecessor and REPLICA_SET_POD.fullmatch(match.unit.member.pod):
        starts = context.view.get(match.unit, PROCESS_START)
    return _rises(starts, match, context)


def _rises(series: Trace | None, match: Match, context: Context) -> bool:
    """Whether a count or a time is higher at the end than it was shortly before an episode."""
    if series is None:
        return False
    steps = np.flatnonzero(np.isfinite(series.values))
    before = np.searchsorted(steps, match.onset - context.clock.out_steps, side="right") - 1
    seen = series.values[steps[max(0, before) :]]
    return len(seen) > 1 and bool(seen[-1] > seen[0])


def _failed_requests(match: Match, context: Context) -> bool:
    """Whether requests failed at the router while a pod was away, more than before: no planned end, which drains."""
    shares = context.view.get(match.unit, ROUTER_FAILURES)
    if shares is None:
        return False
    limit = context.tiers.limit(FAILED_SHARE, match.unit.member.tier)
    failing = np.nan_to_num(shares.values) > limit
    begin = max(0, match.onset - context.clock.window_steps)
    return bool(failing[begin : match.last + 1].any() and 2 * failing[:begin].sum() <= begin)


def ongoing(last: int, context: Context) -> bool:
    """Whether an episode that was last seen at this step lasts to the newest sample: what is normal since is shorter
    than a deviation. Data that end are no end of it."""
    return context.view.newest - last < max(context.clock.out_steps, 2 * context.clock.window_steps)


def can_judge(context: Context, units: Sequence[Unit] | None = None) -> bool:
    """Some of the units (all, or these) have work in the window, and of every model with work the waits of its users
    were seen (else the verdict is unknown)."""
    among = context.view.units if units is None else units
    shares = [seen for of_model in by_family(among).values() if (seen := waits_seen(context, of_model)) is not None]
    return bool(shares) and min(shares) >= SEEN_SHARE


def waits_seen(context: Context, units: Sequence[Unit]) -> float | None:
    """The share (0..1) of the steps of the window with work at which these units show a latency; None without work."""
    view = context.view
    busy, seen = np.zeros(view.steps - view.begin, bool), np.zeros(view.steps - view.begin, bool)
    for unit in units:
        for name in (*WORK, *WAITS):
            series = view.get(unit, name)
            if series is not None:
                values = series.values[view.begin :]
                busy |= (values > 0) & (name in WORK)
                seen |= np.isfinite(values) & (name in WAITS)
    return float(seen[busy].mean()) if busy.any() else None


def short_of_steps(context: Context) -> int:
    """How many more steps there must be before a window can be called healthy: 0 where enough were compared. Healthy is
    a statement: what users wait for must have been seen for as long as a baseline and a deviation take, or be compared
    with an objective or a chosen baseline. Where nothing is known from before the window, twice the baseline: a
    change in the first of them has too little before it to be seen."""
    begin, need = context.view.lead_steps, context.clock.out_steps
    if context.view.lead is None:
        need += context.clock.least_baseline
    if context.view.begin == begin:
        need = max(need + context.clock.least_baseline, context.clock.steps(PAGED_AFTER_SECONDS, 0))
    if any(context.limits(unit) for unit in context.view.units):
        return 0
    seen = (context.view.get(unit, name) for unit in context.view.units for name in (*PROGRESS, *LATENCY))
    longest = max((int(np.isfinite(series.values[begin:]).sum()) for series in seen if series is not None), default=0)
    return max(0, need - longest)
