"""Targets whose floor is a field that scheduled patches set: HPA, KServe, llm-d WVA, LeaderWorkerSet."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from inferdoc.catalogue.yaml_text import load_yaml
from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import BASE, MANAGER, PLACED, EmitOptions, chosen, fresh, stamps, to_yaml
from inferdoc.prewarm.emit.cronjob import cronjob, cronjob_for
from inferdoc.prewarm.emit.keda import PREFIX, llm_service, merged, refuse_llm_service, scaled_object
from inferdoc.prewarm.emit.kinds import PatchTarget, look, patch_target_of, wrong_kind
from inferdoc.prewarm.emit.registry import PrewarmTarget
from inferdoc.prewarm.kubectl import own_floor
from inferdoc.prewarm.plan import PlanRow, pool_plan, rescaled, to_json

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


METRIC_TARGETS = {
    "keda-prometheus": PrewarmTarget(keda_prometheus, "moment"),
    "textfile": PrewarmTarget(textfile, "moment", manifests=False, read_moment=_read_textfile),
    "json": PrewarmTarget(as_json, "moment", manifests=False),
}


OWNERS = ("ScaledObject", "InferenceService", "LLMInferenceService", "VariantAutoscaling")
LWS_PATH = ("spec", "leaderWorkerTemplate")


def hpa(plan: PlanRow, options: EmitOptions) -> str:
    """The floor of this moment as a server-side apply of `spec.minReplicas` alone, under a field manager of its own:
    the same moment applied twice changes nothing. `options.now` says which moment."""
    fresh(plan, options.now)
    pool = chosen(plan, options)
    gitops = refuse_hpa(options.existing, pool.top) if options.existing is not None else []
    patched = patch_target_of("HorizontalPodAutoscaler")
    own = (
        pool.row.base
        if options.existing is None
        else own_floor(options.existing, look(options.existing, *patched.field))
    )
    level = max(pool.at(options.now), own if options.existing is not None else 0)
    made = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": options.name or look(options.existing, "metadata", "name") or pool.row.name,
            "namespace": options.namespace,
            "annotations": {**stamps(plan, pool.row), BASE: str(own), PLACED: str(level)},
        },
        **patched.patch(level, pool.row.maximum),
    }
    comments = [
        f"inferdoc prewarm plan {plan.plan_id}: the floor at this moment. {patched.note}",
        f"kubectl apply --server-side --field-manager={MANAGER} -f -",
        *gitops,
    ]
    return to_yaml([made], comments)


def refuse_hpa(existing: dict[str, Any], top: int) -> list[str]:
    """Refuses an HPA that another controller owns or that cannot hold the plan; returns remarks for one kept in git.
    top: the highest floor of the plan."""
    if existing.get("kind") != "HorizontalPodAutoscaler":
        raise wrong_kind(existing, "HorizontalPodAutoscaler")
    name = look(existing, "metadata", "name")
    owners = [o.get("kind") for o in look(existing, "metadata", "ownerReferences") or []]
    marks = look(existing, "metadata", "labels") or {}
    owner = next((o for o in owners if o in OWNERS), None)
    if owner or "scaledobject.keda.sh/name" in marks:
        raise InferdocError(
            f"HPA {name} belongs to {owner or 'a ScaledObject'}, which would undo the patch; use its own target"
        )
    limit = look(existing, "spec", "maxReplicas")
    if isinstance(limit, int) and limit < top:
        raise InferdocError(f"HPA {name} has maxReplicas {limit}, the plan wants {top}; raise it first")
    if look(existing, "status", "currentReplicas") == 0:
        raise InferdocError(f"HPA {name} is at 0 replicas and inactive; scale its workload to 1 first")
    notes = look(existing, "metadata", "annotations") or {}
    by_git = any("argocd" in key or "fluxcd" in key for key in [*notes, *marks])
    kept = by_git or marks.get("app.kubernetes.io/managed-by") == "Helm"
    advice = "This HPA is kept in git: ignore differences on /spec/minReplicas there, or keep the plan in git."
    return [advice] if kept else []


def refuse_object(patched: PatchTarget, existing: dict[str, Any], top: int) -> None:
    """Raises InferdocError for an object that would undo or ignore a plan, or is too small for it. top: the highest
    floor of the plan."""
    if patched.kind == "HorizontalPodAutoscaler":
        refuse_hpa(existing, top)
    elif patched.kind == "InferenceService":
        refuse_inference_service(existing)
    elif patched.kind == "LLMInferenceService":
        refuse_llm_service(existing, patched.field[:-1], top)


def kserve(plan: PlanRow, options: EmitOptions) -> str:
    """InferenceService: CronJobs that patch `spec.predictor.minReplicas`. LLMInferenceService (given as `existing`):
    the windows merged into its KEDA triggers, or CronJobs on `scaling.minReplicas` where WVA scales it."""
    existing = options.existing
    if existing is not None and existing.get("kind") == "LLMInferenceService":
        return llm_service(plan, options, existing)
    if options.kind == "LLMInferenceService":
        raise InferdocError(
            "an LLMInferenceService's triggers are one list: give the object with --existing to merge them"
        )
    if existing is not None:
        refuse_inference_service(existing)
    return cronjob(
        plan, replace(options, kind="InferenceService", name=options.name or look(existing, "metadata", "name"))
    )


def refuse_inference_service(existing: dict[str, Any]) -> None:
    """Refuses a service on whose floor KServe would not act."""
    if existing.get("kind") != "InferenceService":
        raise wrong_kind(existing, "InferenceService")
    notes = look(existing, "metadata", "annotations") or {}
    if str(notes.get("serving.kserve.io/stop", "false")).lower() == "true":
        raise InferdocError("the InferenceService carries serving.kserve.io/stop, which overrides any floor")
    kind = notes.get("serving.kserve.io/autoscalerClass", "hpa")
    if kind in ("none", "external"):
        raise InferdocError(
            f"the InferenceService has autoscalerClass {kind}: KServe does not act on minReplicas there"
        )


def wva(plan: PlanRow, options: EmitOptions) -> str:
    """CronJobs on a VariantAutoscaling. `existing` may be the object or its CRD: an installation whose CRD has no
    minReplicas is refused, since the floor belongs on the HPA or ScaledObject there."""
    existing = options.existing
    if existing is not None:
        if existing.get("kind") == "CustomResourceDefinition":
            texts = str(existing.get("spec"))
            if "minReplicas" not in texts:
                raise InferdocError(
                    "this VariantAutoscaling CRD has no minReplicas: use its HPA or ScaledObject (hpa, keda-cron)"
                )
        elif existing.get("kind") != "VariantAutoscaling":
            raise wrong_kind(existing, "VariantAutoscaling")
        else:
            limit = look(existing, "spec", "maxReplicas")
            top = chosen(plan, options).top
            if isinstance(limit, int) and limit < top:
                raise InferdocError(
                    f"the VariantAutoscaling has maxReplicas {limit}, the plan wants {top}; raise it first"
                )
            return cronjob(plan, replace(options, kind="VariantAutoscaling"))
    return cronjob(plan, replace(options, kind="VariantAutoscaling", existing=None))


def lws(plan: PlanRow, options: EmitOptions) -> str:
    """CronJobs on a LeaderWorkerSet's scale: its replicas are groups, so the plan's replicas are divided by what one
    group serves (`per_group`), rounded up; a comment states the GPUs."""
    per_group = options.per_group
    if per_group < 1:
        raise InferdocError("--per-group must be at least 1")
    existing = options.existing
    if existing is not None and existing.get("kind") != "LeaderWorkerSet":
        raise wrong_kind(existing, "LeaderWorkerSet")
    pool = chosen(plan, options)
    groups = rescaled(pool.row, lambda n: math.ceil(n / per_group))
    size = look(existing, *LWS_PATH, "size") or options.pods_per_group
    top = max([w.replicas for w in groups.windows], default=groups.base)
    remarks = [f"At most {top} groups, each serving {per_group} planned replica(s)."]
    if size:
        pods = top * int(size)
        gpus = "" if options.gpus_per_pod is None else f", {pods * options.gpus_per_pod} GPUs"
        remarks = [f"At most {top} groups x {size} pods = {pods} pods{gpus}."]
    changed = replace(
        options, kind="LeaderWorkerSet", pool=None, name=options.name or look(existing, "metadata", "name")
    )
    return cronjob_for(plan, changed, patch_target_of("LeaderWorkerSet"), rows=[groups], remarks=remarks)


def _read_hpa(text: str, _: str) -> int:
    return int(load_yaml(text)["spec"]["minReplicas"])


TARGETS = {
    "hpa": PrewarmTarget(hpa, "moment", over_existing=patch_target_of("hpa"), read_moment=_read_hpa),
    "cronjob": PrewarmTarget(cronjob, patched=patch_target_of("hpa")),
    "kserve": PrewarmTarget(kserve, patched=patch_target_of("kserve")),
    "wva": PrewarmTarget(wva, patched=patch_target_of("wva")),
    "lws": PrewarmTarget(lws, patched=patch_target_of("lws"), grouped=True),
}
