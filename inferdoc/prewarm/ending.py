"""Jobs in the cluster that `prewarm apply` installs: those of its target `cronjob`, and the one that gives an object
back once the plan on it has expired and no run comes any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.apply import Applied, apply
from inferdoc.prewarm.emit.base import EmitOptions, changes, prune_words, selector, to_yaml
from inferdoc.prewarm.emit.cronjob import cronjob_for, expiry_by_stamp, expiry_name, over_own_floor
from inferdoc.prewarm.emit.parts import TriggerPlace
from inferdoc.prewarm.emit.patch_target import PatchTarget, look, patch_target_of
from inferdoc.prewarm.guide import Guide

KINDS = "cronjobs,serviceaccounts,roles,rolebindings"


def apply_jobs(led: Guide, options: EmitOptions, really: bool) -> Applied:
    """The floor first, then the jobs; what a failure leaves undone, the next run does. The object is looked at in any
    case."""
    aim = patch_target_of(options.kind or "HorizontalPodAutoscaler")
    result = apply(led, aim.kind, options, really, look_first=True)
    pool, text = str(options.pool), None
    words = ["kubectl", "delete", KINDS, f"--selector={selector(pool)}", f"--namespace={options.namespace}"]
    if led.plan is not None and led.pool is not None and result.fault is None:
        found = kubectl.get(aim.kubectl_resource, str(options.name), options.namespace)
        if changes(over_own_floor(led.pool, found, aim)[0]):
            words = prune_words(pool, options.namespace)
            text = cronjob_for(led.plan, replace(options, existing=found), aim)
    if really:
        kubectl.run(words, text)
    return result


POD = ("spec", "jobTemplate", "spec", "template", "spec", "containers")


def with_ending(
    result: Applied, led: Guide, place: TriggerPlace | PatchTarget, options: EmitOptions, really: bool
) -> Applied:
    """The result of a run, after the job is in place beside what follows a plan, or is gone with the last of it. A
    failure leaves the object as it is and is reported beside it; the next run tries again."""
    try:
        return replace(result, notes=[*result.notes, *_settled(result, led, place, options, really)])
    except InferdocError as fault:
        undone = type(fault)(f"the job that ends the plan is not in place: {fault}; --no-expiry goes without it")
        return replace(result, undone=undone)


def _settled(
    result: Applied, led: Guide, place: TriggerPlace | PatchTarget, options: EmitOptions, really: bool
) -> list[str]:
    pool, namespace = str(options.pool), f"--namespace={options.namespace}"
    name = expiry_name(pool)
    there = _there(name, options.namespace)
    prunes = isinstance(place, TriggerPlace)
    if led.plan is None or led.pool is None or result.fault is not None:
        ours = [KINDS, f"--selector={selector(pool)}"] if prunes else ["cronjobs", name]
        if there is not None and really:
            kubectl.run(["kubectl", "delete", *ours, namespace])
        return [] if there is None else [f"CronJob {name} goes with the plan"]
    objects = expiry_by_stamp(led.plan, led.pool, options, place)
    if there is not None and _alike(there, objects[-1]):
        return []
    if really:
        # Beside a floor there may be the jobs of the target daily under the same label, so only triggers prune.
        words = prune_words(pool, options.namespace) if prunes else ["kubectl", "apply", namespace, "-f", "-"]
        kubectl.run(words, to_yaml(objects, []))
    return [f"CronJob {name} ends the plan where no run does"]


def _there(name: str, namespace: str) -> dict[str, Any] | None:
    try:
        return kubectl.get("cronjobs", name, namespace)
    except kubectl.ObjectMissingError:
        return None


def _alike(there: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a job does what is wanted. The rest of it is filled in by the API server, or tells which plan it came
    with: the job goes by the stamp on the object."""

    def does(job: dict[str, Any]) -> tuple[Any, ...]:
        box = (look(job, *POD) or [{}])[0]
        return (
            look(job, "spec", "schedule"),
            look(job, "spec", "suspend") or False,
            box.get("image"),
            box.get("command"),
        )

    return does(there) == does(wanted)
