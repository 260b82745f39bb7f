"""Pages of dcgm-exporter, kube-state-metrics, cAdvisor and EPLB in a simulated fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferdoc.simulate.autoscaler import Autoscaler
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.gpus import INLET, RISE, workload
from inferdoc.simulate.hardware import BANDWIDTH_SHARE, FLOP_SHARE, Roofline
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.stats import Item, counter, gauge, labels


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


COLLECT = 30.0
"""Seconds between two collections of dcgm-exporter (DCGM_EXPORTER_INTERVAL, default 30000 ms)."""
EXPERT_SHARE = 0.75
"""Share of a mixture-of-experts step's arithmetic that lies in the experts (own choice; attention has the rest)."""
IDLE_MHZ = 345.0
FB_RESERVED = 600.0
"""MiB of each GPU that the driver keeps for itself."""
XID_WINDOW = 300.0
"""Seconds of the sliding window of DCGM_EXP_XID_ERRORS_COUNT (default window_size_in_ms)."""
COUNTERS = ("CONSUMPTION", "COUNTER", "ROWS", "ERROR_COUNT_TOTAL")


@dataclass
class WorkTotals:
    """Totals of an engine at the last collection, and what they were worth."""

    at: float
    busy: float = 0.0
    compute: float = 0.0
    memory: float = 0.0
    tokens: float = 0.0
    rates: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    last: float = 0.0
    energy: list[float] = field(default_factory=list)
    events: list[tuple[float, int, int]] = field(default_factory=list)
    gone: frozenset[int] = frozenset()


class Dcgm:
    """What DCGM measures of the GPUs of a node."""

    def __init__(self, seed: int, profiling: bool) -> None:
        self._rng = np.random.default_rng([seed, 7])
        self._profiling = profiling
        self._seen: dict[str, WorkTotals] = {}

    def items(self, pods: Sequence[Pod], now: float, namespace: str) -> Iterator[Item]:
        """Every series of one node. All samples of a metric stand together."""
        rows = [row for pod in pods for row in self._gpus(pod, now, namespace)]
        for name in rows[0][1] if rows else ():
            for where, values in rows:
                kind = counter if name.endswith(COUNTERS) else gauge
                if name in values:
                    yield kind(name, values[name], where)
        if self._profiling:
            yield from self._codes(pods, now, rows)

    def _rates(self, pod: Pod, now: float) -> WorkTotals:
        """Busy, arithmetic and memory seconds per second and tokens/s since the last collection."""
        stats = pod.engine.stats
        seen = self._seen.get(pod.key)
        if seen is None or stats.busy < seen.busy:
            seen = self._seen[pod.key] = WorkTotals(now, last=now, energy=[0.0] * pod.spec.gpus)
        elif now - seen.at >= COLLECT - 1e-6:
            passed = now - seen.at
            seen.rates = (
                (stats.busy - seen.busy) / passed,
                (stats.compute - seen.compute) / passed,
                (stats.memory - seen.memory) / passed,
                (stats.iteration.sum - seen.tokens) / passed,
            )
        else:
            return seen
        seen.at, seen.busy, seen.compute, seen.memory = now, stats.busy, stats.compute, stats.memory
        seen.tokens = stats.iteration.sum
        seen.events = [(at, i, code) for i, gpu in enumerate(pod.gpus) for at, code in gpu.codes if at <= now]
        seen.gone = frozenset(i for i, gpu in enumerate(pod.gpus) if gpu.lost)
        return seen

    def _gpus(
        self, pod: Pod, now: float, namespace: str
    ) -> Iterator[tuple[tuple[tuple[str, str], ...], dict[str, float]]]:
        timing = pod.timing
        if not isinstance(timing, Roofline) or timing.tier.card is None:
            return
        card, health, seen = timing.tier.card, pod.health, self._rates(pod, now)
        busy, compute, memory = (min(1.0, max(0.0, r)) for r in seen.rates[:3])
        if pod.engine.hung:
            busy, compute, memory = 1.0, 0.0, 0.0
        hot = health.hot if timing.model.experts and timing.gpus > 1 else 1.0
        total = timing.tier.memory_gib.value * 2**10 - FB_RESERVED
        configured = pod.spec.flags.memory_share
        used = total * (configured + (1.0 - configured) * pod.memory_taken) if pod.alive else 0.0
        passed, seen.last = now - seen.last, now
        for number, gpu in enumerate(pod.gpus):
            if number in seen.gone:
                continue
            rest = max(0.0, (timing.gpus - hot) / max(1, timing.gpus - 1))
            share = 1.0 + EXPERT_SHARE * ((hot if number == 0 else rest) - 1.0)
            clock = health.clock[number]
            tensor = min(1.0, compute * FLOP_SHARE * share / clock)
            dram = min(1.0, memory * BANDWIDTH_SHARE / health.bandwidth[number])
            work = workload(busy, tensor, dram)
            power = card.idle_watts + (card.watts - card.idle_watts) * work * clock * float(self._rng.normal(1.0, 0.01))
            warm = INLET + RISE * power / card.watts if gpu.temperature is None else gpu.temperature
            heat = warm + float(self._rng.normal(0, 0.5))
            seen.energy[number] += 1e3 * power * passed
            util = round(100 * min(1.0, 1.02 * busy))
            codes = [code for _, of, code in seen.events if of == number]
            values = {
                "DCGM_FI_DEV_SM_CLOCK": round(card.mhz * clock) if util else IDLE_MHZ,
                "DCGM_FI_DEV_MEM_CLOCK": card.memory_mhz,
                "DCGM_FI_DEV_MEMORY_TEMP": round(heat + 6),
                "DCGM_FI_DEV_GPU_TEMP": round(heat),
                "DCGM_FI_DEV_POWER_USAGE": round(power, 3),
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": round(seen.energy[number]),
                "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0.0,
                "DCGM_FI_DEV_GPU_UTIL": util,
                "DCGM_FI_DEV_MEM_COPY_UTIL": round(100 * dram),
                "DCGM_FI_DEV_XID_ERRORS": float(codes[-1] if codes else 0),
                "DCGM_FI_DEV_FB_FREE": round(total - used),
                "DCGM_FI_DEV_FB_USED": round(used),
                "DCGM_FI_DEV_FB_RESERVED": FB_RESERVED,
                "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": float(gpu.remapped),
                "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 0.0,
                "DCGM_FI_DEV_ROW_REMAP_FAILURE": float(gpu.remap_failure),
                "DCGM_FI_PROF_GR_ENGINE_ACTIVE": round(busy, 6),
                "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": round(tensor, 6),
                "DCGM_FI_PROF_DRAM_ACTIVE": round(dram, 6),
            }
            if timing.gpus > 1:
                values["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"] = round(timing.link_bytes(seen.rates[3]) / 2**20)
            if self._profiling:
                values["DCGM_FI_PROF_SM_ACTIVE"] = round(min(1.0, 0.9 * busy), 6)
                values["DCGM_FI_DEV_CLOCKS_EVENT_REASONS"] = float(pod.reasons_of(number) if util else 1)
                if timing.gpus > 1:
                    again = pod.link_replays(number, now)
                    values["DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"] = round(0.4 * again)
                    values["DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"] = round(0.6 * again)
                    values["DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"] = round(again)
                    values["DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"] = round(again / 500)
            yield self._labels(pod, number, card.model_name, namespace), values

    @staticmethod
    def _labels(pod: Pod, gpu: int, model_name: str, namespace: str) -> tuple[tuple[str, str], ...]:
        number = pod.first_gpu + gpu
        gone = pod.replaced and not pod.scraped
        # The device stays when a rollout has taken its pod; the kubelet names no pod for it then.
        owner = {} if gone else {"container": "vllm", "pod": pod.name, "namespace": namespace}
        return labels(
            gpu=str(number), UUID=f"GPU-{pod.node}-{number}", pci_bus_id=f"00000000:{16 + number:02X}:00.0",
            device=f"nvidia{number}", modelName=model_name, Hostname=pod.node, **owner,
        )  # fmt: skip

    def _codes(
        self, pods: Sequence[Pod], now: float, rows: list[tuple[tuple[tuple[str, str], ...], dict[str, float]]]
    ) -> Iterator[Item]:
        """Xid events of the sliding window by code; nothing where there was none."""
        by_uuid = {dict(where)["UUID"]: where for where, _ in rows}
        for pod in pods:
            seen = self._seen.get(pod.key)
            recent = Counter((of, code) for at, of, code in (seen.events if seen else ()) if at > now - XID_WINDOW)
            for (of, code), count in sorted(recent.items()):
                where = by_uuid.get(f"GPU-{pod.node}-{pod.first_gpu + of}")
                if where is not None:
                    more = (("window_size_in_ms", str(round(1000 * XID_WINDOW))), ("xid", str(code)))
                    yield gauge("DCGM_EXP_XID_ERRORS_COUNT", count, tuple(sorted((*where, *more))))
