"""Shared parts of all emitters: options, cron expressions, and YAML with the plan's stamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line
from inferdoc.prewarm.plan import PlanRow, PoolPlan, PoolRow, pool_plan
from inferdoc.prewarm.week import MINUTES, MINUTES_PER_DAY
from inferdoc.times import rfc3339
from inferdoc.version import IMAGE

DOMAIN = "inferdoc.io"
PLAN_ID, PLAN_BASE = f"{DOMAIN}/plan-id", f"{DOMAIN}/base-replicas"
VALID_UNTIL, GENERATED = f"{DOMAIN}/valid-until", f"{DOMAIN}/generated-at"
POOL, ZONE, PART, CLUSTER = f"{DOMAIN}/pool", f"{DOMAIN}/zone", f"{DOMAIN}/part", f"{DOMAIN}/cluster"
BASE, PLACED, OVERRIDDEN = f"{DOMAIN}/base-floor", f"{DOMAIN}/set-floor", f"{DOMAIN}/held-at"
CEILING, TRIGGERS = f"{DOMAIN}/base-ceiling", f"{DOMAIN}/set-triggers"
OURS = (PLAN_ID, PLAN_BASE, VALID_UNTIL, GENERATED, POOL, ZONE, CLUSTER, BASE, PLACED, OVERRIDDEN, CEILING, TRIGGERS)
MANAGER = "inferdoc-prewarm"
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class EmitOptions:
    """pool: which pool of the plan (None = the only one); name: of the object that is scaled (default: the pool's
    name); namespace; existing: the object in the cluster, if merging needs it; now: Unix seconds; maximum: of replicas,
    whatever the plan says; cluster: that kubectl changes."""

    now: float
    pool: str | None = None
    name: str | None = None
    namespace: str = "default"
    existing: dict[str, Any] | None = None
    image: str = IMAGE
    workload: str | None = None
    host_zone: str | None = None
    command: str = "inferdoc"
    plan_path: str = "/etc/inferdoc/plan.json"
    server: str | None = None
    per_group: int = 1
    pods_per_group: int | None = None
    gpus_per_pod: int | None = None
    kind: str | None = None
    maximum: int | None = None
    cluster: str | None = None


def fresh(plan: PlanRow, now: float) -> None:
    """Refuses a plan that is past its validity, or made in the future."""
    if now > plan.valid_until.timestamp():
        raise InferdocError(
            f"plan {plan.plan_id} was valid until {plan.valid_until:%Y-%m-%d %H:%M}Z and is stale; make a new one"
        )
    if now < plan.generated_at.timestamp() - 300:
        raise InferdocError(
            f"plan {plan.plan_id} was made in the future ({plan.generated_at:%Y-%m-%d %H:%M}Z); check the clock"
        )


def chosen(plan: PlanRow, options: EmitOptions) -> PoolPlan:
    """The selected pool; InferdocError if it is missing, or has no schedule."""
    rows = {row.name: row for row in plan.pools}
    if options.pool is None and len(rows) != 1:
        raise InferdocError(f"the plan has {len(rows)} pools; choose one with --pool: {', '.join(sorted(rows))}")
    name = options.pool or next(iter(rows))
    if name not in rows:
        raise InferdocError(f"pool `{name}` is not in the plan; it has {', '.join(sorted(rows))}")
    row = rows[name]
    if row.forecast.abstained:
        raise InferdocError(
            f"pool {name}: the forecast abstained ({row.forecast.reason}); there is no schedule to emit"
        )
    return pool_plan(row)


def cron_days(days: tuple[int, ...]) -> str:
    """Cron's day of the week (0 = Sunday) for days counted from Monday: `*`, `1-5`, `0,6`."""
    numbers = sorted((day + 1) % 7 for day in days)
    if len(numbers) == 7:
        return "*"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [
        str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" if len(run) > 2 else f"{run[0]},{run[1]}"
        for run in runs
    ]
    return ",".join(words)


def cron(minute_of_day: int, days: tuple[int, ...]) -> str:
    """Five fields: every given day of the week at that minute."""
    return f"{minute_of_day % 60} {minute_of_day // 60} * * {cron_days(days)}"


@dataclass(frozen=True)
class FloorChange:
    """A change of the floor that recurs. days: 0 = Monday; minute: of the day; replicas: the floor from then on;
    gap: minutes until the next change of any kind, the least over the days."""

    days: tuple[int, ...]
    minute: int
    replicas: int
    gap: int


def changes(pool: PoolPlan) -> list[FloorChange]:
    """All changes of the weekly floor, those at the same clock time and level together."""
    floor = pool.floor
    at = [m for m in range(MINUTES) if floor[m] != floor[m - 1]]
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, minute in enumerate(at):
        gap = (at[(i + 1) % len(at)] - minute) % MINUTES or MINUTES
        day, clock = divmod(minute, MINUTES_PER_DAY)
        groups.setdefault((clock, int(floor[minute])), []).append((day, gap))
    return [
        FloorChange(tuple(day for day, _ in found), clock, level, min(gap for _, gap in found))
        for (clock, level), found in sorted(groups.items())
    ]


def stamps(plan: PlanRow, row: PoolRow) -> dict[str, str]:
    """The stamp every emitted object carries: which plan and pool, until when, by whose clock."""
    return {
        PLAN_ID: plan.plan_id,
        GENERATED: rfc3339(plan.generated_at, "seconds"),
        VALID_UNTIL: rfc3339(plan.valid_until, "seconds"),
        PLAN_BASE: str(row.base),
        POOL: row.name,
        ZONE: row.zone,
        **({CLUSTER: row.cluster} if row.cluster else {}),
    }


def stamp_line(plan: PlanRow) -> str:
    """Which plan this is and how long it holds, for a comment."""
    return f"inferdoc prewarm plan {plan.plan_id}, valid until {plan.valid_until:%Y-%m-%d %H:%M}Z: renew it in time."


def labels(pool: str) -> dict[str, str]:
    """Labels of our own objects, by which they are selected and pruned. A label value has at most 63 characters."""
    return {"app.kubernetes.io/managed-by": "inferdoc", PART: "prewarm", POOL: short_name(pool, limit=63)}


def selector(pool: str) -> str:
    """Our objects of one pool, as kubectl's --selector takes it."""
    return ",".join(f"{key}={value}" for key, value in labels(pool).items())


def prune_words(pool: str, namespace: str) -> list[str]:
    """The command that applies what is read from standard input and deletes our CronJobs that are no longer in it."""
    return [
        "kubectl", "apply", "--prune", f"--selector={selector(pool)}", "--prune-allowlist=batch/v1/CronJob",
        f"--namespace={namespace}", "-f", "-",
    ]  # fmt: skip


def to_yaml(objects: list[dict[str, Any]], comments: list[str]) -> str:
    """Objects as YAML documents under comment lines; the same input gives the same bytes."""
    head = "".join(f"# {one_line(line)}\n" for line in comments)
    return head + "---\n".join(yaml.dump(o, Dumper=DUMPER, sort_keys=False, width=1000) for o in objects)


def short_name(*parts: str, limit: int = 52) -> str:
    """A DNS label from parts, cut with a hash where it would be longer than `limit` (CronJob names: 52)."""
    import hashlib

    name = "-".join(parts).replace(".", "-")
    if len(name) <= limit:
        return name
    return f"{name[: limit - 7].rstrip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
