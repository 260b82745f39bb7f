"""The /metrics endpoints of a vLLM API server (0.32) and of the llm-d router (0.10), as real ones show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt

from inferdoc.collect.samples import Labels
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.gateway import FlowControl
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.request import RequestState
from inferdoc.simulate.router import RouterStats
from inferdoc.simulate.stats import REASONS, Item, counter, gauge, histogram, labels, summary, together

POOL = "sim-pool"


def router_items(fleet: SimulatedFleet, model_name: str, namespace: str) -> Iterator[Item]:
    """Every series of the picker, all samples of a metric together."""
    stats = fleet.router.stats
    yield from _requests(stats, model_name)
    yield from _endpoints(fleet)
    yield from _decisions(stats, model_name, namespace)
    yield histogram("llm_d_epp_scheduler_e2e_duration_seconds", fleet.gateway.scheduling)
    yield histogram("llm_d_epp_request_processing_duration_seconds", fleet.gateway.processing)
    if stats.expected_hits.count:
        plugin = labels(plugin_name="approx-prefix-cache-producer", plugin_type="approx-prefix-cache-producer")
        yield histogram("llm_d_epp_prefix_indexer_hit_ratio", stats.expected_hits, plugin)
    if stats.poll_errors >= 1.0:
        found = labels(source_type="metrics-data-source")
        yield counter("llm_d_epp_datalayer_poll_errors_total", float(int(stats.poll_errors)), found)
    if fleet.gateway.flow is not None:
        yield from _flow(fleet.gateway.flow, model_name)


def _requests(stats: RouterStats, model_name: str) -> Iterator[Item]:
    rows = [(_class_labels(model_name, *kind), found) for kind, found in sorted(stats.classes.items())]
    for where, found in rows:
        yield counter("llm_d_epp_request_total", found.requests, where)
    for where, found in rows:
        for code, count in sorted(found.errors.items()):
            yield counter("llm_d_epp_request_error_total", count, _with(where, error_code=code))
    for where, found in rows:
        yield histogram("llm_d_epp_request_duration_seconds", found.duration, where)
    for where, found in rows:
        yield gauge("llm_d_epp_request_running", found.running, where)
    for where, found in rows:
        yield histogram("llm_d_epp_request_ttft_seconds", found.ttft, _with(where, streaming="true"))


def _endpoints(fleet: SimulatedFleet) -> Iterator[Item]:
    """The pool as the router last read it."""
    pool = labels(name=POOL)
    ready = [p for p in fleet.pods if p.in_rotation and p.alive]
    rows = [_seen(pod, fleet) for pod in ready]
    for place, name in enumerate(("queue_size", "running_requests", "kv_cache_utilization")):
        values = [row[place] for row in rows]
        yield gauge(f"llm_d_epp_average_{name}", _mean(values), pool)
        yield gauge(f"llm_d_epp_std_dev_{name}", _spread(values), pool)
    yield gauge("llm_d_epp_ready_endpoints", len(ready), pool)
    for pod, row in zip(ready, rows, strict=True):
        yield gauge("llm_d_epp_per_endpoint_queue_size", row[0], labels(name=POOL, model_server_endpoint=pod.name))


def _seen(pod: Pod, fleet: SimulatedFleet) -> tuple[float, float, float]:
    """Waiting and running requests and KV usage of a pod: as last read, or now where readings are a blink apart."""
    seen = fleet.router.seen.get(pod.name) if fleet.router.careful else None
    if seen is not None:
        return float(seen.waiting), float(seen.running), seen.usage
    return float(len(pod.engine.waiting)), float(len(pod.engine.running)), pod.engine.usage


def _decisions(stats: RouterStats, model_name: str, namespace: str) -> Iterator[Item]:
    for name, chosen in sorted(stats.chosen.items()):
        where = labels(
            status="success", target_model_name=model_name, endpoint_name=name, namespace=namespace, port="8000"
        )
        yield counter("llm_d_epp_scheduler_attempts_total", chosen, where)
    if stats.unplaced:
        where = labels(status="failure", target_model_name=model_name, endpoint_name="", namespace="", port="")
        yield counter("llm_d_epp_scheduler_attempts_total", stats.unplaced, where)
    if stats.split:
        where = labels(
            plugin_name="pd",
            plugin_type="disagg-profile-handler",
            model_name=model_name,
            decision_type="prefill-decode",
        )
        yield counter("llm_d_epp_disagg_decision_total", stats.split, where)


def _flow(flow: FlowControl, model_name: str) -> Iterator[Item]:
    def flow_labels(tenant: str, priority: int) -> Labels:
        return _with(_class_labels(model_name, tenant, priority), inference_pool=POOL)

    for (kind, outcome), waits in sorted(flow.waits.items()):
        found = _with(flow_labels(*kind), outcome=outcome)
        yield histogram("llm_d_epp_flow_control_request_queue_duration_seconds", waits, found)
    for kind, queue in sorted(flow.queues.items()):
        yield gauge("llm_d_epp_flow_control_queue_size", len(queue), flow_labels(*kind))
    for stage in ("decode", "effective"):
        found = labels(inference_pool=POOL, stage=stage)
        yield gauge("llm_d_epp_flow_control_pool_saturation", flow.saturation, found)
    yield gauge("llm_d_epp_flow_control_stale_endpoints", flow.stale, labels(detector="utilization-detector"))
    for (outcome, priority), count in sorted(flow.outcomes.items()):
        found = labels(outcome=outcome, priority=str(priority), inference_pool=POOL)
        yield counter("llm_d_epp_flow_control_requests_total", count, found)


def _class_labels(model_name: str, tenant: str, priority: int) -> Labels:
    return labels(model_name=model_name, target_model_name=model_name, fairness_id=tenant, priority=str(priority))


def _with(where: Labels, **more: str) -> Labels:
    return tuple(sorted((*where, *more.items())))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _spread(values: Sequence[float]) -> float:
    """Standard deviation over the endpoints."""
    middle = _mean(values)
    return sqrt(_mean([(v - middle) ** 2 for v in values]))


HANDLER = "/v1/completions"


def vllm_items(pod: Pod, model_name: str, unix: float) -> Iterator[Item]:
    """Every family of the page. unix: Unix time of second 0 of the simulation."""
    if len(pod.ranks) == 1:
        yield from _process(pod, unix)
        yield from _engine(pod, model_name, unix)
        yield from _http(pod, unix + pod.started)
        return
    # Several API servers (the default with data parallelism) share a folder of metrics: no process has a page of its
    # own, so process_* is absent; every engine has its series, those of one family together.
    families: dict[str, list[Item]] = {}
    for rank in pod.ranks:
        for item in _engine(rank, model_name, unix):
            families.setdefault(item.name, []).append(item)
    for items in families.values():
        yield from items
    yield from _http(pod, unix + pod.started)


def _process(pod: Pod, unix: float) -> Iterator[Item]:
    stats, started = pod.engine.stats, unix + pod.started
    python = pod.spec.flags.python
    patch = python.rsplit(".", 1)[-1]
    where = labels(implementation="CPython", major="3", minor="12", patchlevel=patch, version=python)
    yield gauge("python_info", 1, where)
    yield gauge("process_resident_memory_bytes", 2.1e9 + 4e3 * stats.iteration.count % 3e7)
    yield gauge("process_start_time_seconds", round(started, 2))
    yield counter("process_cpu_seconds_total", round(14.0 + stats.cpu_seconds + pod.engine.front.busy, 2))


def _engine(pod: Pod, model_name: str, unix: float) -> Iterator[Item]:
    started = unix + pod.started
    engine = labels(engine=str(pod.rank), model_name=model_name)
    if pod.spec.flags.draft:
        yield from _speculation(pod, engine, started)
    if pod.spec.role != "both":
        yield from _transfers(pod, engine, started)
    if pod.engine.host is not None:
        yield from _offload(pod, engine, started)
    for name in ("flops", "read_bytes", "write_bytes"):
        yield counter(f"vllm:estimated_{name}_per_gpu_total", 0, engine, started)
    yield from _gauges(pod, engine)
    yield from _counters(pod, engine, model_name, started)
    yield from _histograms(pod, engine, started)
    if pod.spec.flags.loras:
        yield from _adapters(pod)
    yield gauge("vllm:cache_config_info", 1, _cache_config(pod))


def _speculation(pod: Pod, engine: Labels, started: float) -> Iterator[Item]:
    stats = pod.engine.stats
    yield counter("vllm:spec_decode_num_drafts_total", stats.drafts, engine, started)
    yield counter("vllm:spec_decode_num_draft_tokens_total", stats.draft_tokens, engine, started)
    yield counter("vllm:spec_decode_num_accepted_tokens_total", stats.accepted, engine, started)
    for position, value in enumerate(stats.accepted_at):
        where = tuple(sorted((*engine, ("position", str(position)))))
        yield counter("vllm:spec_decode_num_accepted_tokens_per_pos_total", value, where, started)


def _transfers(pod: Pod, engine: Labels, started: float) -> Iterator[Item]:
    stats = pod.engine.stats
    yield histogram("vllm:nixl_xfer_time_seconds", stats.xfer, engine, started)
    yield histogram("vllm:nixl_post_time_seconds", stats.post, engine, started)
    yield histogram("vllm:nixl_bytes_transferred", stats.xfer_bytes, engine, started)
    yield histogram("vllm:nixl_num_descriptors", stats.descriptors, engine, started)
    yield counter("vllm:nixl_num_failed_transfers_total", stats.failed_transfers, engine, started)
    yield counter("vllm:nixl_num_failed_notifications_total", 0, engine, started)
    yield counter("vllm:nixl_num_kv_expired_reqs_total", stats.expired, engine, started)
    yield counter("vllm:nixl_num_notifications_after_expiry_total", stats.late_notifications, engine, started)


def _offload(pod: Pod, engine: Labels, started: float) -> Iterator[Item]:
    """Copies between GPU and host memory under both spellings, as 0.24 and later show them; the size histograms are
    left out."""
    assert pod.engine.host is not None
    s = pod.engine.host.stats
    moved = {"load": (s.load_bytes, s.load_seconds), "store": (s.store_bytes, s.store_seconds)}
    for what, (size, seconds) in moved.items():
        yield counter(f"vllm:kv_offload_{what}_bytes_total", size, engine, started)
        yield counter(f"vllm:kv_offload_{what}_time_total", seconds, engine, started)
    for what, way in (("load", "CPU_to_GPU"), ("store", "GPU_to_CPU")):
        where = tuple(sorted((*engine, ("transfer_type", way))))
        yield counter("vllm:kv_offload_total_bytes_total", moved[what][0], where, started)
        yield counter("vllm:kv_offload_total_time_total", moved[what][1], where, started)
    yield counter("vllm:kv_offload_allocation_failure_total", 0, engine, started)


def _gauges(pod: Pod, engine: Labels) -> Iterator[Item]:
    capacity, deferred = pod.engine.waiting_by_reason()
    yield gauge("vllm:num_requests_running", len(pod.engine.running), engine)
    yield gauge("vllm:num_requests_waiting", capacity + deferred, engine)
    for reason, value in (("capacity", capacity), ("deferred", deferred)):
        yield gauge("vllm:num_requests_waiting_by_reason", value, tuple(sorted((*engine, ("reason", reason)))))
    if pod.spec.role == "decode":
        stages = ("waiting_to_start", "in_progress", "completed_waiting")
        for stage, value in zip(stages, pod.engine.fetch_stages(), strict=True):
            yield gauge("vllm:num_requests_kv_fetch_by_stage", value, tuple(sorted((*engine, ("stage", stage)))))
    for state, value in (("awake", 1), ("weights_offloaded", 0), ("discard_all", 0)):
        yield gauge("vllm:engine_sleep_state", value, tuple(sorted((*engine, ("sleep_state", state)))))
    yield gauge("vllm:kv_cache_usage_perc", pod.engine.usage, engine)


def _counters(pod: Pod, engine: Labels, model_name: str, started: float) -> Iterator[Item]:
    s = pod.engine.stats

    def make_counter(name: str, value: float, **more: str) -> Item:
        return counter(name, value, tuple(sorted((*engine, *more.items()))), started)

    yield make_counter("vllm:prefix_cache_queries_total", s.prefix_queries)
    yield make_counter("vllm:prefix_cache_hits_total", s.prefix_hits)
    yield make_counter("vllm:external_prefix_cache_queries_total", s.external_queries)
    yield make_counter("vllm:external_prefix_cache_hits_total", s.external_hits)
    yield make_counter("vllm:mm_cache_queries_total", pod.engine.front.media_queries)
    yield make_counter("vllm:mm_cache_hits_total", pod.engine.front.media_hits)
    yield make_counter("vllm:num_preemptions_total", s.preemptions)
    yield make_counter("vllm:prompt_tokens_total", s.prompt_tokens)
    yield make_counter("vllm:prompt_tokens_by_source_total", s.computed, source="local_compute")
    yield make_counter("vllm:prompt_tokens_by_source_total", s.cached, source="local_cache_hit")
    yield make_counter("vllm:prompt_tokens_by_source_total", s.transferred, source="external_kv_transfer")
    yield make_counter("vllm:prompt_tokens_cached_total", s.cached + s.transferred)
    tiers = {"device": s.device_tokens, "host": s.host_tokens, "p2p": s.p2p_tokens}
    tiers |= {"disk": 0, "external_unspecified": 0}
    for source, value in tiers.items():
        yield make_counter("vllm:prompt_tokens_cached_by_source_total", value, source=source)
    yield make_counter("vllm:generation_tokens_total", s.generation)
    if pod.spec.flags.nan_check:
        yield make_counter("vllm:corrupted_requests_total", s.corrupted)
    for reason in REASONS:
        yield make_counter("vllm:request_success_total", s.success[reason], finished_reason=reason)
    for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
        name, refused = "vllm:admission_rejections_total", reason == "max_num_queued_reqs"
        value = pod.engine.front.rejected if refused else 0
        yield counter(name, value, labels(model_name=model_name, reason=reason), started)
    for outcome, value in s.tools.items():
        name = "vllm:tool_call_parser_invocations_total"
        found = labels(model_name=model_name, mode="unary", outcome=outcome, request_type="chat")
        yield counter(name, value, found, started)


def _histograms(pod: Pod, engine: Labels, started: float) -> Iterator[Item]:
    s = pod.engine.stats
    yield histogram("vllm:request_prompt_tokens", s.request_prompt, engine, started)
    yield histogram("vllm:request_generation_tokens", s.request_generation, engine, started)
    yield histogram("vllm:iteration_tokens_total", s.iteration, engine, started)
    yield histogram("vllm:request_max_num_generation_tokens", s.request_max_generation, engine, started)
    yield histogram("vllm:request_params_n", s.request_n, engine, started)
    yield histogram("vllm:request_params_max_tokens", s.request_max_tokens, engine, started)
    yield histogram("vllm:time_to_first_token_seconds", s.ttft, engine, started)
    yield histogram("vllm:inter_token_latency_seconds", s.itl, engine, started)
    yield histogram("vllm:request_time_per_output_token_seconds", s.tpot, engine, started)
    yield histogram("vllm:e2e_request_latency_seconds", s.e2e, engine, started)
    yield histogram("vllm:request_queue_time_seconds", s.queue, engine, started)
    yield histogram("vllm:request_inference_time_seconds", s.inference, engine, started)
    yield histogram("vllm:request_prefill_time_seconds", s.prefill, engine, started)
    yield histogram("vllm:request_decode_time_seconds", s.decode, engine, started)
    yield histogram("vllm:request_num_preemptions", s.request_preemptions, engine, started)
    yield histogram("vllm:request_prefill_kv_computed_tokens", s.request_computed, engine, started)
    if pod.spec.flags.kv_metrics:
        yield histogram("vllm:kv_block_lifetime_seconds", s.lifetime, engine, started)
        yield histogram("vllm:kv_block_idle_before_evict_seconds", s.idle, engine, started)
        yield histogram("vllm:kv_block_reuse_gap_seconds", s.reuse, engine, started)


def _adapters(pod: Pod) -> Iterator[Item]:
    """Both lists name the adapters whose requests have had a token; every combination ever seen stays on the page,
    and the value is the time of its last sighting."""
    state = pod.engine
    at_work = sorted({r.adapter for r in state.running.values() if r.adapter >= 0 and r.state == RequestState.DECODE})
    names = ",".join(f"adapter-{a}" for a in at_work)
    state.seen_adapters.pop(names, None)
    state.seen_adapters[names] = state.now
    for seen, when in sorted(state.seen_adapters.items(), key=lambda entry: entry[0]):
        found = labels(max_lora=str(state.config.loras), running_lora_adapters=seen, waiting_lora_adapters=seen)
        yield gauge("vllm:lora_requests_info", pod.unix + when, found)


def _cache_config(pod: Pod) -> Labels:
    config = pod.engine.config
    size = config.blocks * config.block_size
    return labels(
        _block_size_resolved="True",
        block_size=str(config.block_size),
        cache_dtype=pod.spec.flags.cache_dtype,
        cache_hit_alignment_tokens="None",
        effective_attention_block_size=str(config.block_size),
        enable_mamba_shared_prefix_checkpoint="False",
        enable_prefix_caching=str(config.prefix_caching),
        engine=str(pod.rank),
        gpu_memory_utilization=str(pod.spec.flags.memory_share),
        hash_block_size="None",
        is_attention_free="False",
        kv_cache_dtype_skip_layers="[]",
        kv_cache_layout="None",
        kv_cache_max_concurrency=str(size / config.max_len),
        kv_cache_memory_bytes="None",
        kv_cache_size_tokens=str(size),
        kv_offloading_backend="native",
        kv_offloading_size=str(pod.spec.flags.offload or None),
        kv_sharing_fast_prefill="False",
        mamba_block_size="None",
        mamba_cache_dtype="auto",
        mamba_cache_mode="none",
        mamba_page_size_padded="None",
        mamba_ssm_cache_dtype="float32",
        num_cpu_blocks="None",
        num_gpu_blocks=str(config.blocks),
        num_gpu_blocks_override="None",
        prefix_cache_retention_interval="0",
        prefix_caching_hash_algo="sha256",
        prefix_match_unit="None",
        replayssm_buffer_len="16",
        skip_page_size_padded="None",
        sliding_window="None",
        swa_bounded_replay="True",
        use_kda_recoverssm="False",
        use_replayssm="False",
        user_specified_block_size="True",
    )


def _http(pod: Pod, started: float) -> Iterator[Item]:
    """Nothing before the first answer, as on a real page."""
    stats = pod.engine.stats if len(pod.ranks) == 1 else together([rank.engine.stats for rank in pod.ranks])
    if not stats.http:
        return
    where = labels(handler=HANDLER)
    for status, value in stats.http.items():
        yield counter("http_requests_total", value, labels(handler=HANDLER, method="POST", status=status), started)
    count = sum(stats.http.values())
    yield summary("http_request_size_bytes", count, stats.http_bytes, where, started)
    yield summary("http_response_size_bytes", count, 0, where, started)
    yield histogram("http_request_duration_highr_seconds", stats.http_fine, (), started)
    posted = labels(handler=HANDLER, method="POST")
    yield histogram("http_request_duration_seconds", stats.http_coarse, posted, started)
