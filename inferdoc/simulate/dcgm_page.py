"""The page of dcgm-exporter for one node: what DCGM measures of its GPUs, from the work their engines did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferdoc.simulate.gpus import INLET, RISE, workload
from inferdoc.simulate.hardware import BANDWIDTH_SHARE, FLOP_SHARE, Roofline
from inferdoc.simulate.items import Item, counter, gauge, labels
from inferdoc.simulate.pod import Pod

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
        total = timing.tier.memory / 2**20 - FB_RESERVED
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
