"""What can be patched: which field carries the floor, and the narrowest right to change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inferdoc.errors import InferdocError


@dataclass(frozen=True)
class Aim:
    """A kind of object whose floor is one field. resource: as kubectl and RBAC name it; group: API group; field: path
    of the floor; subresource: `scale` where only that is touched; note: what else must hold."""

    kind: str
    group: str
    resource: str
    field: tuple[str, ...]
    subresource: str | None = None
    note: str = ""

    @property
    def rbac_resource(self) -> str:
        return self.resource if self.subresource is None else f"{self.resource}/{self.subresource}"

    @property
    def kubectl_resource(self) -> str:
        return f"{self.resource}.{self.group}" if self.group not in ("apps", "autoscaling") else self.resource

    def patch(self, replicas: int) -> dict[str, Any]:
        """The merge patch that sets the floor."""
        made: dict[str, Any] = {}
        inner = made
        for part in self.field[:-1]:
            inner = inner.setdefault(part, {})
        inner[self.field[-1]] = replicas
        return made


AIMS = {
    aim.kind: aim
    for aim in (
        Aim(
            "HorizontalPodAutoscaler",
            "autoscaling",
            "horizontalpodautoscalers",
            ("spec", "minReplicas"),
            note="maxReplicas must be at least the plan's maximum, and the workload must stand at 1 replica or more.",
        ),
        Aim(
            "Deployment",
            "apps",
            "deployments",
            ("spec", "replicas"),
            subresource="scale",
            note="Only for a workload without any autoscaler: an HPA would undo it at its next sync.",
        ),
    )
}


def aim_of(kind: str) -> Aim:
    if kind not in AIMS:
        raise InferdocError(f"kind `{kind}` cannot be patched; choose one of {', '.join(sorted(AIMS))}")
    return AIMS[kind]
