"""The CronJob in the cluster that ends a plan whose floor or triggers `prewarm apply` has set: should no run come any
more, the object is given back all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.apply import Applied
from inferdoc.prewarm.emit.aim import Aim, look
from inferdoc.prewarm.emit.base import EmitOptions, prune_words, selector, to_yaml
from inferdoc.prewarm.emit.cronjob import expiry_by_stamp, expiry_name
from inferdoc.prewarm.emit.parts import TriggerPlace
from inferdoc.prewarm.guide import Guide
from inferdoc.prewarm.scheduled import KINDS

POD = ("spec", "jobTemplate", "spec", "template", "spec", "containers")


def with_ending(result: Applied, led: Guide, place: TriggerPlace | Aim, options: EmitOptions, really: bool) -> Applied:
    """The result of a run, after the job is in place beside what follows a plan, or is gone with the last of it. A
    failure leaves the object as it is and is reported beside it; the next run tries again."""
    try:
        return replace(result, notes=[*result.notes, *_settled(result, led, place, options, really)])
    except InferdocError as fault:
        undone = type(fault)(f"the job that ends the plan is not in place: {fault}; --no-expiry goes without it")
        return replace(result, undone=undone)


def _settled(result: Applied, led: Guide, place: TriggerPlace | Aim, options: EmitOptions, really: bool) -> list[str]:
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
