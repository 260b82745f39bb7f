"""Manifests that run plan and emit daily: one CronJob, its ConfigMap of words, and the narrowest rights."""

from __future__ import annotations

from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.aim import aim_of
from inferdoc.prewarm.emit.base import MANAGER, EmitOptions, cron, fresh, labels, short_name, to_yaml
from inferdoc.prewarm.emit.cronjob import cron_object, job_spec, rights
from inferdoc.prewarm.plan import PlanRow, pool_plan

MINUTE_OF_DAY = 3 * 60 + 40
DEADLINE_SECONDS = 6 * 3600
EVERY_DAY = (0, 1, 2, 3, 4, 5, 6)


def daily(plan: PlanRow, options: EmitOptions) -> str:
    """A CronJob that each night plans anew from Prometheus into a shared volume, and one that applies the plan's floor
    every five minutes (level-based, so that a missed or repeated run changes nothing). The image must hold inferdoc and
    kubectl."""
    fresh(plan, options.now)
    rows = [row for row in plan.pools if options.pool in (None, row.name)]
    if len(rows) != 1:
        raise InferdocError(f"choose one pool with --pool: {', '.join(sorted(r.name for r in plan.pools))}")
    if not options.server:
        raise InferdocError("daily needs --server URL: the Prometheus that holds the history")
    pool, row = pool_plan(rows[0]), rows[0]
    policy = row.policy
    folder = "/var/lib/inferdoc"
    words = [
        "inferdoc", "prewarm", "plan", f"--prometheus={options.server}", f"--pool={row.name}", f"--tz={row.zone}",
        f"--capacity={policy.capacity:g} {policy.capacity_unit}", f"--cold-start={policy.cold_start_seconds}s",
        f"--min={row.base}", f"--max={row.maximum}", f"--policy={policy.name}", "-o", "json",
        f"--out={folder}/plan.json",
    ]  # fmt: skip
    doing = [
        "inferdoc", "prewarm", "apply", f"--plan={folder}/plan.json", f"--pool={row.name}", "--target=hpa",
        f"--name={options.name or row.name}", f"--namespace={options.namespace}", "--yes",
    ]  # fmt: skip
    account = short_name("inferdoc-prewarm", row.name)
    made = []
    for verb, schedule, command, deadline in (
        ("plan", cron(MINUTE_OF_DAY, EVERY_DAY), words, DEADLINE_SECONDS),
        ("apply", "*/5 * * * *", doing, 120),
    ):
        job = with_volume(job_spec(account, options.image, command), account, folder)
        name = short_name("prewarm", row.name, verb)
        made.append(cron_object(plan, pool, options, name, schedule, deadline, job))
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": account, "namespace": options.namespace, "labels": labels(row.name)},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    comments = [
        f"Plans {row.name} each night and applies its floor every five minutes, as field manager {MANAGER}.",
        "The image must hold inferdoc and kubectl; apply refuses a plan older than its validity.",
    ]
    return to_yaml([*rights(pool, options, aim_of("HorizontalPodAutoscaler")), claim, *made], comments)


def with_volume(job: dict[str, Any], claim: str, folder: str) -> dict[str, Any]:
    """The job with a claim mounted at `folder`, owned by the user it runs as."""
    spec = job["template"]["spec"]
    spec["volumes"] = [{"name": "plan", "persistentVolumeClaim": {"claimName": claim}}]
    spec["securityContext"]["fsGroup"] = 65532
    spec["containers"][0]["volumeMounts"] = [{"name": "plan", "mountPath": folder}]
    return job
