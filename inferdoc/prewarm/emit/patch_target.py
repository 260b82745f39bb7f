"""What can be patched: which field carries the floor, and the narrowest right to change it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import DOMAIN
from inferdoc.prewarm.emit.parts import PREFILL_DOMAIN


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
            note="maxReplicas must be at least the plan's maximum, and the workload must stand at 1 replica or more: "
            "an HPA whose target is at 0 sleeps.",
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
