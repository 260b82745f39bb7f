"""Whose pages belong to which engine: what the labels of both sides have in common.

An exporter may name the pod that it speaks of under any of several names; the one under which an engine is known
counts. A GPU exporter that names no pod at all names its machine: where a single engine runs there, the GPUs are its.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.source.base import InfoSeries
from inferdoc.source.identity import (
    CLUSTER,
    INSTANCE,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    SWITCH,
    Key,
    Naming,
    Who,
    address,
    key_of,
)
from inferdoc.source.processes import Processes


@dataclass(frozen=True)
class PodPlaces:
    """What kube-state-metrics reports of pods. node: by namespace and pod; pod: (namespace, pod, node) by address."""

    node: Mapping[tuple[str, str], str] = field(default_factory=dict)
    pod: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, series: Iterable[InfoSeries], naming: Naming) -> PodPlaces:
        """From kube_pod_info."""
        node, pod = {}, {}
        for one in series:
            who = naming.of(one.labels, naming.first(one.labels))
            node[who[NAMESPACE], who[POD]] = one.labels.get("node", "")
            if one.labels.get("pod_ip") and one.labels.get("pod_ip") != one.labels.get("host_ip"):
                pod[one.labels["pod_ip"]] = who[NAMESPACE], who[POD], one.labels.get("node", "")
        return cls(node, pod)


@dataclass
class GpuHosts:
    """How the GPUs of exporters that name no pod were joined, by name of the machine. alone: to its only engine;
    crowded: how many engines are there; unknown: none is known to be there."""

    alone: set[str] = field(default_factory=set)
    crowded: dict[str, int] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


class Joins:
    """Finds who any series is about, given the processes of the engines."""

    def __init__(self, processes: Processes, places: PodPlaces, engines: Sequence[Mapping[str, str]]) -> None:
        self.processes, self.places, self.hosts = processes, places, GpuHosts()
        self._blind: set[str] = set()
        self._placed = {raw: processes.where_it_is_now(self._at_address(who)) for raw, who in processes.who.items()}
        self.keys = {key_of(who) for who in self._placed.values()}
        self._by_pod: dict[str, set[Key]] = {}
        for key in self.keys:
            self._by_pod.setdefault(key[2], set()).add(key)
        self._clusters = {key[0] for key in self.keys}
        self._namespaces = {key[1] for key in self.keys}
        self.have_pods = any(who[POD] for who in self._placed.values())
        self._by_host: dict[str, set[Key]] = {}
        for labels in engines:
            key = key_of(self._placed[processes.raw(labels)])
            node = places.node.get((key[1], key[2]))
            for host in (*([node] if node else ()), *processes.naming.host(labels)):
                self._by_host.setdefault(host, set()).add(key)

    @property
    def naming(self) -> Naming:
        """The labels that decide."""
        return self.processes.naming

    def is_engine(self, who: Who) -> bool:
        """Whether a series is about an engine."""
        return key_of(who) in self.keys

    def look_at_gpus(self, gpus: Sequence[Mapping[str, str]]) -> None:
        """See which jobs of GPU exporters name pods, and which machines can stand for them."""
        named: dict[str, bool] = {}
        for labels in gpus:
            job, adopted = self.naming.of(labels, None)[JOB], self._adopted(labels, gpu=True)
            named[job] = named.get(job, False) or adopted is not None
            if adopted is not None:
                for host in self.naming.host(labels):
                    self._by_host.setdefault(host, set()).add(key_of(adopted))
        self._blind = {job for job, any_named in named.items() if not any_named}
        for labels in gpus:
            if self.naming.of(labels, None)[JOB] in self._blind:
                self._note_host(labels)

    def who(self, labels: Mapping[str, str], gpu: bool) -> Who:
        """Who a series with these labels is about."""
        placed = None if gpu else self._placed.get(self.processes.raw(labels))
        if placed is not None:
            return placed
        adopted = self._adopted(labels, gpu)
        if adopted is not None:
            return adopted if gpu else self.processes.where_it_is_now(adopted)
        plain = self.naming.of(labels, self.naming.first(labels, gpu))
        if gpu and (plain[JOB] in self._blind or labels.get(SWITCH)):
            keys = self._on_host(labels)
            return _renamed(plain, next(iter(keys))) if len(keys) == 1 else plain
        if not gpu and plain[JOB] in self.processes.families:
            return self.processes.where_it_is_now(self._at_address(self.processes.by_rule(labels)))
        return self._near(plain)

    def _at_address(self, who: Who) -> Who:
        """A process without a pod label under the pod that has its address."""
        if who[POD]:
            return who
        found = self.places.pod.get(address(who[INSTANCE]))
        if found is None:
            return who
        namespace, pod, node = found
        return who[CLUSTER], namespace, who[NODE] or node, pod, who[INSTANCE], who[JOB]

    def _adopted(self, labels: Mapping[str, str], gpu: bool) -> Who | None:
        """Under the first name that an engine has; None where none is known, or several are."""
        for pod in self.naming.named(labels, gpu):
            keys = self._by_pod.get(labels[pod.pod])
            if keys:
                own = self.naming.of(labels, pod)
                clusters, namespaces = self.naming.clusters(labels), set(self.naming.namespaces(labels))
                fit = [k for k in keys if _fits(k[0], clusters) and _fits(k[1], namespaces)]
                exact = [k for k in fit if k[:2] == own[:2]]
                if len(exact or fit) == 1:
                    return _renamed(own, (exact or fit)[0])
        return None

    def _on_host(self, labels: Mapping[str, str]) -> set[Key]:
        if self.have_pods and labels.get(self.naming.labels.pods[0].pod):
            return set()  # it names a pod, which is no engine
        return next((self._by_host[host] for host in self.naming.host(labels) if host in self._by_host), set())

    def _note_host(self, labels: Mapping[str, str]) -> None:
        host, keys = next(self.naming.host(labels), "?"), self._on_host(labels)
        if len(keys) == 1:
            self.hosts.alone.add(host)
        elif keys:
            self.hosts.crowded[host] = len(keys)
        else:
            self.hosts.unknown.add(host)

    def _near(self, who: Who) -> Who:
        """In the cluster and the namespace of the engines, where theirs are not known, or only one is."""
        cluster, namespace = who[CLUSTER], who[NAMESPACE]
        if len(self._clusters) == 1 and (not cluster or self._clusters == {""}):
            cluster = next(iter(self._clusters))
        if self._namespaces == {""}:
            namespace = ""
        return cluster, namespace, who[NODE], who[POD], who[INSTANCE], who[JOB]


def _fits(value: str, outcome: set[str]) -> bool:
    return not value or not outcome or value in outcome


def _renamed(who: Who, key: Key) -> Who:
    return key[0], key[1], who[NODE], key[2], who[INSTANCE], who[JOB]
