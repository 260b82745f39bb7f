"""The floor as a Prometheus metric, and a KEDA prometheus trigger on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import EmitOptions, chosen, fresh, to_yaml
from inferdoc.prewarm.emit.keda import PREFIX, merged, refuse_scaled_object, scaled_object
from inferdoc.prewarm.emit.registry import PrewarmTarget
from inferdoc.prewarm.plan import PlanRow, pool_plan, to_json

FLOOR = "inferdoc_prewarm_floor_replicas"
UNTIL = "inferdoc_prewarm_valid_until_timestamp_seconds"
MAXIMUM = "inferdoc_prewarm_maximum_replicas"
BUDGET = "inferdoc_prewarm_budget_hours"
SET = "inferdoc_prewarm_set_replicas"
APPLIED = "inferdoc_prewarm_applied_timestamp_seconds"
UNFOLLOWED = "inferdoc_prewarm_plan_unusable"
HELP = {
    FLOOR: "Replicas that should be warm now.",
    UNTIL: "When the plan behind the floor stops being valid.",
    MAXIMUM: "Replicas that the plan never exceeds.",
    BUDGET: "Replica-hours a week that the floor may cost.",
    SET: "Floor of the object since the last run of apply.",
    APPLIED: "When apply last settled the object.",
    UNFOLLOWED: "1 where the last run of apply had no plan to follow (stale, gone, not fit for the object), else 0.",
}


def metric_text(filled: Mapping[str, Mapping[str, float]]) -> str:
    """Families by name, values by pool; whole numbers without a point."""
    lines = []
    for name, values in filled.items():
        if values:
            lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge"]
            lines += [f'{name}{{pool="{pool}"}} {value:.12g}' for pool, value in values.items()]
    return "\n".join(lines) + "\n"


def values_of(text: str) -> dict[tuple[str, str], float]:
    """The values of a text written by `metric_text`, by name and pool; lines of another form are left out."""
    found = re.findall(r'^(\w+)\{pool="([^"]*)"\} ([-+.\deE]+)$', text, re.MULTILINE)
    return {(name, pool): float(value) for name, pool, value in found}


def keda_prometheus(plan: PlanRow, options: EmitOptions) -> str:
    """A ScaledObject with one prometheus trigger on the floor's metric. The query yields one element, or none when the
    plan is past its validity: with `ignoreNullValues` off that is an error and the fallback holds what is running,
    instead of an old forecast keeping capacity for ever or silence scaling in."""
    fresh(plan, options.now)
    pool = chosen(plan, options)
    if not options.server:
        raise InferdocError("keda-prometheus needs --server URL: the Prometheus that KEDA queries")
    selector = f'{{pool="{pool.row.name}"}}'
    trigger: dict[str, Any] = {
        "type": "prometheus",
        "name": f"{PREFIX}floor",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": options.server,
            "query": f"max({FLOOR}{selector}) and on() (max({UNTIL}{selector}) > time())",
            "threshold": "1",
            "ignoreNullValues": "false",
        },
    }
    fallback = {"failureThreshold": 3, "replicas": max(1, pool.row.base), "behavior": "currentReplicasIfHigher"}
    notes: list[str] = []
    if options.existing is not None:
        refuse_scaled_object(options.existing, [trigger], pool.top)
        made, notes = merged(options.existing, [trigger], plan, pool)
    else:
        made = scaled_object(plan, pool, options, [trigger])
    made["spec"].setdefault("fallback", fallback)
    comments = [
        f"inferdoc prewarm plan {plan.plan_id}: KEDA reads {FLOOR}.",
        "Written every minute by: inferdoc prewarm apply --target textfile --out FILE.prom",
        *notes,
    ]
    return to_yaml([made], comments)


def textfile(plan: PlanRow, options: EmitOptions) -> str:
    """The floor of this moment for a textfile collector, all pools of the plan, with what alerts need beside it."""
    fresh(plan, options.now)
    return metric_text(plan_metrics(plan, options))


def plan_metrics(plan: PlanRow, options: EmitOptions) -> dict[str, dict[str, float]]:
    """Metrics by name and pool of the selected pools. A plan that cannot be followed now has no floor."""
    pools = [pool_plan(row) for row in plan.pools if options.pool in (None, row.name)]
    followed = plan.generated_at.timestamp() - 300 <= options.now <= plan.valid_until.timestamp()
    return {
        FLOOR: {p.row.name: p.at(options.now) for p in pools if followed},
        UNTIL: {p.row.name: plan.valid_until.timestamp() // 1 for p in pools},
        MAXIMUM: {p.row.name: p.row.maximum for p in pools},
        BUDGET: {p.row.name: p.row.policy.budget_hours for p in pools if p.row.policy.budget_hours is not None},
    }


def as_json(plan: PlanRow, options: EmitOptions) -> str:
    """The plan itself, after the check for staleness."""
    fresh(plan, options.now)
    return to_json(plan)


def _read_textfile(text: str, pool: str) -> int:
    line = next(line for line in text.splitlines() if line.startswith(f'{FLOOR}{{pool="{pool}"}}'))
    return int(line.split()[-1])


TARGETS = {
    "keda-prometheus": PrewarmTarget(keda_prometheus, "moment"),
    "textfile": PrewarmTarget(textfile, "moment", manifests=False, read_moment=_read_textfile),
    "json": PrewarmTarget(as_json, "moment", manifests=False),
}
