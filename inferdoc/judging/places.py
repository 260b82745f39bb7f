"""Where a step is to be done: namespace, workload, pod, node and GPU, as words that can be pasted into a shell.
Names come from labels, which are the words of others: each is quoted where a shell would read more into it.

kube-state-metrics knows whose a pod is and where it runs; else the name of the pod shows its workload (`fleet.
workloads`). What nothing shows is evaluated on the cluster in place: a step prints `$(kubectl get pod ... nodeName)`,
never a word to fill in. Series: kube_pod_info (node), kube_pod_owner and kube_replicaset_owner (owner_kind,
owner_name), kube_horizontalpodautoscaler_info (scaletargetref_name); github.com/kubernetes/kube-state-metrics,
docs/metrics.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from inferdoc.fleet.workloads import ORDINAL, REPLICA_SET, REPLICA_SET_POD, workload
from inferdoc.judging.advice import NAME, needed_replicas, pool_size, without_numbers
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
SAVED = "inferdoc/labels"
"""Annotation with the labels that a pod had before it was taken out of rotation."""
LABELS_TEMPLATE = "{{range $k, $v := .metadata.labels}}{{$k}}={{$v}} {{ end }}"
SELECTORS_TEMPLATE = (
    "{{range .items}}{{range $k, $v := or .spec.selector.matchLabels .spec.selector}}{{$k}}- {{ end }}{{ end }}"
)
"""A service has its selector flat, an InferencePool of v1 under matchLabels (v1alpha2: flat), and some have none."""
DEFAULT_PORT = "8000"
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
        """`deployment/vllm` or `statefulset/vllm`; None where neither an owner nor the name of the pod shows it."""
        owner = self.owners.get((namespace, pod))
        if owner is not None:
            return f"{owner[0].lower()}/{owner[1]}"
        if REPLICA_SET_POD.fullmatch(pod):
            return f"deployment/{workload(pod)[0]}"
        return f"statefulset/{workload(pod)[0]}" if ORDINAL.fullmatch(pod) else None


def read_places(source: Source, grid: Grid, scrapes: Sequence[Scrapes]) -> Places:
    """What the source knows."""
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


def _required(places: Places, context: Context, match: Match, path: str) -> str:
    """The cluster requested a field of the pod, in place."""
    return f"$(kubectl{_ns(places, context, match)} get pod {_pod(places, context, match)} -o jsonpath='{path}')"


def _node(places: Places, context: Context, match: Match) -> str:
    known = _known_node(places, match)
    return shlex.quote(known) if known else _required(places, context, match, "{.spec.nodeName}")


def _known_node(places: Places, match: Match) -> str | None:
    member = match.unit.member
    return places.nodes.get((member.pool.namespace, member.pod)) or member.node or None


def _uncordon(places: Places, context: Context, match: Match) -> str:
    """How to let pods onto the node again; in words where only the pod knows it, which may be gone by then."""
    node = _known_node(places, match)
    return f"kubectl uncordon {shlex.quote(node)}" if node else "uncordon the node that the command names"


def _labels_now(places: Places, context: Context, match: Match) -> str:
    """The labels of the pod, as `kubectl label` takes them."""
    where = f"kubectl{_ns(places, context, match)} get pod {_pod(places, context, match)}"
    return f"$({where} -o go-template={shlex.quote(LABELS_TEMPLATE)})"


def _labels_selected(places: Places, context: Context, match: Match) -> str:
    """Every label that a service or an InferencePool of the namespace selects by, as `kubectl label` removes it: no
    selector finds a pod without them."""
    get = f"kubectl{_ns(places, context, match)} get $kind -o go-template={shlex.quote(SELECTORS_TEMPLATE)}"
    return f"$(for kind in services inferencepools; do {get}; done)"


def _port(places: Places, context: Context, match: Match) -> str:
    """The port of the API server, which is that of its metrics."""
    port = match.unit.member.instance.rpartition(":")[2]
    return port if port.isdigit() else DEFAULT_PORT


def _workload(places: Places, context: Context, match: Match) -> str:
    member = match.unit.member
    owner = "{.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}"
    known = places.workload(member.pool.namespace, member.pod)
    return shlex.quote(known) if known else _required(places, context, match, owner)


def _hpa(places: Places, context: Context, match: Match) -> str:
    """The autoscaler of the workload, and no other of its namespace."""
    namespace = match.unit.member.pool.namespace
    scaled = (places.workload(namespace, match.unit.member.pod) or "").partition("/")[2]
    name = places.autoscalers.get((namespace, scaled))
    if name:
        return f"hpa {shlex.quote(name)}"
    those = f"[?(@.spec.scaleTargetRef.name=={json.dumps(scaled)})]" if scaled else "[0]"
    path = shlex.quote(f"{{.items{those}.metadata.name}}")
    return f"hpa $(kubectl{_ns(places, context, match)} get hpa -o jsonpath={path})"


def _router(places: Places, context: Context, match: Match) -> str:
    namespace = match.unit.member.pool.namespace
    pod = places.routers.get(namespace)
    known = places.workload(namespace, pod) or f"pod/{pod}" if pod else None
    query = f"kubectl{_ns(places, context, match)} get deployments -o name | grep -m1 -E 'epp|router|scheduler'"
    return shlex.quote(known) if known else f"$({query})"


def _gpu(places: Places, context: Context, match: Match) -> str:
    """` -i UUID` of the one GPU that the evidence is about, else nothing: all GPUs of the pod."""
    member, frame = match.unit.member, context.view.frame
    texts = {found.group(1) for e in match.evidence if (found := OF_GPU.search(e.outcome.entity))}
    if len(texts) != 1:
        return ""
    gpu = texts.pop()
    for signal in GPU_SIGNALS:
        for entity in frame[signal].entities if signal in frame else []:
            if member.owns_gpu(entity) and gpu in (entity.get("gpu"), entity.get("UUID")):
                return f" -i {shlex.quote(entity.get('UUID') or entity.get('gpu'))}"
    return ""


def _replicas_desired(places: Places, context: Context, match: Match) -> str:
    """Arrivals over what a replica finishes, with room to spare, where that is more; else one more than there are."""
    return str(max(pool_size(context, match) + 1, needed_replicas(context, match) or 0))


PLACES: dict[str, Callable[[Places, Context, Match], str]] = {
    "ns": _ns,
    "pod": _pod,
    "node": _node,
    "uncordon": _uncordon,
    "labels_now": _labels_now,
    "labels_selected": _labels_selected,
    "labels_saved": partial(_required, path=f"{{.metadata.annotations.{SAVED}}}"),
    "port": _port,
    "workload": _workload,
    "hpa": _hpa,
    "router": _router,
    "gpu": _gpu,
    "replicas_now": lambda places, context, match: str(pool_size(context, match)),
    "replicas_desired": _replicas_desired,
}
"""What steps may name in braces besides the numbers of `advice`. `ns` is a flag with a space before it, or nothing."""


def filled(text: str, places: Places, context: Context, match: Match) -> str:
    """The text with every place filled in."""

    def replace(found: re.Match[str]) -> str:
        place = PLACES.get(found.group(1))
        return found.group(0) if place is None else place(places, context, match)

    return NAME.sub(replace, text)


UNKNOWN_NUMBER = "(worked out from the metrics)"
IN_GENERAL = {
    "ns": " -n NAMESPACE",
    "pod": "POD",
    "node": "NODE",
    "uncordon": "kubectl uncordon NODE",
    "labels_now": "LABELS",
    "labels_selected": "SELECTED-",
    "labels_saved": "LABELS",
    "port": "PORT",
    "workload": "deployment/NAME",
    "hpa": "hpa NAME",
    "router": "deployment/ROUTER",
    "gpu": "",
    "replicas_now": "(as many as before)",
    "replicas_desired": "(as many as needed)",
    PREVIOUS: UNKNOWN,
}


def in_general(text: str) -> str:
    """The text with words for the places and the numbers, where there is no finding to fill them in."""
    return NAME.sub(lambda found: IN_GENERAL.get(found.group(1), UNKNOWN_NUMBER), without_numbers(text))


def runs_on_kubernetes(match: Match) -> bool:
    """Whether the target has the name of a pod: one that is known by its address alone may be any process."""
    return match.unit.member.pod != match.unit.member.instance
