"""What the pods of a finding have in common and their like pods have not: a node, a version, a setting, a rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from inferdoc.catalogue.signal import Marker
from inferdoc.judging.view import Unit, View
from inferdoc.source.base import InfoSeries, Scrapes
from inferdoc.source.frame import Entity

IDENTITY = frozenset(
    [
        "__name__",
        "job",
        "instance",
        "pod",
        "namespace",
        "cluster",
        "endpoint",
        "container",
        "service",
        "model_name",
        "uid",
    ]
)
"""Labels of a target that say which one it is, or that all share: no reason to fail together."""
FEWEST = 2
"""Two pods must share a trait before it says anything: any single pod stands on some node."""

Traits = dict[tuple[str, str, str], dict[str, str]]
"""Pod (cluster, namespace, name) -> trait -> value."""


def traits_of(
    view: View, scrapes: Sequence[Scrapes], markers: Sequence[Marker], infos: Mapping[str, Sequence[InfoSeries]]
) -> Traits:
    """The node and other target labels of every pod, its template (two releases side by side are told apart), the GPU's
    driver, and the newest value of every setting."""
    found: Traits = {member.key: {"node": member.node} if member.node else {} for member in view.fleet.members}
    for key, template in view.lineage.templates.items():
        if key in found:
            found[key]["pod template"] = template
    for target in scrapes:
        own = found.get(Entity.of_labels(target.labels).member)
        if own is not None:
            own.update({name: value for name, value in target.labels.items() if name not in IDENTITY and value})
    for marker in markers:
        newest: dict[tuple[str, str, str], int] = {}
        for one in infos.get(str(marker.info), ()):
            key, seen = Entity.of_labels(one.labels).member, np.flatnonzero(np.isfinite(one.values))
            if key in found and len(seen) and seen[-1] >= newest.get(key, -1):
                newest[key] = int(seen[-1])
                found[key].update({label: one.labels[label] for label in marker.labels if one.labels.get(label)})
    return found


def shared(traits: Traits, hit: Sequence[Unit], like: Sequence[Unit]) -> dict[str, str]:
    """Traits that all pods hit share and no like pod has; the rank too, where ranks of one number are hit on several
    pods. like: every unit of their pool."""
    pods = {unit.member.key for unit in hit}
    rest = {unit.member.key for unit in like} - pods
    if len(pods) < FEWEST:
        return {}
    found = {}
    if rest:
        first = traits.get(next(iter(sorted(pods))), {})
        for name, value in sorted(first.items()):
            if all(traits.get(p, {}).get(name) == value for p in pods):
                others = [traits.get(p, {}).get(name) for p in rest]
                if value not in others and any(others):
                    found[name] = value
    ranks = {unit.engine for unit in hit}
    if len(ranks) == 1 and len({unit.engine for unit in like}) > 1:
        found["engine"] = ranks.pop()
    return found
