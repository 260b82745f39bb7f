"""Targets whose floor is a field that scheduled patches set: HPA, KServe, llm-d WVA, LeaderWorkerSet."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from inferdoc.catalogue.yaml_text import load_yaml
from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import BASE, MANAGER, PLACED, EmitOptions, chosen, fresh, stamps, to_yaml
from inferdoc.prewarm.emit.cronjob import cronjob, cronjob_for
from inferdoc.prewarm.emit.keda import llm_service, refuse_llm_service
from inferdoc.prewarm.emit.kinds import PatchTarget, look, patch_target_of, refuse_ceiling, refuse_other_kind
from inferdoc.prewarm.emit.registry import PrewarmTarget
from inferdoc.prewarm.kubectl import own_floor
from inferdoc.prewarm.plan import PlanRow, rescaled

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
    refuse_other_kind(existing, "HorizontalPodAutoscaler")
    name = look(existing, "metadata", "name")
    owners = [o.get("kind") for o in look(existing, "metadata", "ownerReferences") or []]
    marks = look(existing, "metadata", "labels") or {}
    owner = next((o for o in owners if o in OWNERS), None)
    if owner or "scaledobject.keda.sh/name" in marks:
        raise InferdocError(
            f"HPA {name} belongs to {owner or 'a ScaledObject'}, which would undo the patch; use its own target"
        )
    refuse_ceiling(f"HPA {name}", look(existing, "spec", "maxReplicas"), top)
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
    refuse_other_kind(existing, "InferenceService")
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
    if existing is None or existing.get("kind") == "CustomResourceDefinition":
        if existing is not None and "minReplicas" not in str(existing.get("spec")):
            raise InferdocError(
                "this VariantAutoscaling CRD has no minReplicas: use its HPA or ScaledObject (hpa, keda-cron)"
            )
        return cronjob(plan, replace(options, kind="VariantAutoscaling", existing=None))
    refuse_other_kind(existing, "VariantAutoscaling")
    refuse_ceiling("the VariantAutoscaling", look(existing, "spec", "maxReplicas"), chosen(plan, options).top)
    return cronjob(plan, replace(options, kind="VariantAutoscaling"))


def lws(plan: PlanRow, options: EmitOptions) -> str:
    """CronJobs on a LeaderWorkerSet's scale: its replicas are groups, so the plan's replicas are divided by what one
    group serves (`per_group`), rounded up; a comment states the GPUs."""
    per_group = options.per_group
    if per_group < 1:
        raise InferdocError("--per-group must be at least 1")
    existing = options.existing
    if existing is not None:
        refuse_other_kind(existing, "LeaderWorkerSet")
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


TARGETS = {
    "hpa": PrewarmTarget(
        hpa,
        "moment",
        over_existing=patch_target_of("hpa"),
        read_moment=lambda text, _: int(load_yaml(text)["spec"]["minReplicas"]),
    ),
    "cronjob": PrewarmTarget(cronjob, patched=patch_target_of("hpa")),
    "kserve": PrewarmTarget(kserve, patched=patch_target_of("kserve")),
    "wva": PrewarmTarget(wva, patched=patch_target_of("wva")),
    "lws": PrewarmTarget(lws, patched=patch_target_of("lws"), grouped=True),
}
