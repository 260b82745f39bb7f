"""CronJobs (`batch/v1`) that set the floor, with the narrow Role they need."""

from __future__ import annotations

import json
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.aim import Aim, aim_of
from inferdoc.prewarm.emit.base import (
    MANAGER,
    EmitOptions,
    FloorChange,
    changes,
    chosen,
    cron,
    fresh,
    labels,
    short_name,
    stamp_line,
    stamps,
    to_yaml,
)
from inferdoc.prewarm.plan import PlanRow, PoolPlan, PoolRow, pool_plan

RUN_SECONDS = 120


def cronjob(plan: PlanRow, options: EmitOptions) -> str:
    """One CronJob per change of the floor, each stating the level from then on (never a difference), so that repeated
    runs change nothing; a start that comes so late that the next change is due is given up."""
    return cronjob_for(plan, options, aim_of(options.kind or "HorizontalPodAutoscaler"))


def cronjob_for(
    plan: PlanRow, options: EmitOptions, aim: Aim, rows: list[PoolRow] | None = None, said: list[str] | None = None
) -> str:
    """`cronjob` for any aim; rows: stand-ins for the plan's pools (a floor in other units); said: further comments."""
    fresh(plan, options.now)
    pool = chosen(plan, options) if rows is None else pool_plan(rows[0])
    found = changes(pool)
    if not found:
        raise InferdocError(f"pool {pool.row.name}: the plan is a constant {pool.row.base}; set the floor once instead")
    objects = [*rights(pool, options, aim), *[_job(plan, pool, options, aim, change) for change in found]]
    comments = [
        stamp_line(plan),
        f"Sets {'.'.join(aim.field)} of {aim.kind} {options.name or pool.row.name}. {aim.note}",
        *(said or []),
        "If the object is kept in git, ignore differences on that field or keep this plan in git instead.",
    ]
    return to_yaml(objects, comments)


def rights(pool: PoolPlan, options: EmitOptions, aim: Aim) -> list[dict[str, Any]]:
    """ServiceAccount, Role (get and patch on the one object) and RoleBinding."""
    name = short_name("inferdoc-prewarm", pool.row.name)
    meta = {"name": name, "namespace": options.namespace, "labels": labels(pool.row)}
    rule = {
        "apiGroups": [aim.group],
        "resources": [aim.rbac_resource],
        "resourceNames": [options.name or pool.row.name],
        "verbs": ["get", "patch"],
    }
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(meta)},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": dict(meta), "rules": [rule]},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": dict(meta),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": options.namespace}],
        },
    ]


def patch_command(plan: PlanRow, pool: PoolPlan, options: EmitOptions, aim: Aim, replicas: int) -> list[str]:
    """The kubectl words that set the floor. On a subresource only the number is sent: annotations live on the
    object."""
    patch = aim.patch(replicas, pool.row.maximum)
    if aim.subresource is None:
        patch = {"metadata": {"annotations": stamps(plan, pool.row)}, **patch}
    scale = [] if aim.subresource is None else [f"--subresource={aim.subresource}"]
    return [
        "kubectl",
        "patch",
        aim.kubectl_resource,
        options.name or pool.row.name,
        *scale,
        f"--namespace={options.namespace}",
        "--type=merge",
        f"--field-manager={MANAGER}",
        f"--patch={json.dumps(patch, separators=(',', ':'))}",
    ]


def _job(plan: PlanRow, pool: PoolPlan, options: EmitOptions, aim: Aim, change: FloorChange) -> dict[str, Any]:
    verb = "restore" if change.replicas == pool.row.base else "set"
    clock = f"{change.minute // 60:02d}{change.minute % 60:02d}"
    days = "d" + "".join(map(str, change.days))
    name = short_name("prewarm", pool.row.name, verb, clock, str(change.replicas), days)
    deadline = max(60, min(change.gap * 60 - RUN_SECONDS, 3600))
    command = patch_command(plan, pool, options, aim, change.replicas)
    account = short_name("inferdoc-prewarm", pool.row.name)
    return cron_object(
        plan, pool, options, name, cron(change.minute, change.days), deadline, job_spec(account, options.image, command)
    )


def cron_object(
    plan: PlanRow, pool: PoolPlan, options: EmitOptions, name: str, schedule: str, deadline: int, job: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {
            "name": name,
            "namespace": options.namespace,
            "labels": labels(pool.row),
            "annotations": stamps(plan, pool.row),
        },
        "spec": {
            "schedule": schedule,
            "timeZone": pool.row.zone,
            "concurrencyPolicy": "Replace",
            "startingDeadlineSeconds": deadline,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 2,
            "jobTemplate": {"spec": job},
        },
    }


def job_spec(account: str, image: str, command: list[str]) -> dict[str, Any]:
    """A Job that runs one command as nobody, bounded in time and tries."""
    container = {
        "name": "prewarm",
        "image": image,
        "command": command,
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "activeDeadlineSeconds": RUN_SECONDS,
        "backoffLimit": 2,
        "ttlSecondsAfterFinished": 3600,
        "template": {
            "spec": {
                "serviceAccountName": account,
                "restartPolicy": "Never",
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
            }
        },
    }
