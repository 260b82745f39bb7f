"""CronJobs (`batch/v1`) that set the floor, with the narrow Role they need."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import (
    BASE,
    GENERATED,
    PLACED,
    PLAN_BASE,
    PLAN_ID,
    VALID_UNTIL,
    ZONE,
    EmitOptions,
    FloorChange,
    changes,
    chosen,
    cron,
    fresh,
    labels,
    prune_words,
    short_name,
    stamp_line,
    stamps,
    to_yaml,
)
from inferdoc.prewarm.emit.kinds import (
    SCALED_OBJECT,
    PatchTarget,
    TriggerPlace,
    in_domain,
    look,
    part_of,
    patch_target_of,
    refuse_other_kind,
)
from inferdoc.prewarm.kubectl import delete_jobs_words, own_floor, patch_words
from inferdoc.prewarm.plan import PlanRow, PoolPlan, PoolRow, lifted, pool_plan

RUN_SECONDS = 120
EVERY_MINUTES = 10
EXPIRY = "expiry"


def cronjob(plan: PlanRow, options: EmitOptions) -> str:
    """One CronJob per change of the floor, each stating the level from then on (never a difference), so that repeated
    runs change nothing; a start that comes so late that the next change is due is given up."""
    return cronjob_for(plan, options, patch_target_of(options.kind or "HorizontalPodAutoscaler"))


def cronjob_for(
    plan: PlanRow,
    options: EmitOptions,
    patched: PatchTarget,
    rows: list[PoolRow] | None = None,
    remarks: list[str] | None = None,
) -> str:
    """`cronjob` for any object; rows: stand-ins for the plan's pools (a floor in other units); remarks: further
    comments."""
    fresh(plan, options.now)
    pool = chosen(plan, options) if rows is None else pool_plan(rows[0])
    pool, own = over_own_floor(pool, options.existing, patched)
    found = changes(pool)
    if not found:
        raise InferdocError(f"pool {pool.row.name}: the plan is a constant {pool.row.base}; set the floor once instead")
    base = pool.row.base if own is None else own
    jobs = [_job(plan, pool, options, patched, change, base, i) for i, change in enumerate(found)]
    names = [job["metadata"]["name"] for job in jobs]
    ending = expiry(plan, pool, options, patched, base, names)
    objects = [
        *rights(
            pool,
            options,
            [object_rule(patched, options.name or pool.row.name), removal([*names, ending["metadata"]["name"]])],
        ),
        *jobs,
        ending,
    ]
    comments = [
        stamp_line(plan),
        f"Sets {'.'.join(patched.field)} of {patched.kind} {options.name or pool.row.name}. {patched.note}",
        *(remarks or []),
        "If the object is kept in git, ignore differences on that field or keep this plan in git instead.",
        f"Jobs of a former plan go with: {' '.join(prune_words(pool.row.name, options.namespace))}",
        _by_hand(patched),
        f"Without a newer plan the last job puts {base} back, or what you set since, and deletes the others.",
        image_line(options.image),
    ]
    return to_yaml(objects, comments)


def _by_hand(patched: PatchTarget) -> str:
    if patched.subresource is not None:
        return "Replicas that are no level of the plan were set by hand: no job goes under them."
    return "Each job looks first: a floor that you set by hand in between becomes your own and is kept."


def image_line(image: str) -> str:
    """A comment line about the image of the jobs."""
    return f"The jobs run {image}: build it from packaging/Containerfile, push it, and name it with --image."


def over_own_floor(
    pool: PoolPlan, existing: dict[str, Any] | None, patched: PatchTarget
) -> tuple[PoolPlan, int | None]:
    """The pool with no floor under the user's own, and that floor (None where the object is not known)."""
    if existing is None:
        return pool, None
    refuse_other_kind(existing, patched.kind)
    own = own_floor(part_of(existing, patched.domain), look(existing, *patched.field))
    return pool_plan(lifted(pool.row, own)), own


def expiry(
    plan: PlanRow, pool: PoolPlan, options: EmitOptions, patched: PatchTarget, base: int, names: list[str]
) -> dict[str, Any]:
    """The CronJob that ends the plan: when it stops being valid, the other jobs are deleted, the base floor is
    restored, and it deletes itself (a cron expression has no year). base: the floor to put back; names: of the other
    jobs."""
    name = expiry_name(pool.row.name)
    account = short_name("inferdoc-prewarm", pool.row.name)
    if patched.subresource is None:
        put_back = release_words(pool.row.name, options, patched.word)
    else:
        put_back = hold_words(plan, pool, options, patched, base, base)
    job = job_spec(account, options.image, delete_jobs_words(options.namespace, [name]))
    spec = job["template"]["spec"]
    last = spec["containers"][0]
    spec["initContainers"] = [
        {**deepcopy(last), "name": "delete", "command": delete_jobs_words(options.namespace, names)},
        {**deepcopy(last), "name": "restore", "command": put_back},
    ]
    minute = datetime.fromtimestamp(-(-plan.valid_until.timestamp() // 60) * 60, UTC)
    schedule = f"{minute.minute} {minute.hour} {minute.day} {minute.month} *"
    made = cron_object(plan, pool, options, name, schedule, 86_400, job)
    made["spec"]["timeZone"] = "Etc/UTC"
    return made


def expiry_by_stamp(
    plan: PlanRow, pool: PoolPlan, options: EmitOptions, place: TriggerPlace | PatchTarget
) -> list[dict[str, Any]]:
    """A CronJob, with its rights, that gives the object back once the plan stamped on it has expired, and then deletes
    itself: neither KEDA's triggers nor a floor have an end. It goes by the stamp, so that whoever renews the plan on
    the object renews it too."""
    rule = {
        "apiGroups": [place.group],
        "resources": [place.resource],
        "resourceNames": [options.name],
        "verbs": ["get", "patch", *(["delete"] if place is SCALED_OBJECT else [])],
    }
    name, account = expiry_name(pool.row.name), short_name("inferdoc-prewarm", pool.row.name)
    job = job_spec(account, options.image, [*release_words(pool.row.name, options, place.word), f"--job={name}"])
    made = cron_object(plan, pool, options, name, f"*/{EVERY_MINUTES} * * * *", 300, job)
    return [*rights(pool, options, [rule, removal([name])]), made]


def expiry_name(pool: str) -> str:
    """The name of the CronJob that ends a pool's plan."""
    return short_name("prewarm", pool, EXPIRY)


def object_rule(patched: PatchTarget, name: str) -> dict[str, Any]:
    """Get and patch on the one object."""
    return {
        "apiGroups": [patched.group],
        "resources": [patched.rbac_resource],
        "resourceNames": [name],
        "verbs": ["get", "patch"],
    }


def removal(names: list[str]) -> dict[str, Any]:
    """Delete on these CronJobs."""
    return {"apiGroups": ["batch"], "resources": ["cronjobs"], "resourceNames": names, "verbs": ["delete"]}


def rights(pool: PoolPlan, options: EmitOptions, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """ServiceAccount, Role and RoleBinding."""
    name = short_name("inferdoc-prewarm", pool.row.name)
    meta = {"name": name, "namespace": options.namespace, "labels": labels(pool.row.name)}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(meta)},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": dict(meta), "rules": rules},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": dict(meta),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": options.namespace}],
        },
    ]


def patch_command(
    plan: PlanRow, pool: PoolPlan, options: EmitOptions, patched: PatchTarget, replicas: int, base: int
) -> list[str]:
    """The kubectl words that set the floor, for people. base: the user's own, recorded with it. On a subresource only
    the number is sent: annotations live on the object."""
    patch = patched.patch(replicas, pool.row.maximum)
    if patched.subresource is None:
        record = {BASE: str(base), PLACED: str(replicas)}
        marks = in_domain({**stamps(plan, pool.row), **record}, patched.domain)
        patch = {"metadata": {"annotations": marks}, **patch}
    return patch_words(
        patched.kubectl_resource,
        options.name or pool.row.name,
        options.namespace,
        patch,
        scale=patched.subresource is not None,
    )


def _job(
    plan: PlanRow,
    pool: PoolPlan,
    options: EmitOptions,
    patched: PatchTarget,
    change: FloorChange,
    base: int,
    index: int,
) -> dict[str, Any]:
    """index: of the change in the week; names count through, so that next week's plan replaces this one's jobs."""
    name = short_name("prewarm", pool.row.name, f"{index:02d}")
    deadline = max(60, min(change.gap * 60 - RUN_SECONDS, 3600))
    command = hold_words(plan, pool, options, patched, change.replicas, base)
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
            "labels": labels(pool.row.name),
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
    """A Job that runs one command without root rights, with limits on time and retries."""
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


STAMP_OPTIONS = {
    "--plan-id": PLAN_ID,
    "--generated": GENERATED,
    "--until": VALID_UNTIL,
    "--base": PLAN_BASE,
    "--zone": ZONE,
}
"""Options of `prewarm hold` that carry the plan's stamp."""


def hold_words(
    plan: PlanRow, pool: PoolPlan, options: EmitOptions, patched: PatchTarget, floor: int, base: int
) -> list[str]:
    """Puts a floor on the object unless the user set another. base: the user's own."""
    patched.refuse(floor)
    stamp = {**stamps(plan, pool.row), PLAN_BASE: str(base)}
    levels = sorted({base, pool.row.base, *(window.replicas for window in pool.windows)})
    return [
        *_start("hold", patched.word, pool.row.name, options),
        f"--floor={floor}",
        f"--levels={','.join(map(str, levels))}",
        f"--max={pool.row.maximum if options.maximum is None else min(pool.row.maximum, options.maximum)}",
        *(f"{option}={stamp[key]}" for option, key in STAMP_OPTIONS.items()),
        *(["--scale-to-zero"] if floor == 0 else []),
        "--yes",
    ]


def release_words(pool: str, options: EmitOptions, target: str) -> list[str]:
    """Gives the object back once its plan is past its validity; before, and where nothing of ours is left, it changes
    nothing. target: the short word of its kind, or `keda-cron`."""
    return [*_start("release", target, pool, options), "--expired", "--yes"]


def _start(verb: str, target: str, pool: str, options: EmitOptions) -> list[str]:
    place = [f"--name={options.name or pool}", f"--namespace={options.namespace}"]
    return ["inferdoc", "prewarm", verb, f"--target={target}", f"--pool={pool}", *place]
