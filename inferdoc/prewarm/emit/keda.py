"""KEDA cron triggers (`keda.sh/v1alpha1` ScaledObject): one trigger per window, a floor because the HPA takes the
maximum."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import (
    TRIGGERS,
    EmitOptions,
    chosen,
    cron,
    fresh,
    labels,
    stamp_line,
    stamps,
    to_yaml,
)
from inferdoc.prewarm.emit.cronjob import expiry_by_stamp, image_line
from inferdoc.prewarm.emit.parts import SCALED_OBJECT, TriggerPlace, part_of
from inferdoc.prewarm.emit.patch_target import look, wrong_kind
from inferdoc.prewarm.emit.target import PrewarmTarget
from inferdoc.prewarm.emit.triggers import PREFIX, TriggerMerge, merged_triggers
from inferdoc.prewarm.plan import PlanRow, PoolPlan, hhmm
from inferdoc.prewarm.record import Settled, record_of, settle
from inferdoc.prewarm.week import DAYS, MINUTES, WeekWindow

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
    _need_triggers(pool, triggers)
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


def _need_triggers(pool: PoolPlan, triggers: list[dict[str, Any]]) -> None:
    if not triggers:
        raise InferdocError(
            f"pool {pool.row.name}: the plan is a constant {pool.row.base}; set minReplicaCount to it instead"
        )


def merged(
    existing: dict[str, Any], triggers: list[dict[str, Any]], plan: PlanRow, pool: PoolPlan
) -> tuple[dict[str, Any], list[str]]:
    """The existing ScaledObject with our triggers in place of those of an earlier plan and minReplicaCount at the
    plan's base or the user's own, whichever is higher; and what people should know. Refuses what would not work."""
    refuse_scaled_object(existing, triggers, pool.top)
    made = copy.deepcopy(existing)
    made.pop("status", None)
    metadata, spec = made.setdefault("metadata", {}), made.setdefault("spec", {})
    for key in SERVER_FIELDS:
        metadata.pop(key, None)
    merge, base = settled_object(existing, triggers, pool.row.base)
    spec["triggers"] = merge.triggers
    marks = metadata.setdefault("annotations", {})
    marks.update({**stamps(plan, pool.row), TRIGGERS: merge.record})
    if base.floor is not None and base.record is not None:
        spec["minReplicaCount"] = base.floor
        marks.update({key: value for key, value in base.record.annotations().items() if value is not None})
    return made, [*merge.notes, *base.notes]


def settled_object(
    existing: dict[str, Any], triggers: list[dict[str, Any]], base: int | None, place: TriggerPlace = SCALED_OBJECT
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
