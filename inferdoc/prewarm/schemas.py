"""Strict shapes of everything the emitters write: an unknown field, a wrong type or a bad enum value is an error.

The published schemas are looser than the components (integers in KEDA metadata, `timezone` for `timeZone`, unknown enum
values pass some validators), so these are written from the components' own definitions: Kubernetes 1.33 batch/v1,
autoscaling/v2 and RBAC; KEDA 2.20 keda.sh/v1alpha1. Objects of KServe appear only as the user's own, with our triggers
inside."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from inferdoc.prewarm.emit.keda import PREFIX

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
CronName = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=52)]
Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
Schedule = Annotated[str, Meta(pattern=r"^(\S+ ){4}\S+$")]


class Strict(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all shapes."""


class ObjectMeta(Strict):
    """finalizers, ownerReferences: of an object that already exists in a cluster."""

    name: Name
    namespace: str = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    ownerReferences: list[dict[str, Any]] = []  # noqa: N815


class KubernetesObject(Strict):
    """What every object has; `SHAPES` says which API version and kind."""

    apiVersion: str  # noqa: N815
    kind: str
    metadata: ObjectMeta


class CronMetadata(ObjectMeta):
    name: CronName


class CronTriggerMeta(Strict):
    timezone: str
    start: Schedule
    end: Schedule
    desiredReplicas: Annotated[str, Meta(pattern=r"^[1-9]\d*$")]  # noqa: N815


class Auth(Strict):
    name: str
    kind: str = "TriggerAuthentication"


class Trigger(Strict):
    """Any trigger: metadata are strings."""

    type: str
    metadata: dict[str, str]
    name: str = ""
    metricType: Literal["AverageValue", "Value", "Utilization"] = "AverageValue"  # noqa: N815
    useCachedMetrics: bool = False  # noqa: N815
    authenticationRef: Auth | None = None  # noqa: N815


class ScalingPolicy(Strict):
    type: Literal["Pods", "Percent"]
    value: Positive
    periodSeconds: Annotated[int, Meta(ge=1, le=1800)]  # noqa: N815


class Rules(Strict):
    stabilizationWindowSeconds: Annotated[int, Meta(ge=0, le=3600)] | None = None  # noqa: N815
    selectPolicy: Literal["Max", "Min", "Disabled"] | None = None  # noqa: N815
    policies: list[ScalingPolicy] = []
    tolerance: str | None = None


class Behavior(Strict):
    scaleUp: Rules | None = None  # noqa: N815
    scaleDown: Rules | None = None  # noqa: N815


class HpaConfig(Strict):
    behavior: Behavior | None = None
    name: str | None = None


class Advanced(Strict):
    restoreToOriginalReplicaCount: bool = False  # noqa: N815
    horizontalPodAutoscalerConfig: HpaConfig | None = None  # noqa: N815
    scalingModifiers: dict[str, Any] | None = None  # noqa: N815


class TargetRef(Strict):
    name: str
    apiVersion: str | None = None  # noqa: N815
    kind: str | None = None
    envSourceContainerName: str | None = None  # noqa: N815


class Fallback(Strict):
    failureThreshold: Natural  # noqa: N815
    replicas: Natural
    behavior: Literal[
        "static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower", "scalingModifiers"
    ] = "static"


class ScaledObjectSpec(Strict):
    scaleTargetRef: TargetRef  # noqa: N815
    triggers: Annotated[list[Trigger], Meta(min_length=1)]
    pollingInterval: Positive | None = None  # noqa: N815
    initialCooldownPeriod: Natural | None = None  # noqa: N815
    cooldownPeriod: Natural | None = None  # noqa: N815
    idleReplicaCount: Literal[0] | None = None  # noqa: N815
    minReplicaCount: Natural | None = None  # noqa: N815
    maxReplicaCount: Positive | None = None  # noqa: N815
    advanced: Advanced | None = None
    fallback: Fallback | None = None


class ScaledObject(KubernetesObject):
    spec: ScaledObjectSpec


class Container(Strict):
    name: Name
    image: str
    command: list[str]
    resources: dict[Literal["requests", "limits"], dict[str, str]]
    securityContext: dict[str, Any]  # noqa: N815
    volumeMounts: list[dict[str, Any]] = []  # noqa: N815


class PodSpec(Strict):
    serviceAccountName: str  # noqa: N815
    restartPolicy: Literal["Never", "OnFailure"]  # noqa: N815
    securityContext: dict[str, Any]  # noqa: N815
    containers: Annotated[list[Container], Meta(min_length=1)]
    initContainers: list[Container] = []  # noqa: N815
    volumes: list[dict[str, Any]] = []


class PodTemplate(Strict):
    spec: PodSpec


class JobSpec(Strict):
    activeDeadlineSeconds: Positive  # noqa: N815
    backoffLimit: Natural  # noqa: N815
    ttlSecondsAfterFinished: Natural  # noqa: N815
    template: PodTemplate


class JobTemplate(Strict):
    spec: JobSpec


class CronJobSpec(Strict):
    schedule: Schedule
    timeZone: Annotated[str, Meta(pattern=r"^(?!Local$).+")]  # noqa: N815
    concurrencyPolicy: Literal["Allow", "Forbid", "Replace"]  # noqa: N815
    startingDeadlineSeconds: Annotated[int, Meta(ge=10)]  # noqa: N815
    successfulJobsHistoryLimit: Natural  # noqa: N815
    failedJobsHistoryLimit: Natural  # noqa: N815
    jobTemplate: JobTemplate  # noqa: N815


class CronJob(KubernetesObject):
    metadata: CronMetadata
    spec: CronJobSpec


class ConfigMap(KubernetesObject):
    data: dict[str, str]


class Claim(KubernetesObject):
    spec: dict[Literal["accessModes", "resources", "storageClassName"], Any]


class PolicyRule(Strict):
    apiGroups: list[str]  # noqa: N815
    resources: list[str]
    verbs: list[Literal["get", "patch", "delete"]]
    resourceNames: Annotated[list[str], Meta(min_length=1)]  # noqa: N815


class Role(KubernetesObject):
    rules: list[PolicyRule]


class RoleBinding(KubernetesObject):
    roleRef: dict[Literal["apiGroup", "kind", "name"], str]  # noqa: N815
    subjects: list[dict[Literal["kind", "name", "namespace"], str]]


class HpaFloorSpec(Strict):
    minReplicas: Positive  # noqa: N815


class HpaFloor(KubernetesObject):
    """The part of an HPA that our field manager owns."""

    spec: HpaFloorSpec


SHAPES: dict[str, tuple[str, type[KubernetesObject]]] = {
    "ScaledObject": ("keda.sh/v1alpha1", ScaledObject),
    "CronJob": ("batch/v1", CronJob),
    "ServiceAccount": ("v1", KubernetesObject),
    "ConfigMap": ("v1", ConfigMap),
    "PersistentVolumeClaim": ("v1", Claim),
    "Role": ("rbac.authorization.k8s.io/v1", Role),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", RoleBinding),
    "HorizontalPodAutoscaler": ("autoscaling/v2", HpaFloor),
}
"""API version and shape by kind."""


def faults(obj: dict[str, Any]) -> list[str]:
    """Faults of an emitted object, one line each; empty if the component accepts it."""
    kind = str(obj.get("kind"))
    if kind == "LLMInferenceService":
        return _triggers(_nested_triggers(obj))
    if kind not in SHAPES:
        return [f"kind {kind} is none that inferdoc writes"]
    name = (obj.get("metadata") or {}).get("name", "?")
    version, shape = SHAPES[kind]
    if obj.get("apiVersion") != version:
        return [f"{kind} {name}: apiVersion {obj.get('apiVersion')!r}, expected {version!r}"]
    try:
        msgspec.convert(obj, shape, strict=True)
    except msgspec.ValidationError as fault:
        return [f"{kind} {name}: {fault}"]
    return _triggers(obj["spec"]["triggers"]) if kind == "ScaledObject" else []


def trigger_faults(obj: dict[str, Any]) -> list[str]:
    """Faults of the triggers under our prefix in an object of the user."""
    found = (obj.get("spec") or {}).get("triggers") or _nested_triggers(obj)
    return _triggers([t for t in found if str(t.get("name", "")).startswith(PREFIX)])


def _nested_triggers(obj: dict[str, Any]) -> list[dict[str, Any]]:
    spec = obj.get("spec") or {}
    places = [spec.get("scaling") or {}, (spec.get("prefill") or {}).get("scaling") or {}]
    return [t for place in places for t in (place.get("keda") or {}).get("triggers") or []]


def _triggers(triggers: list[dict[str, Any]]) -> list[str]:
    found = []
    for trigger in triggers:
        try:
            msgspec.convert(trigger, Trigger, strict=True)
            if trigger.get("type") == "cron":
                meta = msgspec.convert(trigger["metadata"], CronTriggerMeta, strict=True)
                if meta.start == meta.end:
                    found.append(f"trigger {trigger.get('name')}: start and end are the same")
                if trigger.get("metricType", "AverageValue") != "AverageValue":
                    found.append(f"trigger {trigger.get('name')}: metricType Value is relative to what runs")
        except msgspec.ValidationError as fault:
            found.append(f"trigger {trigger.get('name')}: {fault}")
    return found
