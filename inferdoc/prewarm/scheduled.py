"""`prewarm apply --target cronjob`: the floor of now, the CronJobs of the plan, and none of a former one."""

from __future__ import annotations

from dataclasses import replace

from inferdoc.prewarm import kubectl
from inferdoc.prewarm.apply import Applied, apply
from inferdoc.prewarm.emit.aim import aim_of
from inferdoc.prewarm.emit.base import EmitOptions, changes, prune_words, selector
from inferdoc.prewarm.emit.cronjob import cronjob_for, over_own_floor
from inferdoc.prewarm.guide import Guide

KINDS = "cronjobs,serviceaccounts,roles,rolebindings"


def apply_jobs(led: Guide, options: EmitOptions, really: bool) -> Applied:
    """The floor first, then the jobs; what a failure leaves undone, the next run does. The object is looked at in any
    case."""
    aim = aim_of(options.kind or "HorizontalPodAutoscaler")
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
