"""Pages beside the engines: dcgm-exporter, cAdvisor, and inferdoc's reader of the balancedness log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferdoc.simulate.hardware import BANDWIDTH_SHARE, FLOP_SHARE, Roofline
from inferdoc.simulate.items import Item, counter, gauge, labels
from inferdoc.simulate.pod import Pod

COLLECT = 30.0
"""Seconds between two collections of dcgm-exporter (DCGM_EXPORTER_INTERVAL, default 30000 ms)."""
EXPERT_SHARE = 0.75
"""Share of a mixture-of-experts step's arithmetic that lies in the experts (own choice; attention has the rest)."""
IDLE_MHZ = 345.0


@dataclass
class Seen:
    """Totals of an engine at the last collection, and what they were worth."""

    at: float
    busy: float = 0.0
    compute: float = 0.0
    memory: float = 0.0
    rates: tuple[float, float, float] = (0.0, 0.0, 0.0)
    last: float = 0.0
    energy: list[float] = field(default_factory=list)


class Dcgm:
    """What DCGM measures of the GPUs of a node, from the work their engines did."""

    def __init__(self, seed: int, profiling: bool) -> None:
        self._rng = np.random.default_rng([seed, 7])
        self._profiling = profiling
        self._seen: dict[str, Seen] = {}

    def items(self, pods: Sequence[Pod], now: float, namespace: str) -> Iterator[Item]:
        """Every series of one node. All samples of a metric stand together."""
        rows = [row for pod in pods for row in self._gpus(pod, now, namespace)]
        for name in rows[0][1] if rows else ():
            for where, values in rows:
                kind = counter if name.endswith(("CONSUMPTION", "COUNTER", "ROWS")) else gauge
                yield kind(name, values[name], where)

    def _rates(self, pod: Pod, now: float) -> Seen:
        """Busy, arithmetic and memory seconds per second since the last collection."""
        stats = pod.engine.stats
        seen = self._seen.get(pod.name)
        if seen is None or stats.busy < seen.busy:
            seen = self._seen[pod.name] = Seen(now, last=now, energy=[0.0] * pod.spec.gpus)
            seen.busy, seen.compute, seen.memory = stats.busy, stats.compute, stats.memory
        elif now - seen.at >= COLLECT - 1e-6:
            passed = now - seen.at
            changes = (stats.busy - seen.busy, stats.compute - seen.compute, stats.memory - seen.memory)
            seen.rates = (changes[0] / passed, changes[1] / passed, changes[2] / passed)
            seen.at, seen.busy, seen.compute, seen.memory = now, stats.busy, stats.compute, stats.memory
        return seen

    def _gpus(
        self, pod: Pod, now: float, namespace: str
    ) -> Iterator[tuple[tuple[tuple[str, str], ...], dict[str, float]]]:
        timing = pod.timing
        if not isinstance(timing, Roofline) or timing.tier.card is None:
            return
        card, health, seen = timing.tier.card, pod.health, self._rates(pod, now)
        busy, compute, memory = (min(1.0, max(0.0, r)) for r in seen.rates)
        if pod.engine.hung:
            busy, compute, memory = 1.0, 0.0, 0.0
        hot = health.hot if timing.model.experts and timing.gpus > 1 else 1.0
        used = timing.tier.memory * 0.92 / 2**20 if pod.alive else 0.0
        passed, seen.last = now - seen.last, now
        for gpu in range(timing.gpus):
            rest = max(0.0, (timing.gpus - hot) / max(1, timing.gpus - 1))
            share = 1.0 + EXPERT_SHARE * ((hot if gpu == 0 else rest) - 1.0)
            clock = health.clock[gpu]
            tensor = min(1.0, compute * FLOP_SHARE * share / clock)
            dram = min(1.0, memory * BANDWIDTH_SHARE / health.bandwidth[gpu])
            work = 0.2 * busy + 0.45 * min(1.0, tensor / FLOP_SHARE) + 0.35 * min(1.0, dram / BANDWIDTH_SHARE)
            power = card.idle_watts + (card.watts - card.idle_watts) * work * clock * float(self._rng.normal(1.0, 0.01))
            heat = 30.0 + 42.0 * power / card.watts + (18.0 if clock < 0.95 else 0.0) + float(self._rng.normal(0, 0.5))
            seen.energy[gpu] += 1e3 * power * passed
            values = {
                "DCGM_FI_DEV_SM_CLOCK": round(card.mhz * clock) if busy > 0.01 else IDLE_MHZ,
                "DCGM_FI_DEV_MEM_CLOCK": card.memory_mhz,
                "DCGM_FI_DEV_MEMORY_TEMP": round(heat + 6),
                "DCGM_FI_DEV_GPU_TEMP": round(heat),
                "DCGM_FI_DEV_POWER_USAGE": round(power, 3),
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": round(seen.energy[gpu]),
                "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0.0,
                "DCGM_FI_DEV_GPU_UTIL": round(100 * min(1.0, 1.02 * busy)),
                "DCGM_FI_DEV_MEM_COPY_UTIL": round(100 * dram),
                "DCGM_FI_DEV_XID_ERRORS": 0.0,
                "DCGM_FI_DEV_FB_FREE": round(timing.tier.memory / 2**20 - used - 600),
                "DCGM_FI_DEV_FB_USED": round(used),
                "DCGM_FI_DEV_FB_RESERVED": 600.0,
                "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0.0,
                "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 0.0,
                "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0.0,
                "DCGM_FI_PROF_GR_ENGINE_ACTIVE": round(busy, 6),
                "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": round(tensor, 6),
                "DCGM_FI_PROF_DRAM_ACTIVE": round(dram, 6),
            }
            if self._profiling:
                values["DCGM_FI_PROF_SM_ACTIVE"] = round(min(1.0, 0.9 * busy), 6)
                values["DCGM_FI_DEV_CLOCKS_EVENT_REASONS"] = float(pod.reasons if busy > 0.01 else 1)
            number = pod.first_gpu + gpu
            where = labels(
                gpu=str(number), UUID=f"GPU-{pod.node}-{number}", pci_bus_id=f"00000000:{16 + number:02X}:00.0",
                device=f"nvidia{number}", modelName=card.model_name, Hostname=pod.node, container="vllm", pod=pod.name,
                namespace=namespace,
            )  # fmt: skip
            yield where, values


def cadvisor_items(pods: Sequence[Pod], now: float, namespace: str) -> Iterator[Item]:
    """Scheduler periods and CPU seconds of the containers of one node."""
    alive = [pod for pod in pods if pod.alive]
    for pod in alive:
        pod.account_cpu(now)

    def where(pod: Pod) -> tuple[tuple[str, str], ...]:
        return labels(namespace=namespace, pod=pod.name, container="vllm")

    for pod in alive:
        yield counter("container_cpu_cfs_periods_total", round(pod.engine.stats.cfs_periods), where(pod))
    for pod in alive:
        yield counter("container_cpu_cfs_throttled_periods_total", round(pod.engine.stats.cfs_held), where(pod))


def balancedness_items(pod: Pod, model_name: str, rng: np.random.Generator) -> Iterator[Item]:
    """What the engine's log says of its experts: mean over maximum of the tokens per rank, 0.94 to 0.99 when even."""
    value = min(1.0, float(rng.normal(0.95, 0.01)) / pod.health.hot)
    yield gauge("inferdoc_eplb_balancedness", round(value, 4), labels(model_name=model_name))
