"""What signals measure, without how, and where in the chain from a mechanism to a hurt user it stands.

Of signals that are views of one quantity (the quantiles of a histogram, a queue seen by the engine and by the router)
one is enough to name. A user waits because time is spent somewhere, time is spent because work piles up, and work piles
up because something in the engine, the machine or the traffic changed: what stands early in that chain is worth more to
someone who looks for a cause.
"""

from __future__ import annotations

MECHANISM, LOAD, TIME, HURT = range(4)
"""What something costs, fails or is set to; how much work there is and passes; where the time goes; what users feel."""

QUANTITIES: dict[str, tuple[int, tuple[str, ...]]] = {
    "queue": (
        LOAD,
        (
            "waiting_capacity",
            "waiting",
            "queue_time",
            "queued_by_time",
            "router_pool_queue_avg",
            "router_endpoint_queue",
        ),
    ),
    "requests at work": (
        LOAD,
        ("running", "running_mean", "router_running", "router_pool_running_avg", "running_plateau"),
    ),
    "KV cache in use": (
        LOAD,
        ("kv_usage", "kv_usage_mean", "kv_tokens_used", "router_pool_kv_avg", "kv_usage_blend", "kv_turnover"),
    ),
    "arrivals": (
        LOAD,
        (
            "arrival_rate",
            "http_arrival_rate",
            "http_request_rate",
            "router_request_rate",
            "first_token_rate",
            "router_prefix_lookups_rate",
        ),
    ),
    "prompt work": (
        LOAD,
        ("prefill_tokens_rate", "prompt_tokens_rate", "tokens_per_gpu_hour", "iteration_tokens", "fleet_utilisation"),
    ),
    "steps": (LOAD, ("step_rate", "spec_drafts_rate", "spec_draft_tokens_rate")),
    "prefill at work": (LOAD, ("prefill_concurrency",)),
    "GPU activity": (
        LOAD,
        ("tensor_active", "sm_active", "dram_active", "gpu_util", "gpu_power", "flops_estimate", "mem_bw_estimate"),
    ),
    "GPU heat": (LOAD, ("gpu_temp", "mem_temp")),
    "GPU memory": (LOAD, ("fb_free_lowest", "fb_free", "fb_used")),
    "traffic on the links": (LOAD, ("nvlink_rate", "pcie_rate", "ib_rate")),
    "spread of load": (LOAD, ("router_pool_queue_std", "router_pool_kv_std", "router_endpoint_share")),
    "transfers": (
        LOAD,
        ("nixl_xfer_rate", "nixl_bytes_rate", "nixl_xfer_total", "nixl_descriptors", "nixl_agent_bytes_rate"),
    ),
    "processor time": (LOAD, ("process_cpu",)),
    "front end": (TIME, ("frontend_seconds", "frontend_time_share")),
    "prefill": (TIME, ("prefill_time",)),
    "decode": (TIME, ("decode_time", "inference_time")),
    "errors": (TIME, ("error_share", "error_rate", "http_error_ratio", "router_error_share", "router_errors")),
    "first token": (HURT, ("ttft", "router_ttft", "tenant_ttft", "ttft_tail_ratio", "ttft_over_other_tiers")),
    "next token": (HURT, ("itl", "tpot_request", "itl_per_stream", "itl_over_other_tiers")),
    "whole request": (HURT, ("e2e", "router_e2e")),
    "throughput": (HURT, ("served_rate", "request_rate", "generation_tokens_rate")),
    "clock": (MECHANISM, ("sm_clock", "sm_clock_busy", "mem_clock")),
    "prefix reuse": (
        MECHANISM,
        (
            "prefix_hit",
            "prompt_computed_share",
            "prefix_reuse_share",
            "prefix_hit_tokens_rate",
            "cached_tokens_device_rate",
            "router_prefix_hit",
            "router_index_hits",
        ),
    ),
    "tokens computed per request": (MECHANISM, ("computed_tokens_per_request", "computed_tokens")),
    "prompt length": (MECHANISM, ("prompt_tokens_per_request", "prompt_len")),
    "output length": (MECHANISM, ("output_len", "length")),
    "preemptions": (MECHANISM, ("preempt_fraction", "preemption_rate", "preempted_requests")),
    "drafts accepted": (
        MECHANISM,
        (
            "spec_acceptance",
            "spec_acceptance_length",
            "spec_acceptance_at_pos0",
            "spec_acceptance_at_pos1",
            "spec_acceptance_at_pos2",
            "spec_tokens_per_step",
        ),
    ),
    "transfer time": (
        MECHANISM,
        (
            "nixl_xfer",
            "transfer_seconds_per_gb",
            "nixl_bandwidth_per_xfer",
            "nixl_inflight",
            "nixl_post",
            "nixl_agent_xfer",
        ),
    ),
    "KV on its way": (
        MECHANISM,
        (
            "waiting_deferred",
            "kv_fetch_pending",
            "kv_fetch_in_progress",
            "kv_fetch_waiting_to_start",
            "kv_fetch_completed_waiting",
        ),
    ),
    "endpoints": (MECHANISM, ("router_ready_endpoints", "replicas_ready", "pod_ready")),
    "held at the router": (
        MECHANISM,
        ("router_flow_queue", "router_flow_wait", "tenant_wait", "tenant_queue"),
    ),
    "router": (MECHANISM, ("router_overhead", "router_sched", "router_plugin")),
    "refusals": (MECHANISM, ("admission_rejections_rate", "rejected")),
    "KV cache size": (MECHANISM, ("kv_capacity_tokens", "kv_blocks", "kv_max_concurrency")),
    "ranks unlike": (
        MECHANISM,
        ("running_over_ranks", "waiting_over_ranks", "kv_usage_over_ranks", "rank_skew", "dp_imbalance"),
    ),
    "settings": (
        MECHANISM,
        ("settings_changed", "settings_unlike", "settings_identity", "image_changed", "image_unlike", "kv_block_size"),
    ),
    "adapters": (MECHANISM, ("lora_oversubscription", "lora_adapters_active", "lora_hit_estimate", "lora_running")),
}
"""name: (place in the chain, the signals, first the one to name). What is not listed is a mechanism of its own."""

WAYS = ("p10", "p50", "p90", "p95", "p99", "mean", "ratio", "share", "rate")
_BY_SIGNAL = {signal: name for name, (_, signals) in QUANTITIES.items() for signal in signals}


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
    signals = () if name is None else QUANTITIES[name][1]
    return next((signals.index(one) for one in (signal, stem(signal)) if one in signals), len(signals))
