"""Reads an emitted text back by the rules of the component that runs it, for comparison with the plan."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import yaml

from inferdoc.catalogue.yaml_text import load_all_yaml
from inferdoc.errors import InferdocError
from inferdoc.prewarm import reference_check
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.parts import TriggerPlace, part_of, place_on
from inferdoc.prewarm.emit.patch_target import BY_WORD, PatchTarget, look, patch_target_of
from inferdoc.prewarm.emit.registry import target_of
from inferdoc.prewarm.emit.triggers import PREFIX
from inferdoc.prewarm.plan import PlanRow, pool_plan
from inferdoc.prewarm.record import own_floor
from inferdoc.prewarm.reference_check import MinuteSpan


def objects(text: str) -> list[dict[str, Any]]:
    try:
        found = [o for o in load_all_yaml(text) if o is not None]
    except yaml.YAMLError as fault:
        raise InferdocError(f"the manifest is no YAML: {str(fault).splitlines()[0]}") from fault
    if not all(isinstance(o, dict) for o in found):
        raise InferdocError("the manifest holds something that is no object")
    return found


def patched_object(target: str, options: EmitOptions, plan: PlanRow) -> PatchTarget:
    """What the jobs of a target hold the floor of."""
    if look(options.existing, "kind") == "LLMInferenceService":
        return BY_WORD["llm-service-prefill" if plan.pools[0].role == "prefill" else "llm-service"]
    if target == "cronjob" and options.kind is not None:
        return patch_target_of(options.kind)
    return _patched(target)


def _patched(target: str) -> PatchTarget:
    found = target_of(target).patched
    if found is None:
        raise InferdocError(f"target `{target}` patches no object")
    return found


def place_of(obj: dict[str, Any], plan: PlanRow) -> TriggerPlace | None:
    """Where KEDA's triggers for the plan's pool stand on an object; None on one that KEDA does not scale."""
    place = place_on(obj, plan.pools[0].role)
    there = place.kind == "ScaledObject" or isinstance(look(obj, *place.scaling, "keda"), dict)
    return place if obj.get("kind") == place.kind and there else None


def planned_floor(span: MinuteSpan, plan: PlanRow, target: str, options: EmitOptions) -> np.ndarray:
    """int64[count]: the plan's windows, in groups for a LeaderWorkerSet, and never under what the object has of its
    own."""
    planned = reference_check.intent(span, msgspec.to_builtins(plan.pools[0]))
    if target == "lws":
        planned = -(-planned // options.per_group)
    return np.asarray(np.maximum(planned, _own(span, plan, target, options)))


def _own(span: MinuteSpan, plan: PlanRow, target: str, options: EmitOptions) -> np.ndarray:
    existing = options.existing
    if existing is None or existing.get("kind") == "CustomResourceDefinition":
        return np.zeros(span.count, dtype=np.int64)
    scaled = _keda_spec(existing, plan)
    if scaled is None:
        patched = patch_target_of("hpa") if target == "hpa" else patched_object(target, options, plan)
        return np.full(span.count, own_floor(part_of(existing, patched.domain), look(existing, *patched.field)))
    place = place_on(existing, plan.pools[0].role)
    base = own_floor(part_of(existing, place.domain), scaled.get("minReplicaCount"), place.absent)
    theirs = [t for t in scaled["triggers"] if not str(t.get("name", "")).startswith(PREFIX)]
    return reference_check.keda_floor(span, {"minReplicaCount": base, "triggers": theirs})


def _keda_spec(obj: dict[str, Any], plan: PlanRow) -> dict[str, Any] | None:
    """minReplicaCount and triggers of an object that KEDA scales."""
    place = place_of(obj, plan)
    if place is None:
        return None
    return {"minReplicaCount": look(obj, *place.floor_path), "triggers": look(obj, *place.trigger_path) or []}


def emitted_floor(span: MinuteSpan, plan: PlanRow, text: str, target: str, options: EmitOptions) -> np.ndarray:
    """int64[count]: the floor at each minute when `text` is applied and nothing else happens."""
    known = target_of(target)
    if known.read_week is not None:
        return known.read_week(span, text, options, _level(span, plan))
    found = objects(text)
    scaled = _keda_spec(found[0], plan)
    if scaled is not None:
        return reference_check.keda_floor(span, scaled)
    if known.patched is not None:
        return reference_check.cronjob_floor(span, found, patched_object(target, options, plan).word)
    raise InferdocError(f"target `{target}` cannot be checked")


def _level(span: MinuteSpan, plan: PlanRow) -> np.ndarray:
    """int64[count]: what `prewarm apply` would set at each minute, by the code that it runs."""
    pool = pool_plan(plan.pools[0])
    clock, weekday = span.wall(pool.row.zone)
    return np.asarray(pool.floor[(weekday - 1) % 7 * 1440 + clock])
