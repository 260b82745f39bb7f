"""What goes down together: on which node and in which zone the pods of a fleet run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.fleet.members import Member
from inferdoc.forecast.fromsource import STEP, Key
from inferdoc.judging.places import read_places
from inferdoc.source.base import Source
from inferdoc.source.frame import Entity
from inferdoc.source.reads import Grid

NODE_LABELS, TARGETS, GPU = "kube_node_labels", "up", "DCGM_FI_DEV_GPU_UTIL"
ZONES = ("topology_kubernetes_io_zone", "failure_domain_beta_kubernetes_io_zone", "availability_zone", "zone")
"""Labels of a target or, with `label_` before them, of kube_node_labels that name a zone."""
NODE_MISSING = "collect kube-state-metrics (kube_pod_info), or relabel the targets with `node`"
ZONE_MISSING = (
    "give kube-state-metrics --metric-labels-allowlist=nodes=[topology.kubernetes.io/zone], or relabel the targets "
    "with `zone`"
)
LOOK_BACK = 600
"""Seconds after which an info series that was not scraped again counts as gone."""


@dataclass(frozen=True)
class Whereabouts:
    """Node and zone of pods, as far as anything tells."""

    nodes: Mapping[Key, str] = field(default_factory=dict)
    zones: Mapping[Key, str] = field(default_factory=dict)


def fullest(pods: Sequence[Key], places: Mapping[Key, str]) -> tuple[str, int] | None:
    """The place that holds most of the pods, and how many; None where the place of any of them is not told."""
    if any(pod not in places for pod in pods):
        return None
    counts = Counter(places[pod] for pod in pods)
    return min(counts.items(), key=lambda item: (-item[1], item[0]))


def whereabouts(source: Source, members: Mapping[Key, Member], end: int) -> Whereabouts:
    """Where pods run at a moment. end: Unix seconds."""
    grid = Grid((end - STEP) * 1000, STEP * 1000, 2, STEP * 1000, STEP * 1000, LOOK_BACK * 1000)
    present = source.names(grid.start_ms - grid.gauge_ms, grid.end_ms)
    told = read_places(source, grid, ()).nodes

    def labels(name: str) -> Iterable[Mapping[str, str]]:
        return [one.labels for one in source.info(name, grid)] if name in present else []

    hosts = {Entity.of_labels(one).member: one["Hostname"] for one in labels(GPU) if one.get("Hostname")}
    nodes = {
        key: node
        for key, member in members.items()
        if (node := told.get((key[1], key[2])) or member.node or hosts.get(key))
    }
    of_node = {one.get("node", ""): _zone(one, "label_") for one in labels(NODE_LABELS)}
    of_target = {Entity.of_labels(one).member: _zone(one) for one in labels(TARGETS)}
    zones = {key: of_target.get(key) or of_node.get(nodes.get(key, ""), "") for key in members}
    return Whereabouts(nodes, {key: zone for key, zone in zones.items() if zone})


def _zone(labels: Mapping[str, str], before: str = "") -> str:
    return next((labels[before + name] for name in ZONES if labels.get(before + name)), "")
