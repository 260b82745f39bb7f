"""Timers that run inferdoc: a crontab, systemd, and CronJobs that plan each night and apply the plan all day.

Each runs a level-based command, so missed and repeated runs converge."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc import escaping
from inferdoc.errors import InferdocError
from inferdoc.forecast.calendar import zone_of
from inferdoc.prewarm.emit.base import (
    MANAGER,
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
    to_yaml,
)
from inferdoc.prewarm.emit.cronjob import cron_object, image_line, job_spec, object_rule, rights
from inferdoc.prewarm.emit.kinds import patch_target_of
from inferdoc.prewarm.emit.registry import PrewarmTarget
from inferdoc.prewarm.plan import PlanRow, PoolPlan, PoolRow, pool_plan
from inferdoc.prewarm.reference_check import MinuteSpan, crontab_floor, systemd_floor
from inferdoc.prewarm.week import DAYS, MINUTES, MINUTES_PER_DAY, jumps

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
    data = {name.removeprefix("--"): text for name, text in plan.files.items()}
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": dict(meta), "data": data}
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


PROOF_DAYS = 400


def command_words(pool: PoolPlan, options: EmitOptions) -> list[str]:
    """The command that brings the floor to what the plan says now."""
    return [
        options.command,
        "prewarm",
        "apply",
        "--plan",
        options.plan_path,
        "--pool",
        pool.row.name,
        "--target",
        options.kind or "HorizontalPodAutoscaler",
        "--name",
        options.name or pool.row.name,
        "--namespace",
        options.namespace,
        "--yes",
    ]


def crontab(plan: PlanRow, options: EmitOptions) -> str:
    """Debian's cron knows no zones, so the plan's local times are written in the host's zone: in UTC (or any zone
    without clock changes) for each offset the plan's zone takes in the next 400 days; in the plan's own zone as they
    are. The command reads the current floor from the plan, so the extra runs change nothing. Other host zones are
    refused."""
    fresh(plan, options.now)
    pool = chosen(plan, options)
    host = options.host_zone or "UTC"
    times = _host_times(pool, host, datetime.fromtimestamp(options.now, UTC))
    line = shlex.join(command_words(pool, options)).replace("%", r"\%")
    if len(line.splitlines()) > 1:
        raise InferdocError("a crontab cannot hold a name or path with a line break; use systemd")
    head = [
        f"# {stamp_line(plan)}",
        f"# Times in {host}, the zone of this host (cron has no other); the plan's zone is {pool.row.zone}.",
    ]
    body = [f"{cron(clock, days)} {line}" for clock, days in times]
    return "\n".join([*head, *body]) + "\n"


def _host_times(pool: PoolPlan, host: str, begin: datetime) -> list[tuple[int, tuple[int, ...]]]:
    found = [(day * MINUTES_PER_DAY + c.minute) for c in changes(pool) for day in c.days]
    if host != pool.row.zone:
        theirs = zone_of(host)
        if jumps(theirs, begin, PROOF_DAYS):
            raise InferdocError(
                f"the clock of {host} changes within {PROOF_DAYS} days: run cron in UTC, or use systemd"
            )
        offsets = {
            _minutes(pool.zone, at) for at in (begin, *(jump.at for jump in jumps(pool.zone, begin, PROOF_DAYS)))
        }
        moved = {offset - _minutes(theirs, begin) for offset in offsets}
        found = [(minute - shift) % MINUTES for minute in found for shift in moved]
    by_clock: dict[int, set[int]] = {}
    for minute in found:
        day, clock = divmod(minute, MINUTES_PER_DAY)
        by_clock.setdefault(clock, set()).add(day)
    return [(clock, tuple(sorted(days))) for clock, days in sorted(by_clock.items())]


def _minutes(zone: ZoneInfo, at: datetime) -> int:
    offset = at.astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds() // 60)


def systemd(plan: PlanRow, options: EmitOptions) -> str:
    """A service and its timer, one OnCalendar per change, in the plan's zone (systemd knows zones). Persistent= makes
    up for a missed start after a reboot, which is harmless because the command reads the current floor from the
    plan."""
    fresh(plan, options.now)
    pool = chosen(plan, options)
    name = f"inferdoc-prewarm-{pool.row.name}"
    words = " ".join(map(escaping.systemd, command_words(pool, options)))
    calendar = [f"OnCalendar={on_calendar(change, pool.row.zone)}" for change in changes(pool)]
    lines = [
        f"# {stamp_line(plan)}",
        f"# file: {name}.service",
        "[Unit]",
        f"Description=Prewarm floor of {pool.row.name}",
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart={words}",
        "",
        f"# file: {name}.timer",
        "[Unit]",
        f"Description=Changes of the prewarm floor of {pool.row.name}",
        "",
        "[Timer]",
        *calendar,
        "AccuracySec=1s",
        "Persistent=true",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    return "\n".join(lines) + "\n"


def on_calendar(change: FloorChange, zone: str) -> str:
    """`Mon,Tue *-*-* 07:30:00 Europe/Berlin`."""
    days = "" if len(change.days) == 7 else ",".join(DAYS[d].capitalize() for d in change.days) + " "
    return f"{days}*-*-* {change.minute // 60:02d}:{change.minute % 60:02d}:00 {zone}"


def _read_crontab(span: MinuteSpan, text: str, options: EmitOptions, applied: np.ndarray) -> np.ndarray:
    return crontab_floor(span, text, options.host_zone or "UTC", applied)


TARGETS = {
    "daily": PrewarmTarget(daily, states="nothing"),
    "crontab": PrewarmTarget(crontab, manifests=False, read_week=_read_crontab),
    "systemd": PrewarmTarget(
        systemd, manifests=False, read_week=lambda span, text, _, applied: systemd_floor(span, text, applied)
    ),
}
