"""How far the signals of a pod moved from their baseline, and from what like pods and like GPUs show at the same time;
which quantity each of them measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from inferdoc.catalogue.signal import Signal
from inferdoc.judging.deviation import IQR_TO_SIGMA
from inferdoc.judging.order import median, medians_of_others, percentiles
from inferdoc.judging.view import Unit, View

LEAST_BASELINE, LEAST_SEEN = 8, 3
"""Values that a signal needs in the baseline part and in the episode."""
LEAST_SPREAD = 0.02
"""Of the baseline median: quantities that hardly move would otherwise turn the last digit into a hundred sigmas."""
FLOOR_SIGMAS = 3.0
"""The smallest change that can matter (the signal's floor) counts as so many sigmas at least."""
FARTHEST = 50.0
"""Sigmas beyond which farther says no more."""
SWITCHES = ("bool", "settings")
"""Units of what is either so or not, or as it was set: one step is as far as it goes."""
NO_MECHANISM = (
    "missing_scrapes",
    "duplicate_targets",
    "lost_signals",
    "scrape_duration",
    "process_start_time",
    "settings_identity",
    "image_identity",
    "nixl_xfer_total",
)
"""Signals about the telemetry itself, times of day, numbers that only stand for something, and counts since the start,
which grow by themselves."""


@dataclass(frozen=True)
class Track:
    """One signal of one unit, or of one of its GPUs: values in its unit, and sigmas from its baseline, float64[T]."""

    part: str
    values: np.ndarray
    sigmas: np.ndarray

    def typical(self, steps: slice) -> float:
        """The median of the sigmas."""
        return typical(self.sigmas[steps])


@dataclass(frozen=True)
class Apart:
    """A GPU beside the others of its pod. sigmas: how far their difference left its own baseline, signed; own, usual:
    medians in the episode, in the signal's unit."""

    part: str
    sigmas: float
    own: float
    usual: float


@dataclass(frozen=True)
class Episode:
    """split: the first step of it; last: its last step."""

    split: int
    last: int

    @property
    def steps(self) -> slice:
        """Its steps."""
        return slice(self.split, self.last + 1)


def typical(sigmas: np.ndarray) -> float:
    """The median of what is known, 0 where nothing is."""
    seen = sigmas[np.isfinite(sigmas)]
    return median(seen) if len(seen) else 0.0


def sigmas_of(row: np.ndarray, signal: Signal, episode: Episode) -> np.ndarray | None:
    """Deviations from the baseline median over the baseline spread; None for too few values."""
    baseline = row[: episode.split][np.isfinite(row[: episode.split])]
    if len(baseline) < LEAST_BASELINE or np.isfinite(row[episode.steps]).sum() < LEAST_SEEN:
        return None
    low, middle, high = percentiles(np.sort(baseline), (0.25, 0.5, 0.75))
    if signal.unit in SWITCHES:
        return np.asarray(np.clip((row - middle) * FARTHEST, -FARTHEST, FARTHEST))
    least = max(LEAST_SPREAD * abs(middle), signal.floor / FLOOR_SIGMAS)
    spread = max((high - low) / IQR_TO_SIGMA, float(baseline.std()) / 2, least)
    if spread <= 0:
        spread = 1.0 if not np.nanmax(np.abs(row)) else float(np.nanmax(np.abs(row))) / FARTHEST
    return np.asarray(np.clip((row - middle) / spread, -FARTHEST, FARTHEST))


def tracks(view: View, signals: Mapping[str, Signal], unit: Unit, episode: Episode) -> dict[str, Track]:
    """Every signal that says something about a unit in both parts; of several GPUs the one that moved farthest."""
    found = {}
    for name in view.frame.signals:
        signal = signals.get(name)
        if signal is None or name in NO_MECHANISM:
            continue
        each = [
            Track(part, row, sigmas)
            for part, row in _rows(view, signal, name, unit).items()
            if (sigmas := sigmas_of(row, signal, episode)) is not None
        ]
        if each:
            found[name] = max(each, key=lambda t: abs(t.typical(episode.steps)))
    return found


def _rows(view: View, signal: Signal, name: str, unit: Unit) -> Mapping[str, np.ndarray]:
    if signal.level == "gpu":
        return view.gpus(unit, name)
    series = view.get(unit, name)
    return {} if series is None else {"": series.values}


def gpus_apart(view: View, signal: Signal, name: str, unit: Unit, episode: Episode) -> Apart | None:
    """The GPU of a unit that stands off the others of its pod most. They work in lockstep, so that a difference among
    them is a fault of one of them whatever the load is."""
    rows = view.gpus(unit, name) if signal.level == "gpu" else {}
    if len(rows) < 2:
        return None
    found = [_beside(part, row, rest, signal, episode) for part, row, rest in _with_rest(rows)]
    return max((one for one in found if one is not None), key=lambda one: abs(one.sigmas), default=None)


def units_apart(
    view: View, signal: Signal, name: str, hit: Sequence[Unit], others: Sequence[Unit], episode: Episode
) -> list[float]:
    """How far each hit unit stands off its like, sigmas."""
    if signal.level not in ("engine", "target"):
        return []
    rows = {unit: s.values for unit in (*hit, *others) if (s := view.get(unit, name)) is not None}
    if len(rows) < 2:
        return []
    found = [_beside("", row, rest, signal, episode) for unit, row, rest in _with_rest(rows) if unit in hit]
    return [one.sigmas for one in found if one is not None]


Key = TypeVar("Key")


def _with_rest(rows: Mapping[Key, np.ndarray]) -> Iterator[tuple[Key, np.ndarray, np.ndarray]]:
    """Every row with the median of the others."""
    usual = medians_of_others(np.vstack(list(rows.values())))
    for (key, row), rest in zip(rows.items(), usual, strict=True):
        yield key, row, rest


def _beside(part: str, row: np.ndarray, rest: np.ndarray, signal: Signal, episode: Episode) -> Apart | None:
    sigmas = sigmas_of(row - rest, signal, episode)
    if sigmas is None:
        return None
    return Apart(part, typical(sigmas[episode.steps]), typical(row[episode.steps]), typical(rest[episode.steps]))


MECHANISM, LOAD, TIME, IMPACT = range(4)
"""What something costs, fails or is set to; how much work there is and passes; where the time goes; what users feel."""

QUANTITIES: dict[str, tuple[int, str]] = {
    "queue": (LOAD, "waiting_capacity waiting queue_time queued_by_time router_pool_queue_avg router_endpoint_queue"),
    "requests at work": (LOAD, "running running_mean router_running router_pool_running_avg running_plateau"),
    "KV cache in use": (LOAD, "kv_usage kv_usage_mean kv_tokens_used router_pool_kv_avg kv_usage_blend kv_turnover"),
    "arrivals": (
        LOAD,
        (
            "arrival_rate http_arrival_rate http_request_rate "
            "router_request_rate first_token_rate router_prefix_lookups_rate"
        ),
    ),
    "prompt work": (
        LOAD,
        "prefill_tokens_rate prompt_tokens_rate tokens_per_gpu_hour iteration_tokens fleet_utilisation",
    ),
    "steps": (LOAD, "step_rate spec_drafts_rate spec_draft_tokens_rate"),
    "prefill at work": (LOAD, "prefill_concurrency"),
    "GPU activity": (LOAD, "tensor_active sm_active dram_active gpu_util gpu_power flops_estimate mem_bw_estimate"),
    "GPU heat": (LOAD, "gpu_temp mem_temp"),
    "GPU memory": (LOAD, "fb_free_lowest fb_free fb_used"),
    "traffic on the links": (LOAD, "nvlink_rate pcie_rate ib_rate"),
    "spread of load": (LOAD, "router_pool_queue_std router_pool_kv_std router_endpoint_share"),
    "transfers": (LOAD, "nixl_xfer_rate nixl_bytes_rate nixl_xfer_total nixl_descriptors nixl_agent_bytes_rate"),
    "processor time": (LOAD, "process_cpu"),
    "front end": (TIME, "frontend_seconds frontend_time_share"),
    "prefill": (TIME, "prefill_time"),
    "decode": (TIME, "decode_time inference_time"),
    "errors": (TIME, "error_share error_rate http_error_ratio router_error_share router_errors"),
    "first token": (IMPACT, "ttft router_ttft tenant_ttft ttft_tail_ratio ttft_over_other_tiers"),
    "next token": (IMPACT, "itl tpot_request itl_per_stream itl_over_other_tiers"),
    "whole request": (IMPACT, "e2e router_e2e"),
    "throughput": (IMPACT, "served_rate request_rate generation_tokens_rate"),
    "clock": (MECHANISM, "sm_clock sm_clock_busy mem_clock"),
    "prefix reuse": (
        MECHANISM,
        (
            "prefix_hit prompt_computed_share prefix_reuse_share "
            "prefix_hit_tokens_rate cached_tokens_device_rate router_prefix_hit router_index_hits"
        ),
    ),
    "tokens computed per request": (MECHANISM, "computed_tokens_per_request computed_tokens"),
    "prompt length": (MECHANISM, "prompt_tokens_per_request prompt_len"),
    "output length": (MECHANISM, "output_len length"),
    "preemptions": (MECHANISM, "preempt_fraction preemption_rate preempted_requests"),
    "drafts accepted": (
        MECHANISM,
        (
            "spec_acceptance spec_acceptance_length spec_acceptance_at_pos0 "
            "spec_acceptance_at_pos1 spec_acceptance_at_pos2 spec_tokens_per_step"
        ),
    ),
    "transfer time": (
        MECHANISM,
        "nixl_xfer transfer_seconds_per_gb nixl_bandwidth_per_xfer nixl_inflight nixl_post nixl_agent_xfer",
    ),
    "KV on its way": (
        MECHANISM,
        "waiting_deferred kv_fetch_pending kv_fetch_in_progress kv_fetch_waiting_to_start kv_fetch_completed_waiting",
    ),
    "endpoints": (MECHANISM, "router_ready_endpoints replicas_ready pod_ready"),
    "held at the router": (MECHANISM, "router_flow_queue router_flow_wait tenant_wait tenant_queue"),
    "router": (MECHANISM, "router_overhead router_sched router_plugin"),
    "refusals": (MECHANISM, "admission_rejections_rate rejected"),
    "KV cache size": (MECHANISM, "kv_capacity_tokens kv_blocks kv_max_concurrency"),
    "ranks unlike": (MECHANISM, "running_over_ranks waiting_over_ranks kv_usage_over_ranks rank_skew dp_imbalance"),
    "settings": (
        MECHANISM,
        "settings_changed settings_unlike settings_identity image_changed image_unlike kv_block_size",
    ),
    "adapters": (MECHANISM, "lora_oversubscription lora_adapters_active lora_hit_estimate lora_running"),
}
"""name: (place in the chain, the signals, first the one to name). What is not listed is a mechanism of its own."""

WAYS = ("p10", "p50", "p90", "p95", "p99", "mean", "ratio", "share", "rate")
_BY_SIGNAL = {signal: name for name, (_, signals) in QUANTITIES.items() for signal in signals.split()}


def stem(signal: str) -> str:
    """The name without its last word where that says how it is measured: quantiles and means of one histogram are
    one."""
    head, _, tail = signal.rpartition("_")
    return head if tail in WAYS else signal


def _known(signal: str) -> str | None:
    return _BY_SIGNAL.get(signal) or _BY_SIGNAL.get(stem(signal))


def quantity(signal: str) -> str:
    """What a signal measures; a signal that is not listed is a quantity of its own."""
    return _known(signal) or f"{stem(signal)} itself"


def place(signal: str) -> int:
    """Where its quantity stands in the chain."""
    name = _known(signal)
    return MECHANISM if name is None else QUANTITIES[name][0]


def precedence(signal: str) -> int:
    """Its place among the signals of one quantity."""
    name = _known(signal)
    signals = [] if name is None else QUANTITIES[name][1].split()
    return next((signals.index(one) for one in (signal, stem(signal)) if one in signals), len(signals))
