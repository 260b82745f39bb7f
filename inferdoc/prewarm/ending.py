"""Installs jobs in the cluster for `prewarm apply`: those of its target `cronjob`, and the one that restores an object
once its plan has expired without another run."""

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
from inferdoc.prewarm.guide import PlanState

KINDS = "cronjobs,serviceaccounts,roles,rolebindings"


def apply_jobs(state: PlanState, options: EmitOptions, really: bool) -> Applied:
    """The floor first, then the jobs; what a failure leaves undone, the next run does. The object is looked at in any
    case."""
    patched = patch_target_of(options.kind or "HorizontalPodAutoscaler")
    result = apply(state, patched.kind, options, really, look_first=True)
    pool, text = str(options.pool), None
    words = ["kubectl", "delete", KINDS, f"--selector={selector(pool)}", f"--namespace={options.namespace}"]
    if state.plan is not None and state.pool is not None and result.fault is None:
        found = kubectl.get(patched.kubectl_resource, str(options.name), options.namespace)
        if changes(over_own_floor(state.pool, found, patched)[0]):
            words = prune_words(pool, options.namespace)
            text = cronjob_for(state.plan, replace(options, existing=found), patched)
    if really:
        kubectl.run(words, text)
    return result


POD = ("spec", "jobTemplate", "spec", "template", "spec", "containers")


def with_ending(
    result: Applied, state: PlanState, place: TriggerPlace | PatchTarget, options: EmitOptions, really: bool
) -> Applied:
    """The result of a run, after the job is in place beside what follows a plan, or is gone with the last of it. A
    failure leaves the object as it is and is reported beside it; the next run tries again."""
    try:
        return replace(result, notes=[*result.notes, *_settled(result, state, place, options, really)])
    except InferdocError as fault:
        undone = type(fault)(f"the job that ends the plan is not in place: {fault}; --no-expiry goes without it")
        return replace(result, undone=undone)


def _settled(
    result: Applied, state: PlanState, place: TriggerPlace | PatchTarget, options: EmitOptions, really: bool
) -> list[str]:
    pool, namespace = str(options.pool), f"--namespace={options.namespace}"
    name = expiry_name(pool)
    there = _there(name, options.namespace)
    prunes = isinstance(place, TriggerPlace)
    if state.plan is None or state.pool is None or result.fault is not None:
        ours = [KINDS, f"--selector={selector(pool)}"] if prunes else ["cronjobs", name]
        if there is not None and really:
            kubectl.run(["kubectl", "delete", *ours, namespace])
        return [] if there is None else [f"CronJob {name} goes with the plan"]
    objects = expiry_by_stamp(state.plan, state.pool, options, place)
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


def _alike(there: dict[str, Any], desired: dict[str, Any]) -> bool:
    """Whether a job already does the desired work. The API server fills in the rest of it, or it names the plan: the
    job reads the stamp on the object."""

    def does(job: dict[str, Any]) -> tuple[Any, ...]:
        box = (look(job, *POD) or [{}])[0]
        return (
            look(job, "spec", "schedule"),
            look(job, "spec", "suspend") or False,
            box.get("image"),
            box.get("command"),
        )

    return does(there) == does(desired)
