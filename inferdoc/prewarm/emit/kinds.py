"""Kinds of objects that hold a floor: the field or KEDA triggers, their record, and the narrowest right to change them.

An LLMInferenceService scales its prefill pods separately, so one object holds the floors of two pools: the record of
the prefill part has a domain of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import DOMAIN

PREFILL_DOMAIN = f"prefill.{DOMAIN}"
DOMAINS = (DOMAIN, PREFILL_DOMAIN)
T = TypeVar("T")


def part_of(obj: dict[str, Any], domain: str) -> dict[str, Any]:
    """The object with the record of one part alone, under the usual names."""
    metadata = obj.get("metadata") or {}
    kept = {}
    for key, value in (metadata.get("annotations") or {}).items():
        owner, _, name = key.partition("/")
        if owner == domain:
            kept[f"{DOMAIN}/{name}"] = value
        elif owner not in DOMAINS:
            kept[key] = value
    return {**obj, "metadata": {**metadata, "annotations": kept}}


def in_domain(annotations: Mapping[str, T], domain: str) -> dict[str, T]:
    """Our annotations under the domain of a part of an object."""
    return {f"{domain}/{key.partition('/')[2]}": value for key, value in annotations.items()}


@dataclass(frozen=True)
class TriggerPlace:
    """The place of KEDA's triggers on a kind of object. word: of a command line; resource: as RBAC names it; scaling:
    path of the stanza, and within it triggers, floor and ceiling; absent: the floor of an object without the field;
    domain: of our record."""

    word: str
    kind: str
    group: str
    resource: str
    scaling: tuple[str, ...]
    triggers: tuple[str, ...]
    floor: str
    ceiling: str
    absent: int
    domain: str = DOMAIN

    @property
    def kubectl_resource(self) -> str:
        return f"{self.resource}.{self.group}"

    @property
    def trigger_path(self) -> tuple[str, ...]:
        return (*self.scaling, *self.triggers)

    @property
    def floor_path(self) -> tuple[str, ...]:
        return (*self.scaling, self.floor)


def _of_service(word: str, scaling: tuple[str, ...], domain: str) -> TriggerPlace:
    return TriggerPlace(
        word,
        "LLMInferenceService",
        "serving.kserve.io",
        "llminferenceservices",
        scaling,
        ("keda", "triggers"),
        "minReplicas",
        "maxReplicas",
        absent=1,
        domain=domain,
    )


SCALED_OBJECT = TriggerPlace(
    "keda-cron",
    "ScaledObject",
    "keda.sh",
    "scaledobjects",
    ("spec",),
    ("triggers",),
    "minReplicaCount",
    "maxReplicaCount",
    absent=0,
)
SERVICE = _of_service("llm-service-keda", ("spec", "scaling"), DOMAIN)
SERVICE_PREFILL = _of_service("llm-service-prefill-keda", ("spec", "prefill", "scaling"), PREFILL_DOMAIN)
PLACES = {place.word: place for place in (SCALED_OBJECT, SERVICE, SERVICE_PREFILL)} | {"ScaledObject": SCALED_OBJECT}
"""Places by the word of `--target`."""


def place_on(obj: dict[str, Any] | None, role: str) -> TriggerPlace:
    """The place of the triggers of a pool of this role on an object."""
    if (obj or {}).get("kind") != "LLMInferenceService":
        return SCALED_OBJECT
    return SERVICE_PREFILL if role == "prefill" else SERVICE


@dataclass(frozen=True)
class PatchTarget:
    """A kind of object whose floor is one field. resource: as kubectl and RBAC name it; group: API group; field: path
    of the floor; ceiling: path of the maximum where one patch must carry both; subresource: `scale` where only that is
    touched; least: the smallest floor the kind accepts; note: what else must hold; domain: of our record on it."""

    kind: str
    group: str
    resource: str
    field: tuple[str, ...]
    ceiling: tuple[str, ...] | None = None
    subresource: str | None = None
    least: int = 0
    note: str = ""
    domain: str = DOMAIN

    @property
    def word(self) -> str:
        """How `--target` of `prewarm hold` calls it."""
        return next(word for word, patched in BY_WORD.items() if patched == self)

    @property
    def rbac_resource(self) -> str:
        return self.resource if self.subresource is None else f"{self.resource}/{self.subresource}"

    @property
    def kubectl_resource(self) -> str:
        return self.resource if self.group in ("apps", "autoscaling") else f"{self.resource}.{self.group}"

    def refuse(self, replicas: int) -> None:
        """InferdocError for a floor that the kind cannot hold."""
        if replicas < self.least:
            raise InferdocError(f"{self.kind} takes no floor below {self.least}; plan with --min {self.least} or more")

    def patch(self, replicas: int, maximum: int) -> dict[str, Any]:
        """The merge patch that sets the floor, and the maximum with it where the kind needs both at once."""
        self.refuse(replicas)
        made: dict[str, Any] = {}
        put(made, self.field, replicas)
        if self.ceiling is not None:
            put(made, self.ceiling, maximum)
        return made


def wrong_kind(existing: dict[str, Any], expected: str) -> InferdocError:
    return InferdocError(f"--existing holds a {existing.get('kind', 'nameless thing')}, expected a {expected}")


def refuse_other_kind(existing: dict[str, Any], expected: str) -> None:
    if existing.get("kind") != expected:
        raise wrong_kind(existing, expected)


def refuse_ceiling(what: str, limit: Any, top: int) -> None:
    """InferdocError where the maximum of an object, if it states one, is below the highest floor of the plan."""
    if isinstance(limit, int) and limit < top:
        raise InferdocError(f"{what} has maxReplicas {limit}, the plan wants {top}; raise it first")


def put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Sets a nested field, making what is missing on the way."""
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def look(tree: dict[str, Any] | None, *path: str) -> Any:
    """A nested field, or None where anything on the way is missing."""
    found: Any = tree
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


PATCH_TARGETS = {
    patched.kind: patched
    for patched in (
        PatchTarget(
            "HorizontalPodAutoscaler",
            "autoscaling",
            "horizontalpodautoscalers",
            ("spec", "minReplicas"),
            least=1,
            note="maxReplicas must be at least the plan's maximum, and the workload must have 1 replica or more: "
            "an HPA whose target is at 0 is inactive.",
        ),
        PatchTarget(
            "Deployment",
            "apps",
            "deployments",
            ("spec", "replicas"),
            subresource="scale",
            note="Only for a workload without any autoscaler (an HPA would undo it at its next sync); "
            "leave spec.replicas out of what you apply.",
        ),
        PatchTarget(
            "InferenceService",
            "serving.kserve.io",
            "inferenceservices",
            ("spec", "predictor", "minReplicas"),
            least=1,
            note="Never patch the HPA that KServe makes; the annotation serving.kserve.io/stop overrides the floor.",
        ),
        PatchTarget(
            "VariantAutoscaling",
            "llmd.ai",
            "variantautoscalings",
            ("spec", "minReplicas"),
            ceiling=("spec", "maxReplicas"),
            note="maxReplicas is set with it, since its default of 2 would cap the floor. A floor above 0 turns "
            "scale-to-zero off for the whole model.",
        ),
        PatchTarget(
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io",
            "leaderworkersets",
            ("spec", "replicas"),
            subresource="scale",
            note="Counts groups, not pods. With an HPA on the set, aim at that HPA instead.",
        ),
    )
}

LLM_SERVICE = PatchTarget(
    "LLMInferenceService",
    "serving.kserve.io",
    "llminferenceservices",
    ("spec", "scaling", "minReplicas"),
    least=1,
    note="WVA scales it; the floor is scaling.minReplicas.",
)
BY_WORD = {
    "hpa": PATCH_TARGETS["HorizontalPodAutoscaler"],
    "deployment": PATCH_TARGETS["Deployment"],
    "kserve": PATCH_TARGETS["InferenceService"],
    "wva": PATCH_TARGETS["VariantAutoscaling"],
    "lws": PATCH_TARGETS["LeaderWorkerSet"],
    "llm-service": LLM_SERVICE,
    "llm-service-prefill": replace(
        LLM_SERVICE, field=("spec", "prefill", "scaling", "minReplicas"), domain=PREFILL_DOMAIN
    ),
}
"""By the short word of a command line."""


def patch_target_of(kind: str) -> PatchTarget:
    """By kind or by its short word."""
    found = BY_WORD.get(kind) or PATCH_TARGETS.get(kind)
    if found is None:
        raise InferdocError(
            f"kind `{kind}` cannot be patched; choose one of {', '.join([*BY_WORD, *sorted(PATCH_TARGETS)])}"
        )
    return found
