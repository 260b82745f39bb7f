"""`prewarm apply` on a ScaledObject: our cron triggers among the user's, and minReplicaCount over the user's base."""

from __future__ import annotations

from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.apply import Applied
from inferdoc.prewarm.emit.base import OURS, PART, TRIGGERS, EmitOptions, stamps
from inferdoc.prewarm.emit.keda import RESOURCE, refuse_scaled_object, settled_object, trigger
from inferdoc.prewarm.guide import Guide
from inferdoc.prewarm.record import refuse_other_pool


def apply_triggers(led: Guide, options: EmitOptions, really: bool) -> Applied:
    """Settles the triggers and the base; the object is looked at in any case. A ScaledObject of our own that has no
    triggers left is deleted: KEDA takes none without."""
    name = str(options.name)
    found = kubectl.get(RESOURCE, name, options.namespace)
    refuse_other_pool(found, str(options.pool))
    wanted = [] if led.pool is None else [trigger(window, led.pool) for window in led.pool.windows]
    try:
        refuse_scaled_object(found, wanted, 0 if led.pool is None else led.pool.top)
    except InferdocError as fault:
        led, wanted = Guide(why=str(fault), fault=fault), []
    metadata, spec = found.get("metadata") or {}, found.get("spec") or {}
    told, base = settled_object(found, wanted, None if led.pool is None else led.pool.row.base)
    gone = [f"{led.why}: the user's base comes back"] if led.pool is None else []
    notes = [*gone, *told.notes, *base.notes]
    before = spec.get("minReplicaCount")
    if not told.triggers and PART in (metadata.get("labels") or {}):
        words = ["kubectl", "delete", RESOURCE, name, f"--namespace={options.namespace}"]
        return _sent(words, before, None, really, [*notes, "no trigger is left, so the ScaledObject goes"], led)
    patch: dict[str, Any] = {"metadata": {}, "spec": {}}
    if told.triggers != spec.get("triggers"):
        patch["spec"]["triggers"] = told.triggers
    if base.floor != before:
        patch["spec"]["minReplicaCount"] = base.floor
    marks = metadata.get("annotations") or {}
    said: dict[str, str | None] = dict.fromkeys(OURS)
    if led.plan is not None and led.pool is not None and base.record is not None:
        said |= {**stamps(led.plan, led.pool.row), **base.record.annotations(), TRIGGERS: told.record}
    differing = {key: value for key, value in said.items() if marks.get(key) != value}
    if differing:
        patch["metadata"]["annotations"] = differing
    if not patch["spec"] and not differing:
        return Applied(before, base.floor, False, [], notes, led.fault)
    patch["metadata"] |= kubectl.unchanged(found)
    words = kubectl.patch_words(RESOURCE, name, options.namespace, patch)
    notes.append(f"{len(told.triggers)} triggers, {len(wanted)} of them planned")
    return _sent(words, before, base.floor, really, notes, led)


def _sent(
    words: list[str], before: int | None, after: int | None, really: bool, notes: list[str], led: Guide
) -> Applied:
    if really:
        kubectl.run(words)
    return Applied(before, after, really, words, notes, led.fault)
