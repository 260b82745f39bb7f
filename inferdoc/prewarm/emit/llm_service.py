"""LLMInferenceService of KServe: cron triggers merged into those of KEDA, or CronJobs on the floor where WVA scales
it. Its prefill pods are scaled apart."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import TRIGGERS, EmitOptions, chosen, fresh, stamp_line, stamps, to_yaml
from inferdoc.prewarm.emit.cronjob import cronjob_for, expiry_by_stamp, image_line
from inferdoc.prewarm.emit.keda import SERVER_FIELDS, settled_object, trigger
from inferdoc.prewarm.emit.parts import SERVICE, in_domain, place_on
from inferdoc.prewarm.emit.patch_target import look, patch_target_of, put, wrong_kind
from inferdoc.prewarm.plan import PlanRow


def llm_service(plan: PlanRow, options: EmitOptions, existing: dict[str, Any]) -> str:
    """The object with the plan's windows among its triggers and what ends them; or CronJobs that hold its floor."""
    fresh(plan, options.now)
    pool = chosen(plan, options)
    place = place_on(existing, pool.row.role)
    scaling = refuse_llm_service(existing, place.scaling, pool.top)
    name = str(look(existing, "metadata", "name") or pool.row.name)
    if pool.row.base < 1:
        raise InferdocError("an LLMInferenceService takes no floor below 1; plan with --min 1 or more")
    if isinstance(scaling.get("wva"), dict):
        word = "llm-service-prefill" if pool.row.role == "prefill" else "llm-service"
        return cronjob_for(plan, replace(options, name=name), patch_target_of(word))
    made = copy.deepcopy(existing)
    made.pop("status", None)
    for key in SERVER_FIELDS:
        made["metadata"].pop(key, None)
    marks = made["metadata"].setdefault("annotations", {})
    merge, base = settled_object(existing, [trigger(w, pool) for w in pool.windows], pool.row.base, place)
    put(made, place.trigger_path, merge.triggers)
    put(made, place.floor_path, base.floor)
    own: dict[str, str] = {**stamps(plan, pool.row), TRIGGERS: merge.record}
    if base.record is not None:
        own |= {key: value for key, value in base.record.annotations().items() if value is not None}
    marks.update(in_domain(own, place.domain))
    placed = replace(options, name=name, namespace=look(existing, "metadata", "namespace") or options.namespace)
    comments = [
        f"Cron triggers merged into {'.'.join(place.trigger_path)}.",
        f"`inferdoc prewarm apply --target {place.word} --name {name}` each day renews them.",
        "The CronJob takes them out and puts your own minReplicas back once the plan has expired unrenewed.",
        image_line(options.image),
    ]
    return to_yaml(
        [made, *expiry_by_stamp(plan, pool, placed, place)], [stamp_line(plan), *comments, *merge.notes, *base.notes]
    )


def refuse_llm_service(existing: dict[str, Any], where: tuple[str, ...], top: int) -> dict[str, Any]:
    """What scales the service, at the path `where`. InferdocError where nothing does, or where it could not hold the
    plan; top: the highest floor of the plan."""
    if existing.get("kind") != "LLMInferenceService":
        raise wrong_kind(existing, "LLMInferenceService")
    name, scaling = look(existing, "metadata", "name"), look(existing, *where)
    if not isinstance(scaling, dict):
        raise InferdocError(
            f"LLMInferenceService {name} has no {'.'.join(where)}: with `replicas` alone nothing scales it"
        )
    limit = scaling.get(SERVICE.ceiling)
    if isinstance(limit, int) and limit < top:
        raise InferdocError(f"LLMInferenceService {name} has maxReplicas {limit}, the plan wants {top}; raise it first")
    if not any(isinstance(scaling.get(scaler), dict) for scaler in ("wva", "keda")):
        raise InferdocError(f"LLMInferenceService {name}: {'.'.join(where)} holds neither keda nor wva")
    return scaling
