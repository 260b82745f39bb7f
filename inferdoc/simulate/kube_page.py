"""Metrics of kube-state-metrics, cAdvisor and EPLB in a simulated namespace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from inferdoc.simulate.autoscaler import Autoscaler
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.items import Item, counter, gauge, labels
from inferdoc.simulate.pod import Pod


def cadvisor_items(pods: Sequence[Pod], now: float, namespace: str) -> Iterator[Item]:
    """Scheduler periods and CPU seconds of the containers of one node."""
    alive = [pod for pod in pods if pod.alive]
    for pod in alive:
        pod.account_cpu(now)

    def make_labels(pod: Pod) -> tuple[tuple[str, str], ...]:
        return labels(namespace=namespace, pod=pod.name, container="vllm")

    for pod in alive:
        yield counter("container_cpu_cfs_periods_total", round(pod.engine.stats.cfs_periods), make_labels(pod))
    for pod in alive:
        throttled = round(pod.engine.stats.throttled_periods)
        yield counter("container_cpu_cfs_throttled_periods_total", throttled, make_labels(pod))


def balancedness_items(pod: Pod, model_name: str, rng: np.random.Generator) -> Iterator[Item]:
    """What the engine's log says of its experts: mean over maximum of the tokens per rank, 0.94 to 0.99 when even."""
    value = min(1.0, float(rng.normal(0.95, 0.01)) / pod.health.hot)
    yield gauge("inferdoc_eplb_balancedness", round(value, 4), labels(model_name=model_name))


CONDITIONS = ("AbleToScale", "ScalingActive", "ScalingLimited")


def kube_items(fleet: SimulatedFleet, namespace: str) -> Iterator[Item]:
    """Every series, all samples of a metric together. Pods that are gone have none."""
    waiting = {pod.name for scaler in fleet.scalers for pod in scaler.replicas if not pod.alive}
    unplaced = {pod.name for scaler in fleet.scalers for pod in scaler.pending}
    pods = [pod for pod in fleet.pods if pod.scraped or pod.alive or pod.name in waiting]
    for pod in pods:
        running = pod.alive or (pod.name in waiting and pod.name not in unplaced)
        for phase in ("Pending", "Running"):
            yield gauge("kube_pod_status_phase", running == (phase == "Running"), _pod(pod, namespace, phase=phase))
    for pod in pods:
        for answer in ("false", "true"):
            ready = pod.alive and pod.in_rotation
            yield gauge("kube_pod_status_ready", ready == (answer == "true"), _pod(pod, namespace, condition=answer))
    for pod in pods:
        if pod.name in unplaced:
            yield gauge("kube_pod_status_unschedulable", 1, _pod(pod, namespace))
    for pod in pods:
        yield counter("kube_pod_container_status_restarts_total", pod.restarts, _pod(pod, namespace, container="vllm"))
    for pod in pods:
        if pod.last_end and pod.restarts:
            found = _pod(pod, namespace, container="vllm", reason=pod.last_end)
            yield gauge("kube_pod_container_status_last_terminated_reason", 1, found)
    for pod in pods:
        if pod.waits:
            found = _pod(pod, namespace, container="vllm", reason="CrashLoopBackOff")
            yield gauge("kube_pod_container_status_waiting_reason", 1, found)
    if fleet.scenario.exporters.kube_lineage:
        yield from _lineage(fleet, pods, namespace)
    yield from _deployments(fleet, namespace)
    yield from _scalers(fleet, namespace)


def replica_set(pool: str, generation: int) -> str:
    """The replica set of a pool's pods of one generation."""
    return f"{pool}-rs{generation}"


def _lineage(fleet: SimulatedFleet, pods: list[Pod], namespace: str) -> Iterator[Item]:
    """Who owns a pod, where it runs and since when it exists. created and started: Unix seconds."""
    start, surroundings = fleet.scenario.start, fleet.scenario.surroundings
    owned = surroundings is not None and surroundings.naming == "deployment"
    for pod in pods:
        yield gauge("kube_pod_created", round(start + pod.created), _pod(pod, namespace))
    for pod in pods:
        if pod.alive:
            yield gauge("kube_pod_start_time", round(start + pod.created), _pod(pod, namespace))
    for pod in pods:
        yield gauge("kube_pod_info", 1, _pod(pod, namespace, node=pod.node))
    for pod in pods:
        name = replica_set(pod.spec.name, pod.generation) if owned else pod.spec.name
        kind = "ReplicaSet" if owned else "StatefulSet"
        found = _pod(pod, namespace, owner_kind=kind, owner_name=name, owner_is_controller="true")
        yield gauge("kube_pod_owner", 1, found)
    if owned:
        for pool, generation in dict.fromkeys((pod.spec.name, pod.generation) for pod in pods):
            found = labels(
                namespace=namespace, replicaset=replica_set(pool, generation), owner_kind="Deployment",
                owner_name=pool, owner_is_controller="true",
            )  # fmt: skip
            yield gauge("kube_replicaset_owner", 1, found)


def _deployments(fleet: SimulatedFleet, namespace: str) -> Iterator[Item]:
    for pool in fleet.scenario.pools:
        ready = sum(p.alive and p.in_rotation for p in fleet.pods if p.spec.name == pool.name)
        yield gauge("kube_deployment_status_replicas_ready", ready, labels(namespace=namespace, deployment=pool.name))


def _scalers(fleet: SimulatedFleet, namespace: str) -> Iterator[Item]:
    def make_labels(scaler: Autoscaler, **more: str) -> tuple[tuple[str, str], ...]:
        return labels(namespace=namespace, horizontalpodautoscaler=scaler.pool.name, **more)

    start = "kube_horizontalpodautoscaler"
    for scaler in fleet.scalers:
        yield gauge(f"{start}_status_current_replicas", len(scaler.replicas), make_labels(scaler))
    for scaler in fleet.scalers:
        yield gauge(f"{start}_status_desired_replicas", scaler.desired, make_labels(scaler))
    for scaler in fleet.scalers:
        yield gauge(f"{start}_spec_max_replicas", scaler.spec.most, make_labels(scaler))
    for scaler in fleet.scalers:
        limited = scaler.desired >= scaler.spec.most
        states = {"AbleToScale": True, "ScalingActive": scaler.active, "ScalingLimited": limited}
        for condition in CONDITIONS:
            for status in ("true", "false", "unknown"):
                is_active = status == ("true" if states[condition] else "false")
                yield gauge(
                    f"{start}_status_condition", is_active, make_labels(scaler, condition=condition, status=status)
                )


def _pod(pod: Pod, namespace: str, **more: str) -> tuple[tuple[str, str], ...]:
    return labels(namespace=namespace, pod=pod.name, **more)
