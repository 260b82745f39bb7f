"""Find engine targets that are down or not scraped.

Such a target has no series but `up`, so nothing says that it is an engine. Its job does, or the workload that its
name shows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from inferdoc.catalogue.names import load_identity
from inferdoc.catalogue.signal import REQUIRED_TIER
from inferdoc.fleet.members import Fleet, Member, Pool
from inferdoc.fleet.workloads import workload
from inferdoc.source.base import Scrapes, Source
from inferdoc.source.frame import Entity, SignalFrame
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


RESTARTS = "kubelet_restarts"


def add_silent(fleet: Fleet, frame: SignalFrame, scrapes: Sequence[Scrapes]) -> None:
    """Put the targets that never answered into the pool that they were to serve in: that of their workload, else that
    of their job, where all engines of the job are one pool. One that is named like an engine and that the kubelet
    restarts is the only pod of a pool of its own."""
    engine = re.compile(load_identity().engine_names)
    restarted = {entity.member for entity in frame[RESTARTS].entities} if RESTARTS in frame else set()
    members = fleet.by_key()
    by_workload: dict[tuple[str, str, str], set[Pool]] = {}
    by_job: dict[tuple[str, str, str], set[Pool]] = {}
    silent: dict[tuple[str, str, str], tuple[Entity, str]] = {}
    for target in scrapes:
        entity, job = Entity.of_labels(target.labels), target.labels.get("job", "")
        cluster, namespace, pod = entity.member
        if entity.member in members:
            pool = members[entity.member].pool
            by_workload.setdefault((cluster, namespace, workload(pod)[0]), set()).add(pool)
            by_job.setdefault((cluster, namespace, job), set()).add(pool)
        elif len(target.up) and not (target.up >= 0.5).any():
            silent[entity.member] = entity, job
    for (cluster, namespace, pod), (entity, job) in sorted(silent.items()):
        pools = by_workload.get((cluster, namespace, workload(pod)[0])) or by_job.get((cluster, namespace, job), set())
        if not pools and engine.search(f"{pod} {job}") and (cluster, namespace, pod) in restarted:
            pools = {Pool(cluster, namespace, "", "both", REQUIRED_TIER)}
        if len(pools) == 1:
            why = (("role", "its workload"), ("tier", "its workload"))
            instance, node = entity.get("instance"), entity.get("node")
            fleet.members.append(Member(entity.member, instance, node, min(pools, key=str), why))
