"""Manifests that plan anew each night and apply the plan all day: two CronJobs, their files, and the narrowest
rights."""

from __future__ import annotations

from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import MANAGER, EmitOptions, cron, fresh, labels, prune_words, short_name, to_yaml
from inferdoc.prewarm.emit.cronjob import cron_object, image_line, job_spec, object_rule, rights
from inferdoc.prewarm.emit.patch_target import patch_target_of
from inferdoc.prewarm.emit.target import PrewarmTarget
from inferdoc.prewarm.plan import PlanRow, PoolRow, pool_plan

MINUTE_OF_DAY = 3 * 60 + 40
DEADLINE_SECONDS = 6 * 3600
PLAN_SECONDS = 1800
EVERY_DAY = (0, 1, 2, 3, 4, 5, 6)
FOLDER, FILES = "/var/lib/inferdoc", "/etc/inferdoc"
TWO_DAYS = 2 * 86_400


def daily(plan: PlanRow, options: EmitOptions) -> str:
    """A CronJob that each night plans anew from Prometheus into a shared volume, with every option this plan was made
    with, and one that applies the plan's floor every five minutes (level-based, so that a missed or repeated run
    changes nothing). A plan that is valid for less than two days is renewed twice a day. The image must hold inferdoc
    and kubectl, as that of this release does. The run of `apply` is the job that ends a stale plan."""
    fresh(plan, options.now)
    rows = [row for row in plan.pools if options.pool in (None, row.name)]
    if len(rows) != 1:
        raise InferdocError(f"choose one pool with --pool: {', '.join(sorted(r.name for r in plan.pools))}")
    if not options.server:
        raise InferdocError("daily needs --server URL: the Prometheus that holds the history")
    pool, row = pool_plan(rows[0]), rows[0]
    doing = [
        "inferdoc", "prewarm", "apply", f"--plan={FOLDER}/plan.json", f"--pool={row.name}", "--target=hpa",
        f"--name={options.name or row.name}", f"--namespace={options.namespace}", "--no-expiry", "--yes",
    ]  # fmt: skip
    account = short_name("inferdoc-prewarm", row.name)
    night = cron(MINUTE_OF_DAY, EVERY_DAY)
    if (plan.valid_until - plan.generated_at).total_seconds() < TWO_DAYS:
        night = f"{MINUTE_OF_DAY % 60} {MINUTE_OF_DAY // 60},{MINUTE_OF_DAY // 60 + 12} * * *"
    made = []
    for verb, schedule, command, deadline in (
        ("plan", night, plan_words(plan, row, options.server), DEADLINE_SECONDS),
        ("apply", "*/5 * * * *", doing, 120),
    ):
        job = with_volume(job_spec(account, options.image, command), account, FOLDER)
        if verb == "plan":
            job["activeDeadlineSeconds"] = PLAN_SECONDS
            if plan.files:
                _with_files(job, account)
        name = short_name("prewarm", row.name, verb)
        made.append(cron_object(plan, pool, options, name, schedule, deadline, job))
    meta = {"name": account, "namespace": options.namespace, "labels": labels(row.name)}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": dict(meta),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": dict(meta), "data": _data(plan)}
    comments = [
        f"Plans {row.name} each night and applies its floor every five minutes, as field manager {MANAGER}.",
        "Without a plan that is valid, apply puts your own floor back.",
        image_line(options.image),
        f"Jobs of a former target go with: {' '.join(prune_words(row.name, options.namespace))}",
    ]
    rule = object_rule(patch_target_of("hpa"), options.name or row.name)
    head = [*rights(pool, options, [rule]), claim, *([files] if plan.files else [])]
    return to_yaml([*head, *made], comments)


def plan_words(plan: PlanRow, row: PoolRow, server: str) -> list[str]:
    """The command that makes the next plan of one pool: every option of this plan, with files where they are mounted.
    For a plan that was built in code, the options follow from its policy."""
    policy = row.policy
    request = plan.request or [
        f"--rps-per-replica={policy.capacity:g}", f"--cold-start={policy.cold_start_seconds}s",
        f"--min={row.base}", f"--max={row.maximum}", f"--policy={policy.name}",
    ]  # fmt: skip
    words = []
    for word in request:
        name = word.partition("=")[0]
        words.append(f"{name}={FILES}/{name.removeprefix('--')}" if name in plan.files else word)
    if not any(word.startswith("--tz=") for word in words):
        words.append(f"--tz={row.zone}")
    start = ["inferdoc", "prewarm", "plan", f"--prometheus={server}", f"--pool={row.name}"]
    place = f"{FOLDER}/plan.json"
    return [*start, *words, f"--previous={place}", "-o", "json", f"--out={place}"]


def _data(plan: PlanRow) -> dict[str, str]:
    return {name.removeprefix("--"): text for name, text in plan.files.items()}


def _with_files(job: dict[str, Any], config: str) -> None:
    spec = job["template"]["spec"]
    spec["volumes"].append({"name": "files", "configMap": {"name": config}})
    spec["containers"][0]["volumeMounts"].append({"name": "files", "mountPath": FILES, "readOnly": True})


def with_volume(job: dict[str, Any], claim: str, folder: str) -> dict[str, Any]:
    """The job with a claim mounted at `folder`, owned by the user it runs as."""
    spec = job["template"]["spec"]
    spec["volumes"] = [{"name": "plan", "persistentVolumeClaim": {"claimName": claim}}]
    spec["securityContext"]["fsGroup"] = 65532
    spec["containers"][0]["volumeMounts"] = [{"name": "plan", "mountPath": folder}]
    return job


TARGETS = {"daily": PrewarmTarget(daily, states="nothing")}
