"""Which part of an object holds a floor, and where KEDA's triggers stand on it.

An LLMInferenceService scales its prefill pods apart, so that one object holds the floors of two pools: the record of
the prefill part stands under a domain of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

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
    """Annotations of ours as they stand on an object for a part."""
    return {f"{domain}/{key.partition('/')[2]}": value for key, value in annotations.items()}


@dataclass(frozen=True)
class TriggerPlace:
    """Where a kind of object holds KEDA's triggers. word: of a command line; resource: as RBAC names it; scaling: path
    of the stanza, and within it triggers, floor and ceiling; absent: the floor of an object that gives none; domain: of
    our record."""

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
"""By what `--target` calls them."""


def place_on(obj: dict[str, Any] | None, role: str) -> TriggerPlace:
    """Where the triggers of a pool of this role stand on an object."""
    if (obj or {}).get("kind") != "LLMInferenceService":
        return SCALED_OBJECT
    return SERVICE_PREFILL if role == "prefill" else SERVICE
