"""The names under which scrape configurations store what a series is about, and the usual ones.

cAdvisor, kube-state-metrics, dcgm-exporter, the router and the Prometheus operator write `pod` and `namespace`. The
scrape job for annotated pods in the examples of Prometheus writes `kubernetes_pod_name`, OpenTelemetry `k8s_pod_name`.
An exporter that speaks of other pods has `pod` on its page; where `honor_labels` is off, the default, that is stored as
`exported_pod`, and `pod` holds the exporter's own. Only under one name can they be joined. Which labels may hold what
is declared in `collectors/identity.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from inferdoc.catalogue.names import IdentityLabels, PodLabels

SWITCH = "nvswitch"
"""The label of dcgm-exporter for an NVSwitch, which belongs to a machine and names no pod."""
FIELDS = ("cluster", "namespace", "node", "pod", "instance", "job")
"""The usual names, which a series has after it was read."""
CLUSTER, NAMESPACE, NODE, POD, INSTANCE, JOB = range(len(FIELDS))

Who = tuple[str, str, str, str, str, str]
"""Values of the usual names, empty if unknown."""
Key = tuple[str, str, str]
"""Cluster, namespace, pod (or instance)."""


def key_of(who: Who) -> Key:
    """What series of one process share."""
    return who[CLUSTER], who[NAMESPACE], who[POD] or who[INSTANCE]


@dataclass(frozen=True)
class Naming:
    """The labels that may show what a series is about. labels: as declared; chosen: the user's own choice by field
    (`[labels]`), which is tried first; extra: labels that distinguish label sets in this source, whatever they mean."""

    labels: IdentityLabels
    chosen: Mapping[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    @cached_property
    def pods(self) -> tuple[PodLabels, ...]:
        """Sets of labels that name a pod."""
        pod, namespace = self.chosen.get("pod"), self.chosen.get("namespace")
        if pod is not None:
            return PodLabels(pod, namespace or "namespace"), *self.labels.pods
        if namespace is not None:
            return tuple(PodLabels(one.pod, namespace, one.only, one.unless) for one in self.labels.pods)
        return self.labels.pods

    @cached_property
    def replica(self) -> tuple[str, ...]:
        """Labels of the server that stored a series."""
        return self._with("replica", self.labels.replica)

    @cached_property
    def _plain(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """Place of a field, and the labels that may hold it."""
        own = self.labels
        return (
            (CLUSTER, self._with("cluster", own.cluster)),
            (NODE, self._with("node", own.node)),
            (INSTANCE, self._with("instance", own.instance)),
            (JOB, own.job),
        )

    def _with(self, name: str, declared: tuple[str, ...]) -> tuple[str, ...]:
        chosen = self.chosen.get(name)
        return declared if chosen is None else (chosen, *declared)

    def read(self, gpu: bool) -> tuple[str, ...]:
        """Every label that has to be read to show what a series is about."""
        pods = [one for one in self.pods if gpu or one.only is None]
        names = [*(n for one in pods for n in (one.pod, one.namespace)), *self.labels.subjects]
        names += [n for _, labels in self._plain for n in labels]
        return tuple(dict.fromkeys([*names, *((*self.labels.host, SWITCH) if gpu else ()), *self.replica, *self.extra]))

    def of(self, labels: Mapping[str, str], pod: PodLabels | None) -> Who:
        """Who a series with these labels is about, where its pod stands under these names."""
        found = [""] * len(FIELDS)
        for place, names in self._plain:
            found[place] = next((labels[name] for name in names if labels.get(name)), "")
        subject = next((labels[name] for name in self.labels.subjects if labels.get(name)), "")
        if pod is not None and pod.name(labels):
            found[POD] = labels[pod.pod]
            found[NAMESPACE] = subject or labels.get(pod.namespace) or labels.get("namespace", "")
        else:
            found[NAMESPACE] = subject or next(self.namespaces(labels), "")
        cluster, namespace, node, name, instance, job = found
        return cluster, namespace, node, name, instance, job

    def named(self, labels: Mapping[str, str], gpu: bool = False) -> Iterator[PodLabels]:
        """The sets of labels under which these name a pod, in order."""
        return (one for one in self.pods if one.name(labels) and (gpu or one.only is None))

    def first(self, labels: Mapping[str, str], gpu: bool = False) -> PodLabels | None:
        """The set of labels under which these name a pod first."""
        return next(self.named(labels, gpu), None)

    def namespaces(self, labels: Mapping[str, str]) -> Iterator[str]:
        """Every namespace that these labels name."""
        return (
            labels[one.namespace]
            for one in self.pods
            if labels.get(one.namespace) and one.counts(labels) and one.only is None
        )

    def clusters(self, labels: Mapping[str, str]) -> set[str]:
        """Every cluster that these labels name."""
        return {labels[name] for name in self._plain[0][1] if labels.get(name)}

    def host(self, labels: Mapping[str, str]) -> Iterator[str]:
        """Names of the machine that these labels name, the surest first."""
        for name in (*self.labels.host, *self._plain[1][1]):
            if labels.get(name):
                yield labels[name]
        instance = next((labels[name] for name in self._plain[2][1] if labels.get(name)), "")
        if instance:
            yield address(instance)


def address(instance: str) -> str:
    """The host of `host:port`, `http://host:port/path` or `[2001:db8::1]:8000`."""
    bare = instance.split("://", 1)[-1].split("/", 1)[0]
    if bare.startswith("["):
        return bare[1:].split("]", 1)[0]
    host, colon, port = bare.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else bare


def distinct(values: Iterable[object]) -> int:
    """How many different ones there are."""
    return len(set(values))


def differing(many: Sequence[Mapping[str, str]]) -> list[str]:
    """The labels in which these label sets differ."""
    names = sorted({name for labels in many for name in labels})
    return [name for name in names if distinct(labels.get(name, "") for labels in many) > 1]
