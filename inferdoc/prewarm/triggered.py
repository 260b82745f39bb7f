"""`prewarm apply` where KEDA scales: our cron triggers among the user's, and the floor over the user's base."""

from __future__ import annotations

from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.apply import Applied, retried
from inferdoc.prewarm.emit.base import OURS, PART, TRIGGERS, EmitOptions, stamps
from inferdoc.prewarm.emit.keda import refuse_scaled_object, settled_object, trigger
from inferdoc.prewarm.emit.llm_service import refuse_llm_service
from inferdoc.prewarm.emit.parts import SCALED_OBJECT, TriggerPlace, in_domain, part_of
from inferdoc.prewarm.emit.patch_target import look, put
from inferdoc.prewarm.guide import PlanState
from inferdoc.prewarm.record import refuse_other_place, refuse_other_pool


def apply_triggers(state: PlanState, place: TriggerPlace, options: EmitOptions, really: bool) -> Applied:
    """Sets the triggers and the base floor; the object is read in any case. A ScaledObject of ours without triggers is
    deleted: KEDA accepts none without."""
    return retried(lambda: _settled(state, place, options, really))


def _settled(state: PlanState, place: TriggerPlace, options: EmitOptions, really: bool) -> Applied:
    name = str(options.name)
    there = kubectl.get(place.kubectl_resource, name, options.namespace)
    found = part_of(there, place.domain)
    refuse_other_pool(found, str(options.pool))
    if state.pool is not None:
        refuse_other_place(state.pool.row, options, found)
    planned = [] if state.pool is None else [trigger(window, state.pool) for window in state.pool.windows]
    try:
        _refuse(found, place, planned, 0 if state.pool is None else state.pool.top, options)
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


def _refuse(
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
