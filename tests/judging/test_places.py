"""Where a step is to be done: from owners and nodes, else from the name of the pod, else asked of the cluster."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.places import PLACES, Places, filled, in_general, read_places
from inferdoc.judging.verdict import Match
from inferdoc.source.base import InfoSeries, Scrapes
from inferdoc.source.reads import Grid
from tests.judging.frames import N, recipe, scene, unit_of

GRID = Grid(0, 1000, 1, 1000, 10_000, 2500)
SEEN = np.ones(1)


class Cluster:
    """A source with these info series."""

    def __init__(self, **series: list[dict[str, str]]) -> None:
        self.series = series

    def names(self, start_ms: int, end_ms: int) -> set[str]:
        return set(self.series)

    def info(self, name: str, grid: Grid) -> list[InfoSeries]:
        return [InfoSeries(labels, SEEN) for labels in self.series[name]]


def told(text: str, places: Places, pod: str = "p0") -> str:
    context = scene({"load": {pod: np.ones(N)}})
    return filled(text, places, context, Match(recipe(), unit_of(context, pod), 0, N - 1, False, [], "likely"))


def target(job: str, pod: str) -> Scrapes:
    labels = {"job": job, "namespace": "llm", "pod": pod, "instance": f"{pod}:9"}
    return Scrapes(labels, np.arange(1, dtype=np.int64), SEEN)


def test_owners_through_the_replica_set_or_by_its_name():
    pods = [("a", "ReplicaSet", "llama-rs1"), ("b", "ReplicaSet", "qwen-7d4b9c6f5d"), ("c", "StatefulSet", "phi")]
    owners = [{"namespace": "llm", "pod": p, "owner_kind": k, "owner_name": n} for p, k, n in pods]
    sets = [{"namespace": "llm", "replicaset": "llama-rs1", "owner_kind": "Deployment", "owner_name": "llama"}]
    places = read_places(Cluster(kube_pod_owner=owners, kube_replicaset_owner=sets), GRID, [])
    assert [places.workload("llm", pod) for pod in "abc"] == ["deployment/llama", "deployment/qwen", "statefulset/phi"]


@pytest.mark.parametrize(
    ("pod", "workload"),
    [("llama-7d4b9c6f5d-x2vtz", "deployment/llama"), ("llama-3", "statefulset/llama"), ("llama", None)],
)
def test_else_the_name_of_the_pod_tells(pod, workload):
    assert Places().workload("llm", pod) == workload


def test_what_nothing_tells_is_asked_of_the_cluster_in_place():
    assert told("kubectl drain {node}", Places(), "solo") == (
        "kubectl drain $(kubectl get pod solo -o jsonpath='{.spec.nodeName}')"
    )
    assert "ownerReferences" in told("{workload}", Places(), "solo")
    path = """{.items[?(@.spec.scaleTargetRef.name=="llama")].metadata.name}"""
    assert told("kubectl{ns} describe {hpa}", Places(), "llama-3") == (
        f"kubectl describe hpa $(kubectl get hpa -o jsonpath='{path}')"
    )
    assert told("{uncordon}", Places(), "solo") == "uncordon the node that the command names"


def test_nodes_and_routers():
    info = [{"namespace": "", "pod": "p0", "node": "gpu-17"}]
    places = read_places(
        Cluster(kube_pod_info=info), GRID, [target("epp", "gaie-epp-5c9f8b7d6-k2x9v"), target("vllm", "p0")]
    )
    assert told("kubectl cordon {node}", places) == "kubectl cordon gpu-17"
    assert places.routers == {"llm": "gaie-epp-5c9f8b7d6-k2x9v"}


def test_no_label_says_more_to_a_shell_than_a_name():
    odd = "p0; reboot"
    info = [{"namespace": "", "pod": odd, "node": "$(reboot)"}]
    places = read_places(Cluster(kube_pod_info=info), GRID, [])
    assert told("kubectl logs {pod}", places, odd) == "kubectl logs 'p0; reboot'"
    assert told("kubectl drain {node}", places, odd) == "kubectl drain '$(reboot)'"
    assert "get pod 'p0; reboot' -o" in told("{node}", Places(), odd)


def test_replicas():
    assert told("{replicas_now} then {replicas_desired}", Places()) == "1 then 2"


def test_without_a_finding_there_are_words_for_every_place():
    assert "{" not in in_general("".join(f"{{{name}}}" for name in PLACES))
    assert in_general("kubectl{ns} delete pod {pod}") == "kubectl -n NAMESPACE delete pod POD"
    assert in_general("cap it[ at {safe_queue}| early], {kv_needed}") == "cap it early, (worked out from the metrics)"
