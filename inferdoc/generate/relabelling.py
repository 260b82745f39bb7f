"""Relabelling for servers that cannot join: role and tier as labels of the targets, from labels of pods and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inferdoc.catalogue.signal import Tiers

META = "__meta_kubernetes"
ABOUT = """\
relabel_configs for the job that scrapes engines, where recording rules cannot be loaded: role from the label of the
pod, tier from the label of its node. Kubernetes service discovery must attach the node (attach_metadata: {node: true},
Prometheus 2.35). In a PodMonitor the same stands under relabelings (sourceLabels, targetLabel) and attachMetadata."""


def relabelling(tiers: Tiers) -> dict[str, Any]:
    """`relabel_configs`: the last that fits counts, so the first tier of the catalogue comes last."""
    return {"relabel_configs": [*_roles(tiers), *_tiers(tiers)]}


def _roles(tiers: Tiers) -> Iterator[dict[str, Any]]:
    for label in tiers.roles.pod_labels:
        for role, words in tiers.roles.words.items():
            yield _rule(f"{META}_pod_{label}", words, "role", role)


def _tiers(tiers: Tiers) -> Iterator[dict[str, Any]]:
    for label in tiers.cards.node_labels:
        for name, tier in reversed(tiers.tiers.items()):
            if tier.names:
                yield _rule(f"{META}_node_{label}", tier.pattern, "tier", name)


def _rule(source: str, pattern: str, target: str, value: str) -> dict[str, Any]:
    return {"source_labels": [source], "regex": f"(?i){pattern}", "target_label": target, "replacement": value}
