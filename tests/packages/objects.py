"""What an object has to be, beyond the schemas of Kubernetes: those of the Prometheus Operator, and that of a pod that
runs under the restricted standard (https://kubernetes.io/docs/concepts/security/pod-security-standards/)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import msgspec

VERSION = "1.33"
KINDS_OF_OTHERS = ("PrometheusRule", "ServiceMonitor")


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Metadata(_Strict):
    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Rule(_Strict):
    expr: str
    record: str = ""
    alert: str = ""
    for_: str = msgspec.field(name="for", default="")
    keep_firing_for: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Group(_Strict):
    name: str
    rules: list[Rule]
    interval: str = ""
    limit: int = 0
    query_offset: str = ""
    labels: dict[str, str] = {}
    partial_response_strategy: str = ""


class Groups(_Strict):
    groups: list[Group]


class PrometheusRule(_Strict):
    """https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.PrometheusRule"""

    apiVersion: str  # noqa: N815
    kind: str
    metadata: Metadata
    spec: Groups


class Credentials(_Strict):
    name: str
    key: str


class Authorization(_Strict):
    type: str
    credentials: Credentials


class Endpoint(_Strict):
    port: str
    path: str
    interval: str
    authorization: Authorization


class Selector(_Strict):
    matchLabels: dict[str, str]  # noqa: N815


class Monitor(_Strict):
    selector: Selector
    endpoints: list[Endpoint]


class ServiceMonitor(_Strict):
    """The fields that are used of https://prometheus-operator.dev/docs/api-reference/api/#servicemonitor"""

    apiVersion: str  # noqa: N815
    kind: str
    metadata: Metadata
    spec: Monitor


def refuse_wrong(objects: list[dict[str, Any]]) -> None:
    """Raises where an object is not what its API takes; unknown fields are wrong."""
    for obj in objects:
        if obj["kind"] == "PrometheusRule":
            assert obj["apiVersion"] == "monitoring.coreos.com/v1"
            msgspec.convert(obj, PrometheusRule)
        elif obj["kind"] == "ServiceMonitor":
            assert obj["apiVersion"] == "monitoring.coreos.com/v1"
            msgspec.convert(obj, ServiceMonitor)
        else:
            kubernetes_validate.validate(obj, VERSION, strict=True)


def pods(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and pod template of everything that runs."""
    for obj in objects:
        if obj["kind"] == "Deployment":
            yield obj["metadata"]["name"], obj["spec"]["template"]
        elif obj["kind"] == "CronJob":
            yield obj["metadata"]["name"], obj["spec"]["jobTemplate"]["spec"]["template"]


def unsafe(template: dict[str, Any]) -> list[str]:
    """What the restricted standard, or a read-only root, would not allow of a pod."""
    spec = template["spec"]
    own = spec.get("securityContext", {})
    told = []
    if own.get("runAsNonRoot") is not True or not own.get("runAsUser"):
        told.append("may run as root")
    if own.get("seccompProfile") != {"type": "RuntimeDefault"}:
        told.append("no seccomp profile")
    told += [f"host{name}" for name in ("Network", "PID", "IPC") if spec.get(f"host{name}")]
    told += [f"volume {volume['name']} of the host" for volume in spec.get("volumes", []) if "hostPath" in volume]
    for container in (*spec.get("initContainers", []), *spec["containers"]):
        limits = container.get("securityContext", {})
        if limits.get("allowPrivilegeEscalation") is not False or limits.get("privileged"):
            told.append("may gain privileges")
        if limits.get("readOnlyRootFilesystem") is not True:
            told.append("writable root")
        if limits.get("capabilities", {}).get("drop") != ["ALL"] or limits["capabilities"].get("add"):
            told.append("capabilities")
        if "memory" not in container["resources"].get("limits", {}) or "cpu" not in container["resources"]["requests"]:
            told.append("resources")
        if any(entry.get("valueFrom", {}).get("secretKeyRef") for entry in container.get("env", [])):
            told.append("secret in the environment")
    return told
