"""KEDA cron triggers, one per window, merged with those of a ScaledObject or of an LLMInferenceService of KServe.

They are a floor, because the HPA takes the maximum. KEDA replaces the list of triggers as a whole."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import TRIGGERS, EmitOptions, chosen, cron, fresh, labels, stamp_line, stamps, to_yaml
from inferdoc.prewarm.emit.cronjob import cronjob_for, expiry_by_stamp, image_line
from inferdoc.prewarm.emit.kinds import (
    SCALED_OBJECT,
    SERVICE,
    TriggerPlace,
    in_domain,
    look,
    part_of,
    patch_target_of,
    place_on,
    put,
    refuse_ceiling,
    refuse_other_kind,
    wrong_kind,
)
from inferdoc.prewarm.emit.registry import PrewarmTarget
from inferdoc.prewarm.kubectl import Settled, record_of, settle
from inferdoc.prewarm.plan import PlanRow, PoolPlan, hhmm
from inferdoc.prewarm.week import DAYS, MINUTES, WeekWindow

PREFIX = "inferdoc-prewarm-"


@dataclass(frozen=True)
class TriggerMerge:
    """triggers: the whole list, the user's first; record: what to remember of ours (name=digest, comma-separated; empty
    = nothing); notes: what people should know."""

    triggers: list[dict[str, Any]]
    record: str
    notes: list[str] = field(default_factory=list)


def merged_triggers(old: list[dict[str, Any]], planned: list[dict[str, Any]], record: str | None) -> TriggerMerge:
    """The user's triggers with those the plan wants. record: as a former merge left it; None: there was none, so that
    every trigger under our prefix is ours.

    A trigger of ours that was changed by hand is the user's from then on and replaces the plan's of that name; one that
    was taken out by hand stays out until the plan wants another. InferdocError where nothing at all scales the object
    yet."""
    if not old:
        raise InferdocError("the object has no triggers at all; a floor needs an autoscaler")
    placed = None if record is None else _placed(record)
    kept, notes = [], []
    for trigger in old:
        name = str(trigger.get("name", ""))
        if not name.startswith(PREFIX):
            kept.append(trigger)
        elif placed is not None and placed.get(name) != _digest(trigger):
            kept.append(trigger)
            notes.append(
                f"trigger {name} was changed by hand and is kept as the user's; delete it to restore the plan's"
            )
    theirs = {str(trigger.get("name", "")) for trigger in kept}
    there = {str(trigger.get("name", "")) for trigger in old}
    ours = []
    for trigger in planned:
        name = trigger["name"]
        if placed is not None and name not in there and placed.get(name) == _digest(trigger):
            notes.append(f"trigger {name} was taken out by hand and stays out until the plan changes")
        elif name not in theirs:
            ours.append(trigger)
    return TriggerMerge([*kept, *ours], ",".join(f"{t['name']}={_digest(t)}" for t in planned), notes)


def untouched(triggers: list[dict[str, Any]], record: str) -> bool:
    """Whether the triggers under our prefix are as a former merge left them."""
    ours = [t for t in triggers if str(t.get("name", "")).startswith(PREFIX)]
    return {str(t["name"]): _digest(t) for t in ours} == _placed(record)


def _digest(trigger: dict[str, Any]) -> str:
    """The digest of the fields that we write: defaults that the API server fills in do not count."""
    content = {key: trigger.get(key) for key in ("type", "name", "metadata")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _placed(record: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in record.split(",") if part]
    return {name: digest for name, _, digest in pairs}


DEFAULT_MAX = 100
SERVER_FIELDS = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")
PAUSED = ("autoscaling.keda.sh/paused", "autoscaling.keda.sh/paused-replicas", "autoscaling.keda.sh/paused-scale-out")


def keda_cron(plan: PlanRow, options: EmitOptions) -> str:
    """A ScaledObject with the plan's windows as cron triggers. With `existing` its other triggers and settings are kept
    and only the triggers of an earlier plan are replaced."""
    fresh(plan, options.now)
    pool = chosen(plan, options)
    triggers = [trigger(window, pool) for window in pool.windows]
    if options.existing is None:
        made = scaled_object(plan, pool, options, triggers)
        comments = [
            "Only the prewarm triggers: without triggers that follow the load this would replace your autoscaler.",
            "Give the ScaledObject you have with --existing FILE and the two are merged.",
        ]
    else:
        refuse_scaled_object(options.existing, triggers, pool.top)
        made, notes = merged(options.existing, triggers, plan, pool)
        comments = ["Merged with the existing ScaledObject.", *notes]
    meta = made["metadata"]
    placed = replace(options, name=str(meta.get("name")), namespace=meta.get("namespace", options.namespace))
    comments += [
        f"`inferdoc prewarm apply --target keda-cron --name {placed.name}` each day renews the triggers.",
        "The CronJob takes them out and puts your own minReplicaCount back once the plan has expired unrenewed.",
        image_line(options.image),
    ]
    return to_yaml([made, *expiry_by_stamp(plan, pool, placed, SCALED_OBJECT)], [stamp_line(plan), *comments])


def trigger(window: WeekWindow, pool: PoolPlan) -> dict[str, Any]:
    """A cron trigger. All metadata are strings; a start must be followed by its own end before the next start."""
    if not alternates(window):
        raise InferdocError(
            f"window {hhmm(window.start)} on {window.days}: starts and ends do not alternate; KEDA would misread it"
        )
    if window.replicas < 1:
        raise InferdocError("a cron trigger cannot ask for 0 replicas")
    days = "-".join(DAYS[d] for d in ((window.days[0], window.days[-1]) if len(window.days) > 1 else window.days))
    return {
        "type": "cron",
        "name": f"{PREFIX}{days}-{hhmm(window.start).replace(':', '')}-{window.replicas}",
        "metadata": {
            "timezone": pool.row.zone,
            "start": cron(window.start, window.days),
            "end": cron(window.end, window.end_days),
            "desiredReplicas": str(window.replicas),
        },
    }


def alternates(window: WeekWindow) -> bool:
    """Whether the window's weekly starts and ends occur strictly in turn."""
    starts = sorted(day * 1440 + window.start for day in window.days)
    gaps = [(starts[(i + 1) % len(starts)] - start) % MINUTES or MINUTES for i, start in enumerate(starts)]
    return all(0 < window.length < gap for gap in gaps)


def scaled_object(
    plan: PlanRow, pool: PoolPlan, options: EmitOptions, triggers: list[dict[str, Any]]
) -> dict[str, Any]:
    """A ScaledObject of its own, for a workload that has none."""
    name = options.name or pool.row.name
    if not triggers:
        raise InferdocError(
            f"pool {pool.row.name}: the plan is a constant {pool.row.base}; set minReplicaCount to it instead"
        )
    marks = {**stamps(plan, pool.row), TRIGGERS: merged_triggers(triggers, triggers, None).record}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {
            "name": name,
            "namespace": options.namespace,
            "labels": labels(pool.row.name),
            "annotations": marks,
        },
        "spec": {
            "scaleTargetRef": {"name": options.workload or name},
            "minReplicaCount": pool.row.base,
            "maxReplicaCount": pool.row.maximum,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": gentle()}},
            "triggers": triggers,
        },
    }


def gentle() -> dict[str, Any]:
    """Scale-down one pod per five minutes: at the end of a window pods still serve."""
    return {
        "scaleDown": {
            "stabilizationWindowSeconds": 300,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}],
        }
    }


def merged(
    existing: dict[str, Any],
    triggers: list[dict[str, Any]],
    plan: PlanRow,
    pool: PoolPlan,
    place: TriggerPlace = SCALED_OBJECT,
) -> tuple[dict[str, Any], list[str]]:
    """The existing object with our triggers in place of those of an earlier plan and its floor at the plan's base or
    the user's own, whichever is higher; and what people should know."""
    made = copy.deepcopy(existing)
    made.pop("status", None)
    metadata = made.setdefault("metadata", {})
    for key in SERVER_FIELDS:
        metadata.pop(key, None)
    merge, base = settled_object(existing, triggers, pool.row.base, place)
    put(made, place.trigger_path, merge.triggers)
    put(made, place.floor_path, base.floor)
    kept = {} if base.record is None else base.record.annotations()
    own = {**stamps(plan, pool.row), TRIGGERS: merge.record, **{k: v for k, v in kept.items() if v is not None}}
    metadata.setdefault("annotations", {}).update(in_domain(own, place.domain))
    return made, [*merge.notes, *base.notes]


def settled_object(
    existing: dict[str, Any], triggers: list[dict[str, Any]], base: int | None, place: TriggerPlace
) -> tuple[TriggerMerge, Settled]:
    """The triggers and the floor that an object should have. base: the plan's, None where there is none to follow."""
    seen = part_of(existing, place.domain)
    record = look(seen, "metadata", "annotations", TRIGGERS)
    merge = merged_triggers(look(existing, *place.trigger_path) or [], triggers, record)
    current = look(existing, *place.floor_path)
    return merge, settle(current, record_of(seen, current, place.absent), base, place.absent)


def refuse_scaled_object(existing: dict[str, Any], triggers: list[dict[str, Any]], top: int) -> None:
    """InferdocError where the object is another, is paused, or could not hold the plan; top: the most replicas the
    triggers ask for."""
    if existing.get("kind") != "ScaledObject" or not str(existing.get("apiVersion", "")).startswith("keda.sh/"):
        raise wrong_kind(existing, "keda.sh ScaledObject")
    metadata, spec = existing.get("metadata") or {}, existing.get("spec") or {}
    name = metadata.get("name", "?")
    marks = [mark for mark in PAUSED if str((metadata.get("annotations") or {}).get(mark, "false")).lower() != "false"]
    if marks:
        raise InferdocError(
            f"ScaledObject {name} carries {marks[0]}: a paused object ignores the plan; take the annotation off first"
        )
    limit = int(spec.get(SCALED_OBJECT.ceiling, DEFAULT_MAX))
    if top > limit:
        raise InferdocError(
            f"the plan wants {top} replicas, maxReplicaCount of ScaledObject {name} is {limit}; raise it first"
        )
    formula = ((spec.get("advanced") or {}).get("scalingModifiers") or {}).get("formula")
    if formula and any(not re.search(rf"\b{re.escape(t['name'])}\b", formula) for t in triggers):
        raise InferdocError(
            f"ScaledObject {name} has a scalingModifiers.formula: a cron trigger it does not name is ignored"
        )


TARGETS = {"keda-cron": PrewarmTarget(keda_cron)}


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
    made, notes = merged(existing, [trigger(window, pool) for window in pool.windows], plan, pool, place)
    placed = replace(options, name=name, namespace=look(existing, "metadata", "namespace") or options.namespace)
    comments = [
        f"Cron triggers merged into {'.'.join(place.trigger_path)}.",
        f"`inferdoc prewarm apply --target {place.word} --name {name}` each day renews them.",
        "The CronJob takes them out and puts your own minReplicas back once the plan has expired unrenewed.",
        image_line(options.image),
    ]
    return to_yaml([made, *expiry_by_stamp(plan, pool, placed, place)], [stamp_line(plan), *comments, *notes])


def refuse_llm_service(existing: dict[str, Any], where: tuple[str, ...], top: int) -> dict[str, Any]:
    """The scaling stanza of the service at the path `where`. InferdocError if there is none, or if its maximum is below
    the plan; top: the highest floor of the plan."""
    refuse_other_kind(existing, "LLMInferenceService")
    name, scaling = look(existing, "metadata", "name"), look(existing, *where)
    if not isinstance(scaling, dict):
        raise InferdocError(
            f"LLMInferenceService {name} has no {'.'.join(where)}: with `replicas` alone nothing scales it"
        )
    refuse_ceiling(f"LLMInferenceService {name}", scaling.get(SERVICE.ceiling), top)
    if not any(isinstance(scaling.get(scaler), dict) for scaler in ("wva", "keda")):
        raise InferdocError(f"LLMInferenceService {name}: {'.'.join(where)} holds neither keda nor wva")
    return scaling
