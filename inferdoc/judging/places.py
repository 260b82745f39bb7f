"""Where a step is to be done: namespace, workload, pod, node and GPU, as words that can be pasted into a shell.
Names come from labels, which are the words of others: each is quoted where a shell would read more into it.

kube-state-metrics knows whose a pod is and where it runs; else the name of the pod tells its workload (`fleet.
workloads`). What nothing tells is asked of the cluster in place: a step prints `$(kubectl get pod ... nodeName)`, never
a word to fill in. Series: kube_pod_info (node), kube_pod_owner and kube_replicaset_owner (owner_kind, owner_name),
kube_horizontalpodautoscaler_info (scaletargetref_name); github.com/kubernetes/kube-state-metrics, docs/metrics.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.fleet.workloads import ORDINAL, REPLICA_SET, REPLICA_SET_POD, workload
from inferdoc.judging.advice import needed_replicas, pool_size
from inferdoc.judging.context import Context
from inferdoc.judging.settings import PREVIOUS, UNKNOWN
from inferdoc.judging.verdict import Match
from inferdoc.source.base import InfoSeries, Scrapes, Source
from inferdoc.source.frame import Entity
from inferdoc.source.reads import Grid

POD_INFO, POD_OWNER, SET_OWNER = "kube_pod_info", "kube_pod_owner", "kube_replicaset_owner"
AUTOSCALER = "kube_horizontalpodautoscaler_info"
ROUTER = re.compile(r"(?:^|[-_./])(?:epp|endpoint-picker|router|inference-scheduler)(?:$|[-_./])")
OF_GPU = re.compile(r"\bgpu[ =](\S+)$")
"""How an entity ends that is one GPU of a pod."""
GPU_SIGNALS = ("gpu_util", "gpu_power", "sm_clock", "gpu_temp", "gpu_xid")

Place = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True)
class Places:
    """nodes: of pods; owners: of pods, kind and name in lower case and as they are called; autoscalers: namespace and
    workload -> name; routers: namespace -> pod of a router. All by (namespace, name)."""

    nodes: Mapping[Place, str] = field(default_factory=dict)
    owners: Mapping[Place, tuple[str, str]] = field(default_factory=dict)
    autoscalers: Mapping[Place, str] = field(default_factory=dict)
    routers: Mapping[str, str] = field(default_factory=dict)

    def workload(self, namespace: str, pod: str) -> str | None:
        """`deployment/vllm` or `statefulset/vllm`; None where neither an owner nor the name of the pod tells."""
        owner = self.owners.get((namespace, pod))
        if owner is not None:
            return f"{owner[0].lower()}/{owner[1]}"
        if REPLICA_SET_POD.fullmatch(pod):
            return f"deployment/{workload(pod)[0]}"
        return f"statefulset/{workload(pod)[0]}" if ORDINAL.fullmatch(pod) else None


def read_places(source: Source, grid: Grid, scrapes: Sequence[Scrapes]) -> Places:
    """What the source tells."""
    present = source.names(grid.oldest_ms, grid.end_ms)

    def labels(name: str) -> Iterable[Mapping[str, str]]:
        series: list[InfoSeries] = source.info(name, grid) if name in present else []
        return [one.labels for one in series]

    sets = {
        (one.get("namespace", ""), one.get("replicaset", "")): (one["owner_kind"], one["owner_name"])
        for one in labels(SET_OWNER)
        if one.get("owner_name")
    }
    owners = {}
    for one in labels(POD_OWNER):
        if one.get("owner_name"):
            namespace, kind, name = one.get("namespace", ""), one.get("owner_kind", ""), one["owner_name"]
            named = REPLICA_SET.fullmatch(name) if kind == "ReplicaSet" else None
            by_name = ("Deployment", named["workload"]) if named else (kind, name)
            owners[namespace, one.get("pod", "")] = sets.get((namespace, name), by_name)
    nodes = {(o.get("namespace", ""), o.get("pod", "")): o["node"] for o in labels(POD_INFO) if o.get("node")}
    autoscalers = {
        (o.get("namespace", ""), o["scaletargetref_name"]): o.get("horizontalpodautoscaler", "")
        for o in labels(AUTOSCALER)
        if o.get("scaletargetref_name")
    }
    routers: dict[str, str] = {}
    for target in scrapes:
        entity = Entity.of_labels(target.labels)
        if entity.get("pod") and ROUTER.search(f"{target.labels.get('job', '')}/{entity.pod}"):
            routers.setdefault(entity.get("namespace"), entity.pod)
    return Places(nodes, owners, autoscalers, routers)


def _ns(places: Places, context: Context, match: Match) -> str:
    namespace = match.unit.member.pool.namespace
    return f" -n {shlex.quote(namespace)}" if namespace else ""


def _pod(places: Places, context: Context, match: Match) -> str:
    return shlex.quote(match.unit.member.pod)


def _asked(places: Places, context: Context, match: Match, path: str) -> str:
    """The cluster asked for a field of the pod, in place."""
    return f"$(kubectl{_ns(places, context, match)} get pod {_pod(places, context, match)} -o jsonpath='{path}')"


def _node(places: Places, context: Context, match: Match) -> str:
    member = match.unit.member
    known = places.nodes.get((member.pool.namespace, member.pod)) or member.node
    return shlex.quote(known) if known else _asked(places, context, match, "{.spec.nodeName}")


def _workload(places: Places, context: Context, match: Match) -> str:
    member = match.unit.member
    owner = "{.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}"
    known = places.workload(member.pool.namespace, member.pod)
    return shlex.quote(known) if known else _asked(places, context, match, owner)


def _hpa(places: Places, context: Context, match: Match) -> str:
    namespace = match.unit.member.pool.namespace
    scaled = places.workload(namespace, match.unit.member.pod) or ""
    name = places.autoscalers.get((namespace, scaled.partition("/")[2]))
    return f"hpa {shlex.quote(name)}" if name else f"$(kubectl{_ns(places, context, match)} get hpa -o name)"


def _router(places: Places, context: Context, match: Match) -> str:
    namespace = match.unit.member.pool.namespace
    pod = places.routers.get(namespace)
    known = places.workload(namespace, pod) or f"pod/{pod}" if pod else None
    ask = f"kubectl{_ns(places, context, match)} get deployments -o name | grep -m1 -E 'epp|router|scheduler'"
    return shlex.quote(known) if known else f"$({ask})"


def _gpu(places: Places, context: Context, match: Match) -> str:
    """` -i UUID` of the one GPU that the evidence is about, else nothing: all GPUs of the pod."""
    member, frame = match.unit.member, context.view.frame
    said = {found.group(1) for e in match.evidence if (found := OF_GPU.search(e.outcome.entity))}
    if len(said) != 1:
        return ""
    gpu = said.pop()
    for signal in GPU_SIGNALS:
        for entity in frame[signal].entities if signal in frame else []:
            if member.owns_gpu(entity) and gpu in (entity.get("gpu"), entity.get("UUID")):
                return f" -i {shlex.quote(entity.get('UUID') or entity.get('gpu'))}"
    return ""


def _replicas_now(places: Places, context: Context, match: Match) -> str:
    return str(pool_size(context, match))


def _replicas_wanted(places: Places, context: Context, match: Match) -> str:
    """Arrivals over what a replica finishes, with room to spare, where that is more; else one more than there are."""
    return str(max(pool_size(context, match) + 1, needed_replicas(context, match) or 0))


PLACES: dict[str, Callable[[Places, Context, Match], str]] = {
    "ns": _ns,
    "pod": _pod,
    "node": _node,
    "workload": _workload,
    "hpa": _hpa,
    "router": _router,
    "gpu": _gpu,
    "replicas_now": _replicas_now,
    "replicas_wanted": _replicas_wanted,
}
"""What steps may name in braces besides the numbers of `advice`. `ns` is a flag with a space before it, or nothing."""


def filled(text: str, places: Places, context: Context, match: Match) -> str:
    """The text with every place filled in."""

    def replace(found: re.Match[str]) -> str:
        place = PLACES.get(found.group(1))
        return found.group(0) if place is None else place(places, context, match)

    return re.sub(r"\{(\w+)\}", replace, text)


IN_GENERAL = {
    "ns": " -n NAMESPACE",
    "pod": "POD",
    "node": "NODE",
    "workload": "deployment/NAME",
    "hpa": "hpa NAME",
    "router": "deployment/ROUTER",
    "gpu": "",
    "replicas_now": "(as many as before)",
    "replicas_wanted": "(as many as needed)",
    PREVIOUS: UNKNOWN,
}


def in_general(text: str) -> str:
    """The text with words for the places, where there is no finding to fill them in."""
    return re.sub(r"\{(\w+)\}", lambda found: IN_GENERAL.get(found.group(1), found.group(0)), text)


def runs_on_kubernetes(match: Match) -> bool:
    """Whether the target has the name of a pod: one that is known by its address alone may be any process."""
    return match.unit.member.pod != match.unit.member.instance
