"""Sets one object's floor to the plan's current value, or restores the user's base floor without a usable plan.

Level-based: every run reads the object and the record on it; repeated, missed and half-failed runs converge. Dry run by
default. Where KEDA scales, our cron triggers are merged among the user's."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.escaping import page
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.emit.base import CEILING, OURS, PART, TRIGGERS, ZONE, EmitOptions, chosen, fresh, stamps
from inferdoc.prewarm.emit.cronjob import patch_command
from inferdoc.prewarm.emit.keda import refuse_llm_service, refuse_scaled_object, settled_object, trigger
from inferdoc.prewarm.emit.kinds import (
    SCALED_OBJECT,
    PatchTarget,
    TriggerPlace,
    in_domain,
    look,
    part_of,
    patch_target_of,
    put,
)
from inferdoc.prewarm.emit.metric import APPLIED, SET, UNFOLLOWED, metric_text, plan_metrics, values_of
from inferdoc.prewarm.emit.patches import refuse_object
from inferdoc.prewarm.kubectl import UNSET, Settled, own_floor, record_of, refuse_other_place, refuse_other_pool, settle
from inferdoc.prewarm.plan import PlanRow, PoolPlan


@dataclass(frozen=True)
class DesiredFloor:
    """The desired floor of an object. floor: now; top: the highest floor of the plan; maximum: never exceeded; stamp:
    annotations that name the plan."""

    floor: int
    top: int
    maximum: int
    stamp: dict[str, str]


@dataclass(frozen=True)
class PlanState:
    """The plan that a run applies. plan, pool, desired: None if there is nothing (the floor of a job has no plan); why:
    the reason for that; fault: the same as an error (None = the forecast abstained)."""

    plan: PlanRow | None = None
    pool: PoolPlan | None = None
    desired: DesiredFloor | None = None
    why: str = ""
    fault: InferdocError | None = None


def plan_state(plan: PlanRow, options: EmitOptions) -> PlanState:
    """The pool of a plan that is usable at `options.now`, or why there is none."""
    row = next((row for row in plan.pools if row.name == options.pool), None)
    if options.pool is None and len(plan.pools) == 1:
        row = plan.pools[0]
    if row is not None and row.forecast.abstained:
        return PlanState(why=f"the forecast abstained ({row.forecast.reason})")
    try:
        fresh(plan, options.now)
        pool = chosen(plan, options)
    except InferdocError as fault:
        if options.pool is None and len(plan.pools) != 1:
            raise
        return PlanState(why=str(fault), fault=fault)
    maximum = pool.row.maximum if options.maximum is None else min(pool.row.maximum, options.maximum)
    return PlanState(plan, pool, DesiredFloor(pool.at(options.now), pool.top, maximum, stamps(plan, pool.row)))


TRIES = 3


@dataclass(frozen=True)
class Applied:
    """before: the floor in the cluster (None in a dry run that did not read it); after: the desired floor (None =
    neither ours nor the user's); changed: whether a patch was sent; command: the kubectl command; notes: one line each;
    fault: why the plan was not followed; undone: what failed besides the floor."""

    before: int | None
    after: int | None
    changed: bool
    command: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fault: InferdocError | None = None
    undone: InferdocError | None = None


def apply(state: PlanState, kind: str, options: EmitOptions, really: bool, look_first: bool) -> Applied:
    """Sets the floor of `options.now` on the object `options.name`. With `really` the object is read, and patched if it
    differs; else nothing is sent. An object that would undo or ignore the floor gets its base floor back."""
    patched = patch_target_of(kind)
    if not really and not look_first:
        if state.plan is None or state.pool is None:
            return Applied(
                None, None, False, notes=[f"{state.why}: the user's base floor is restored"], fault=state.fault
            )
        floor, base = state.pool.at(options.now), state.pool.row.base
        if patched.subresource or patched.ceiling or options.maximum is not None:
            refuse_above_ceiling(patched, str(options.name), state.pool.top, base, options.maximum)
        return Applied(None, floor, False, patch_command(state.plan, state.pool, options, patched, floor, base))
    return retried(lambda: _settled(state, patched, options, really))


def retried(work: Callable[[], Applied]) -> Applied:
    """Reads and patches again if the object changed in between."""
    for attempt in range(TRIES):
        try:
            return work()
        except kubectl.ObjectChangedError:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _settled(state: PlanState, patched: PatchTarget, options: EmitOptions, really: bool) -> Applied:
    name = str(options.name)
    found = part_of(kubectl.get(patched.kubectl_resource, name, options.namespace), patched.domain)
    refuse_other_pool(found, str(options.pool))
    current = look(found, *patched.field)
    current = current if isinstance(current, int) else None
    record = record_of(found, current)
    state = _refused(state, patched, found, options, own_floor(found, current))
    settled = settle(current, record, None if state.desired is None else state.desired.floor)
    notes = [*([f"{state.why}: the user's base floor is restored"] if state.desired is None else []), *settled.notes]
    notes += _zone_note(found, state.desired)
    patch = _patch(state.desired, patched, found, settled)
    if patch is None:
        return Applied(current, settled.floor, False, [], notes, state.fault)
    if "annotations" in patch["metadata"]:
        patch["metadata"]["annotations"] = in_domain(patch["metadata"]["annotations"], patched.domain)
    patch["metadata"] |= kubectl.unchanged(found)
    command = kubectl.patch_words(patched.kubectl_resource, name, options.namespace, patch)
    if really:
        kubectl.run(command)
    return Applied(current, settled.floor, really, command, notes, state.fault)


def _refused(
    state: PlanState, patched: PatchTarget, found: dict[str, Any], options: EmitOptions, own: int
) -> PlanState:
    """The state without a plan if the object cannot, or must not, carry the plan. own: the user's own floor."""
    if state.pool is not None:
        refuse_other_place(state.pool.row, options, found)
    try:
        if state.desired is not None:
            refuse_object(patched, found, state.desired.top)
            refuse_above_ceiling(patched, str(options.name), state.desired.top, own, options.maximum, found)
    except InferdocError as fault:
        return PlanState(why=str(fault), fault=fault)
    return state


def _zone_note(found: dict[str, Any], desired: DesiredFloor | None) -> list[str]:
    old = look(found, "metadata", "annotations", ZONE)
    if desired is None or old is None or old == desired.stamp[ZONE]:
        return []
    return [f"the plan's time zone is {desired.stamp[ZONE]} now; that of the previous plan was {old}"]


def _patch(
    desired: DesiredFloor | None, patched: PatchTarget, found: dict[str, Any], settled: Settled
) -> dict[str, Any] | None:
    """The merge patch to the desired state, None if nothing differs. It contains only what differs, so that a field of
    the user is never written without need."""
    marks = look(found, "metadata", "annotations") or {}
    annotations: dict[str, str | None] = dict.fromkeys(OURS)
    fields: list[tuple[tuple[str, ...], int | None]] = []
    current = look(found, *patched.field)
    if settled.record is not None and desired is not None and settled.floor is not None:
        annotations |= {**desired.stamp, **settled.record.annotations()}
        patched.refuse(settled.floor)
        fields.append((patched.field, settled.floor))
        annotations[CEILING] = marks.get(CEILING)
        ceiling = None if patched.ceiling is None else look(found, *patched.ceiling)
        if patched.ceiling is not None and (ceiling is None or ceiling < settled.floor):
            before = marks[CEILING].split(",")[0] if CEILING in marks else UNSET if ceiling is None else str(ceiling)
            fields.append((patched.ceiling, desired.maximum))
            annotations[CEILING] = f"{before},{desired.maximum}"
    else:
        fields.append((patched.field, settled.floor))
        before, _, placed = marks.get(CEILING, "").partition(",")
        if patched.ceiling is not None and placed and placed == str(look(found, *patched.ceiling)):
            fields.append((patched.ceiling, None if before == UNSET else int(before)))
    patch: dict[str, Any] = {"metadata": {}}
    differing = {key: value for key, value in annotations.items() if marks.get(key) != value}
    if differing:
        patch["metadata"]["annotations"] = differing
    changed = False
    for path, value in fields:
        here = current if path == patched.field else look(found, *path)
        if here != value:
            put(patch, path, value)
            changed = True
    return patch if changed or differing else None


def run_metrics(
    plan: PlanRow | None, settled: Mapping[str, Applied], pools: Sequence[str], now: float, before: str
) -> str:
    """The metrics of a run, for a textfile collector. plan: None if it could not be read; settled: by pool; pools: all
    pools of the run; those that failed keep their values in `before`, the metrics of the last run."""
    planned: dict[str, dict[str, float]] = {}
    if plan is not None:
        every = plan_metrics(plan, EmitOptions(now=now))
        planned = {name: {p: v for p, v in values.items() if p in pools} for name, values in every.items()}
    own: dict[str, dict[str, float]] = {
        SET: {pool: result.after for pool, result in settled.items() if result.after is not None},
        APPLIED: {pool: math.floor(now) for pool in settled},
        UNFOLLOWED: {pool: float(result.fault is not None) for pool, result in settled.items()},
    }
    old = values_of(before)
    for pool in [pool for pool in pools if pool not in settled]:
        for name, values in own.items():
            if (name, pool) in old:
                values[pool] = old[name, pool]
    return metric_text({**planned, **own})


def sentence(result: Applied, name: str) -> str:
    """One line for people."""
    if result.changed and result.before != result.after:
        return f"{name}: floor {_word(result.before)} -> {_word(result.after)}"
    if result.before is not None and result.before == result.after:
        return f"{name}: floor is {result.after} already"
    if result.after is None:
        return f"{name}: no floor of ours"
    return f"{name}: floor should be {result.after} now (dry run; --yes applies it)"


def _word(value: int | None) -> str:
    return "unset" if value is None else str(value)


def lines(result: Applied, name: str) -> str:
    """The result of a run, with the command of a dry run and one line per note."""
    parts = [sentence(result, name)]
    if result.command and not result.changed and result.before != result.after:
        parts.append(shlex.join(result.command))
    notes = [f"{name}: {note}" for note in result.notes]
    return page([*parts, *notes]) + "\n"


MOST_TIMES = 20
"""Limit without a maximum: this many times the replicas without a plan. A wrong plan, or one of another fleet, differs
by more than a day's peak from its night."""
MAXIMUM = "maxReplicas"


def refuse_above_ceiling(
    patched: PatchTarget, name: str, top: int, own: int, given: int | None, found: dict[str, Any] | None = None
) -> None:
    """Raises InferdocError where `top`, the most replicas of the plan, is above `--max` (given), above the maximum of
    the object (found), or, without either, above a multiple of the user's own replicas (own)."""
    # Of a VariantAutoscaling the maximum is raised with the floor; a scale has none.
    stated = None if patched.ceiling or patched.subresource else look(found, *patched.field[:-1], MAXIMUM)
    for what, limit in (("--max", given), (MAXIMUM, stated)):
        if isinstance(limit, int) and 0 < limit < top:
            raise InferdocError(f"{patched.kind} {name} has {what} {limit}, the plan wants {top}; raise it first")
    if given is None and not stated and top > MOST_TIMES * max(1, own):
        raise InferdocError(
            f"{patched.kind} {name}: the plan wants {top} replicas, more than {MOST_TIMES} times the {own} without a "
            "plan, and no maximum is known; check the plan, or give --max"
        )


def apply_triggers(state: PlanState, place: TriggerPlace, options: EmitOptions, really: bool) -> Applied:
    """Sets the triggers and the base floor; the object is read in any case. A ScaledObject of ours without triggers is
    deleted: KEDA accepts none without."""
    return retried(lambda: _settle_triggers(state, place, options, really))


def _settle_triggers(state: PlanState, place: TriggerPlace, options: EmitOptions, really: bool) -> Applied:
    name = str(options.name)
    there = kubectl.get(place.kubectl_resource, name, options.namespace)
    found = part_of(there, place.domain)
    refuse_other_pool(found, str(options.pool))
    if state.pool is not None:
        refuse_other_place(state.pool.row, options, found)
    planned = [] if state.pool is None else [trigger(window, state.pool) for window in state.pool.windows]
    try:
        _refuse_triggers(found, place, planned, 0 if state.pool is None else state.pool.top, options)
    except InferdocError as fault:
        if not look(found, *place.trigger_path):
            raise  # the object carries nothing of ours, so there is nothing to restore
        state, planned = PlanState(why=str(fault), fault=fault), []
    merge, base = settled_object(there, planned, None if state.pool is None else state.pool.row.base, place)
    gone = [f"{state.why}: the user's base floor is restored"] if state.pool is None else []
    notes = [*gone, *merge.notes, *base.notes]
    before = look(found, *place.floor_path)
    if not merge.triggers and place is SCALED_OBJECT:
        if PART not in (look(found, "metadata", "labels") or {}):
            raise InferdocError(
                f"ScaledObject {name} has no trigger but ours, and KEDA takes none without: "
                "give it one that follows the load, or delete it"
            )
        words = ["kubectl", "delete", place.kubectl_resource, name, f"--namespace={options.namespace}"]
        return _sent(words, before, None, really, [*notes, "no trigger is left, so the ScaledObject goes"], state)
    patch: dict[str, Any] = {}
    if merge.triggers != (look(found, *place.trigger_path) or []):
        put(patch, place.trigger_path, merge.triggers)
    if base.floor != before:
        put(patch, place.floor_path, base.floor)
    marks = look(found, "metadata", "annotations") or {}
    annotations: dict[str, str | None] = dict.fromkeys(OURS)
    if state.plan is not None and state.pool is not None and base.record is not None:
        annotations |= {**stamps(state.plan, state.pool.row), **base.record.annotations(), TRIGGERS: merge.record}
    differing = {key: value for key, value in annotations.items() if marks.get(key) != value}
    if not patch and not differing:
        return Applied(before, base.floor, False, [], notes, state.fault)
    if differing:
        put(patch, ("metadata", "annotations"), in_domain(differing, place.domain))
    patch["metadata"] = {**patch.get("metadata", {}), **kubectl.unchanged(there)}
    words = kubectl.patch_words(place.kubectl_resource, name, options.namespace, patch)
    notes.append(f"{len(merge.triggers)} triggers, {len(planned)} of them planned")
    return _sent(words, before, base.floor, really, notes, state)


def _refuse_triggers(
    found: dict[str, Any], place: TriggerPlace, planned: list[dict[str, Any]], top: int, options: EmitOptions
) -> None:
    """InferdocError where the object could not hold the plan, or should not."""
    if options.maximum is not None and top > options.maximum:
        raise InferdocError(f"{options.name} has --max {options.maximum}, the plan wants {top}; raise it first")
    if place is SCALED_OBJECT:
        refuse_scaled_object(found, planned, top)
    elif not isinstance(refuse_llm_service(found, place.scaling, top).get("keda"), dict):
        raise InferdocError(
            f"LLMInferenceService {found['metadata'].get('name')} is scaled by WVA, not by KEDA: "
            f"use --target {place.word.removesuffix('-keda')}"
        )


def _sent(
    words: list[str], before: int | None, after: int | None, really: bool, notes: list[str], state: PlanState
) -> Applied:
    if really:
        kubectl.run(words)
    return Applied(before, after, really, words, notes, state.fault)
