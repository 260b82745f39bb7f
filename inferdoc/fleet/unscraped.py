"""Pods that run an engine, by their image, and of which no page is scraped."""

from __future__ import annotations

from collections.abc import Collection

from inferdoc.catalogue.identity import load_identity
from inferdoc.fleet.members import Fleet
from inferdoc.source.base import Source
from inferdoc.source.reads import Grid


def unscraped(source: Source, grid: Grid, names: Collection[str], fleet: Fleet) -> list[tuple[str, str]]:
    """Namespace and pod of each, where kube-state-metrics is scraped. names: of the series that the source has. Raises
    SourceError."""
    identity = load_identity()
    if identity.containers not in names:
        return []
    series = source.info(identity.containers, grid, (("image", "=~", identity.engine_images),))
    running = {(one.labels.get("namespace", ""), one.labels.get("pod", "")) for one in series}
    return sorted(running - {(member.pool.namespace, member.pod) for member in fleet.members})
