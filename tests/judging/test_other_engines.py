"""Made-up faults of engines and gateways other than vLLM, with the families that those systems expose.

None is a case of `fixtures/public`; `test_report_classes.py` has the classes that need no other engine.
"""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from tests.judging.made import (
    INTERVAL_S,
    ONSET,
    SCRAPES,
    START_S,
    Engine,
    Level,
    Recording,
    container,
    gpu,
    recorded,
    stored,
    then,
)
from tests.judging.test_report_classes import diagnosed, found


def target(job: str, pod: str) -> dict[str, str]:
    return {"job": job, "instance": f"{pod}:8000", "pod": pod, "namespace": "llm"}


def total(rate: Level, start: float = 1000.0) -> np.ndarray:
    return start + np.cumsum(np.broadcast_to(np.asarray(rate, dtype=float), SCRAPES)) * INTERVAL_S


def alive(made: Recording, where: dict[str, str], up: Level = 1.0) -> None:
    made.put("up", "gauge", where, up)
    made.put("process_start_time_seconds", "gauge", where, 1_700_000_000)


def sglang(made: Recording, pod: str, kind: str, gauges: dict[str, Level], requests: Level, **means: Level) -> None:
    """means: seconds of a latency histogram, by the part of its name before `_seconds`."""
    where = target("sglang", pod)
    own = {**where, "model_name": "m", "engine_type": kind, "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}
    alive(made, where)
    for name, values in gauges.items():
        made.put(f"sglang:{name}", "gauge", own, values)
    rate = np.broadcast_to(np.asarray(requests, dtype=float), SCRAPES)
    asked = {**where, "model_name": "m"}
    for name, each in (("num_requests", 1), ("generation_tokens", 200), ("prompt_tokens", 2000)):
        made.put(f"sglang:{name}", "counter", asked, total(rate * each), "_total")
    for name, mean in means.items():
        count = rate * (200 if name == "inter_token_latency" else 1)
        made.put(f"sglang:{name}_seconds", "histogram", asked, total(count, 0), "_count")
        made.put(f"sglang:{name}_seconds", "histogram", asked, total(count * mean, 0), "_sum")
        made.put(f"sglang:{name}_seconds", "histogram", {**asked, "le": "+Inf"}, total(count, 0), "_bucket")


def test_transfers_without_end_that_hold_decode_places_are_no_full_batch(tmp_path):
    made = Recording()
    lost = np.clip(np.arange(SCRAPES) - ONSET, 0, 20) * 3.0
    decode = {
        "num_running_reqs": np.maximum(60 - lost, 2), "num_queue_reqs": 0, "token_usage": 0.2,
        "num_decode_transfer_queue_reqs": 3 + lost, "num_decode_prealloc_queue_reqs": then(0, 40),
    }  # fmt: skip
    prefill = {
        "num_running_reqs": then(0, 20), "num_queue_reqs": then(0, 200), "token_usage": then(0.05, 0.8),
        "num_prefill_inflight_queue_reqs": then(3, 40), "num_prefill_bootstrap_queue_reqs": 0,
    }  # fmt: skip
    served = np.maximum(6 - lost / 10, 0.3)
    sglang(made, "d-0", "decode", decode, served, time_to_first_token=then(1, 30), inter_token_latency=0.02)
    sglang(made, "p-0", "prefill", prefill, then(6, 4), queue_time=then(0.01, 30))
    answer = diagnosed(made, tmp_path)
    assert answer.findings[0].family == "kv-transfer"
    assert not {"demand-beyond-capacity", "batch-cap-reached"} & set(found(answer))


def test_tokens_that_wait_for_the_detokenizer_are_no_slow_step(tmp_path):
    made = Recording()
    gauges = {"num_running_reqs": then(100, 150), "num_queue_reqs": 0, "token_usage": 0.1}
    sglang(made, "s-0", "unified", gauges, then(20, 25), time_to_first_token=then(0.2, 3),
           inter_token_latency=then(0.025, 0.15), e2e_request_latency=then(5, 33))  # fmt: skip
    first = diagnosed(made, tmp_path).findings[0]
    assert (first.id, first.family) == ("frontend-bottleneck", "host")


def test_steps_that_replay_their_graphs_are_beyond_no_graph(tmp_path):
    made = Recording()
    gauges = {"num_running_reqs": then(20, 60), "num_queue_reqs": 0, "token_usage": 0.1}
    sglang(made, "s-0", "unified", gauges, then(5, 5), time_to_first_token=0.2,
           inter_token_latency=then(0.02, 0.06), e2e_request_latency=then(4, 12))  # fmt: skip
    own = {**target("sglang", "s-0"), "model_name": "m", "engine_type": "unified", "mode": "decode_cuda_graph"}
    made.put("sglang:cuda_graph_passes", "counter", own, total(20), "_total")
    assert "decode-cudagraph-cliff" not in found(diagnosed(made, tmp_path))


def test_replicas_that_start_again_behind_one_agent_are_crash_looping(tmp_path):
    step = np.arange(SCRAPES)
    gone = ((step >= 30) & (step < 36)) | ((step >= 48) & (step < 54))
    shown = np.where(gone, np.nan, 1.0)
    engines = [Engine("a", running=6 * shown, requests=4 * shown), Engine("b")]
    made = recorded(*engines)
    failed = np.where((step >= 28) & gone, 3.0, 0)
    proxy = {"job": "ray", "instance": "10.0.0.9:8080", "namespace": "llm"}
    made.put("ray_serve_num_http_requests", "counter", {**proxy, "route": "/v1"}, total(8), "_total")
    made.put(
        "ray_serve_num_http_error_requests", "counter", {**proxy, "route": "/v1", "error_code": "500"},
        total(failed), "_total",
    )  # fmt: skip
    answer = diagnosed(made, tmp_path)
    crashed = [finding for finding in answer.findings if finding.id == "engine-crash-loop"]
    assert crashed and crashed[0].scope.pods == ["a"]


def gateway(made: Recording, **rates: Level) -> None:
    """An NGINX ingress; rates by status: s200."""
    where = {"job": "ingress-nginx", "instance": "10.0.8.1:10254", "exported_namespace": "llm", "ingress": "i"}
    for status, rate in rates.items():
        made.put("nginx_ingress_controller_requests", "counter", {**where, "status": status[1:]}, total(rate))


def trtllm(made: Recording, pod: str, requests: Level) -> None:
    where = target("trtllm", pod)
    own = {**where, "model_name": "m", "engine_type": "trtllm"}
    alive(made, where)
    done = {**own, "finished_reason": "stop"}
    made.put("trtllm_request_success", "counter", done, total(requests), "_total")
    made.put("trtllm_kv_cache_utilization", "gauge", own, 0.1)
    for name, mean in (("e2e_request_latency", 6), ("time_to_first_token", 0.1), ("time_per_output_token", 0.02)):
        rate = np.broadcast_to(np.asarray(requests, dtype=float), SCRAPES)
        made.put(f"trtllm_{name}_seconds", "histogram", own, total(rate, 0), "_count")
        made.put(f"trtllm_{name}_seconds", "histogram", own, total(rate * mean, 0), "_sum")
        made.put(f"trtllm_{name}_seconds", "histogram", {**own, "le": "+Inf"}, total(rate, 0), "_bucket")


def test_an_engine_without_gauges_behind_a_gateway_that_times_out_is_hung(tmp_path):
    made = Recording()
    trtllm(made, "t-0", then(2, 0))
    gateway(made, s200=then(2, 0), s504=then(0, 2))
    assert found(diagnosed(made, tmp_path))[0] == "engine-hung"


def test_an_engine_that_a_gateway_cannot_reach_is_not_hung(tmp_path):
    made = Recording()
    trtllm(made, "t-0", then(2, 0))
    gateway(made, s200=then(2, 0), s503=then(0, 2))
    answer = diagnosed(made, tmp_path)
    assert answer.verdict != "healthy"
    assert "engine-hung" not in found(answer)


GATEWAYS = {
    "traefik": ("traefik_service_requests", {"service": "vllm@kubernetes"}, "200", "502"),
    "kong": ("kong_http_requests", {"service": "vllm", "route": "r"}, "200", "502"),
    "haproxy": ("haproxy_backend_http_responses", {"proxy": "vllm"}, "2xx", "5xx"),
    "apisix": ("apisix_http_status", {"route": "chat", "node": "vllm"}, "200", "502"),
}


@pytest.mark.parametrize("name", GATEWAYS)
def test_errors_that_a_gateway_makes_are_impact_although_engines_are_well(tmp_path, name):
    family, own, well, bad = GATEWAYS[name]
    kind, ending = ("unknown", "") if name == "apisix" else ("counter", "_total")  # the text format needs no ending
    made = recorded(Engine("a"), Engine("b"))
    where = {"job": name, "instance": "10.0.8.1:8080", "exported_namespace": "llm", **own}
    for code, rate in ((well, then(8, 5)), (bad, then(0, 3))):
        made.put(family, kind, {**where, "code": code}, total(rate), ending)
    answer = diagnosed(made, tmp_path)
    assert answer.verdict != "healthy"
    assert answer.findings[0].family == "routing"


def behind_kong(made: Recording, **rates: Level) -> Recording:
    """rates: of requests at Kong, by status code."""
    for code, rate in rates.items():
        where = {"job": "kong", "instance": "10.0.8.1:8100", "exported_namespace": "llm", "service": "vllm"}
        made.put("kong_http_requests", "counter", {**where, "code": code[1:]}, total(rate), "_total")
    return made


def test_a_gateway_that_refuses_all_it_served_is_impact(tmp_path):
    made = behind_kong(recorded(Engine("a", requests=then(4, 0), running=then(6, 0))), s200=then(4, 0), s401=then(0, 4))
    answer = diagnosed(made, tmp_path)
    assert found(answer) == ["unexplained-anomaly"]
    assert "refuses" in answer.findings[0].evidence[0].statement


def test_a_crawler_without_a_key_is_no_impact(tmp_path):
    made = behind_kong(recorded(Engine("a", requests=4)), s200=4, s401=then(0, 8))
    assert diagnosed(made, tmp_path).verdict == "healthy"


def failing_scrapes(folder, **rates: Level):
    made = recorded(Engine("a", up=then(1, 0), requests=then(4, np.nan), running=then(6, np.nan)))
    gpu(made, "a", 0, DCGM_FI_DEV_GPU_UTIL=90)
    gateway(made, **rates)
    return diagnosed(made, folder)


def test_a_pod_that_serves_while_its_scrapes_fail_is_not_down(tmp_path):
    answer = failing_scrapes(tmp_path, s200=4.0)
    assert (answer.verdict, found(answer)) == ("unknown", [])


def test_a_pod_that_serves_nobody_while_its_scrapes_fail_is_down_although_its_gpu_spins(tmp_path):
    assert "engine-down" in found(failing_scrapes(tmp_path, s200=then(4, 0), s502=then(0, 4)))


def test_requests_that_get_no_response_show_although_workers_show_no_engine(tmp_path):
    made = Recording()
    for pod in ("w-0", "w-1"):
        where = target("dynamo", pod)
        own = {**where, "dynamo_component": "backend", "dynamo_endpoint": "generate", "dynamo_namespace": "d"}
        made.put("up", "gauge", where, 1)
        made.put("dynamo_component_inflight_requests", "gauge", own, 4)
        made.put("dynamo_component_requests", "counter", own, total(1), "_total")
    where = {**target("dynamo", "frontend-0"), "model": "m"}
    made.put("up", "gauge", target("dynamo", "frontend-0"), 1)
    lost = np.clip(np.arange(SCRAPES) - ONSET, 0, 15)
    made.put("dynamo_frontend_queued_requests", "gauge", where, 1 + lost)
    made.put("dynamo_frontend_inflight_requests", "gauge", where, 8 + lost)
    done = {**where, "status": "success", "error_type": ""}
    made.put("dynamo_frontend_requests", "counter", done, total(2), "_total")
    for part, each in (("_count", 2), ("_sum", 1)):
        made.put("dynamo_frontend_time_to_first_token_seconds", "histogram", where, total(each, 0), part)
    first = diagnosed(made, tmp_path).findings[0]
    assert first.family == "routing"


def test_workers_that_show_what_they_have_in_flight_alone_are_not_called_healthy(tmp_path):
    made = Recording()
    where = target("dynamo", "w-0")
    own = {**where, "dynamo_component": "backend", "dynamo_endpoint": "generate", "dynamo_namespace": "d"}
    made.put("up", "gauge", where, 1)
    made.put("dynamo_component_inflight_requests", "gauge", own, then(4, 9))
    made.put("dynamo_component_requests", "counter", own, total(then(1, 0)), "_total")
    assert diagnosed(made, tmp_path).verdict != "healthy"


def in_nginx(made: Recording, seconds: Level, requests: Level = 4.0) -> None:
    where = {"job": "ingress-nginx", "instance": "10.0.8.1:10254", "exported_namespace": "llm", "status": "200"}
    rate = np.broadcast_to(np.asarray(requests, dtype=float), SCRAPES)
    made.put("nginx_ingress_controller_requests", "counter", where, total(rate), "_total")
    for suffix, each in (("_count", rate), ("_sum", rate * seconds)):
        made.put("nginx_ingress_controller_request_duration_seconds", "histogram", where, total(each, 0), suffix)


@pytest.mark.parametrize(("seconds", "is_felt"), [(then(2, 5), True), (2.0, False)])
def test_a_throttled_gpu_is_named_where_no_engine_is_scraped_and_requests_take_longer(tmp_path, seconds, is_felt):
    made = Recording()
    for pod in ("a", "b", "c"):
        hot = pod == "b"
        gpu(made, pod, 0, DCGM_FI_DEV_GPU_UTIL=95, DCGM_FI_DEV_SM_CLOCK=then(1980, 600) if hot else 1980)
        reasons = {"job": "dcgm", "gpu": "0", "UUID": f"GPU-{pod}-0", "exported_pod": pod, "exported_namespace": "llm"}
        made.put("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", reasons, then(4, 0x20) if hot else 4)
    made.put("up", "gauge", {"job": "dcgm", "instance": "10.0.0.9:9400"}, 1)
    in_nginx(made, seconds)
    answer = diagnosed(made, tmp_path)
    assert [(one.id, one.scope.pods) for one in answer.findings] == ([("gpu-clock-throttle", ["b"])] if is_felt else [])
    assert is_felt or (answer.unknown is not None and answer.unknown.kind == "no-engine-metrics")


@pytest.mark.parametrize("restarts", [then(0, 1), 0.0])
def test_a_proxy_of_which_the_kernel_ends_the_process_is_named_where_no_engine_is_scraped(tmp_path, restarts):
    made = Recording()
    where = target("litellm", "litellm-0")
    alive(made, where)
    made.put("litellm_proxy_total_requests_metric", "counter", {**where, "status_code": "200"}, total(8), "_total")
    state = {"job": "kube-state-metrics", "exported_pod": "litellm-0", "exported_namespace": "llm", "container": "p"}
    made.put("kube_pod_container_status_restarts", "counter", state, restarts, "_total")
    if np.any(restarts):
        killed = {**state, "reason": "OOMKilled"}
        made.put("kube_pod_container_status_last_terminated_reason", "gauge", killed, then(np.nan, 1))
    answer = diagnosed(made, tmp_path)
    assert found(answer) == (["engine-oom"] if np.any(restarts) else [])
    assert answer.verdict == ("critical" if np.any(restarts) else "unknown")


@pytest.mark.parametrize("share", [0.6, 0.0])
def test_a_router_that_is_short_of_cpu_is_the_bottleneck_although_more_requests_come(tmp_path, share):
    made = recorded(Engine("a", requests=then(4, 8)), Engine("b", requests=then(4, 8)))
    where = target("dynamo-frontend", "frontend-0")
    rate = then(8, 16)
    own = {**where, "model": "qwen", "status": "success"}
    made.put("dynamo_frontend_requests", "counter", own, total(rate), "_total")
    for suffix, each in (("_count", rate), ("_sum", rate * then(0.4, 4))):
        made.put("dynamo_frontend_time_to_first_token_seconds", "histogram", where, total(each, 0), suffix)
    container(made, "frontend-0", share)
    assert [one.id for one in diagnosed(made, tmp_path).findings] == ["router-overloaded" if share else "routing"]


ANSWERS: dict[str, tuple[str, str, dict[str, str], dict[str, str]]] = {
    "aibrix": ("gateway_request", "_total", {"pod_name": "gw-0", "status_code": "200"}, {"status_code": "503"}),
    "envoy-ai-gateway": ("gen_ai_server_request_duration_seconds", "_count", {}, {"error_type": "_OTHER"}),
}
"""By router: requests, the ending of their name, their labels, and those of requests that fail."""


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("failed", [3.0, 0.0])
def test_requests_that_fail_at_a_gateway_are_found_where_engines_show_nothing(tmp_path, name, failed):
    made = recorded(Engine("a"), Engine("b"))
    family, ending, labels, bad = ANSWERS[name]
    where = {**target(name, "gateway-0"), **labels}
    kind = "counter" if ending == "_total" else "histogram"
    made.put(family, kind, where, total(8), ending)
    made.put(
        f"{family}_model_fail" if name == "aibrix" else family, kind, {**where, **bad}, total(then(0, failed)), ending
    )
    answer = diagnosed(made, tmp_path)
    assert (answer.verdict, found(answer)) == (("degraded", ["routing"]) if failed else ("healthy", []))


SLOW_S = 30
"""Seconds between scrapes where ten minutes must pass."""
BY_AGE = "smg_http_inflight_request_age_count"
LITTLE = {
    "aibrix": ("gateway_in_flight_requests", {}, "gateway_e2e_duration_seconds", 1),
    "litellm": ("litellm_in_flight_requests", {}, "litellm_request_total_latency_metric", 1),
    "ray-serve": ("ray_serve_num_ongoing_http_requests", {"node_id": "n"}, "ray_serve_http_request_latency_ms", 1000),
    "smg": ("smg_worker_requests_active", {"worker": "a"}, "smg_router_request_duration_seconds", 1),
}
"""By router: requests in flight with their labels, and the durations with their parts of a second."""


@pytest.mark.parametrize("name", LITTLE)
@pytest.mark.parametrize("left", [48, 0])
def test_requests_that_never_end_at_a_router_show_by_those_in_flight(tmp_path, name, left):
    """12 are in flight of the requests that end, 10 s each; `left` more come and stay."""
    made = Recording(times=START_S + SLOW_S * np.arange(SCRAPES))
    Engine("a").write(made)
    gauge, own, duration, scale = LITTLE[name]
    where = target(name, "router-0")
    alive(made, where)
    made.put(gauge, "gauge", {**where, **own}, then(12, 12 + left))
    if name == "smg":
        made.put(BY_AGE, "gauge", {**where, "gt": "0", "le": "30"}, 12)
        made.put(BY_AGE, "gauge", {**where, "gt": "600", "le": "1200"}, then(0, left))
    ended = 1.2 * SLOW_S * np.arange(SCRAPES)
    for suffix, values in (("_count", ended), ("_sum", 10 * scale * ended)):
        made.put(duration, "histogram", where, values, suffix)
    for le in (5, 15, 60, np.inf):
        bound = {**where, "le": f"{le * scale}".replace("inf", "+Inf")}
        made.put(duration, "histogram", bound, ended * (le > 10), "_bucket")
    made.samples.pop("process_start_time_seconds")
    answer = diagnose(open_source(store=stored(made.text(), tmp_path)), since="25m")
    assert [one.family for one in answer.findings] == (["routing"] if left else [])


def loads(kind: str, failed: Level) -> list[tuple[str, str, dict[str, str], Level, str]]:
    """What a connector of vLLM counts of eight loads a second, of which some fail."""
    operation = {"operation": "load_get", "status": "partial_failure"}
    return {
        "mooncake": [
            ("mooncake_store_operation_failed_keys", "counter", operation, failed, "_total"),
            ("mooncake_store_operation_keys", "counter", operation, 8.0, "_total"),
        ],
        "3fs": [
            ("hf3fs_num_failed_load", "counter", {}, failed, "_total"),
            ("hf3fs_load_duration_seconds", "histogram", {}, 8.0 - np.asarray(failed), "_count"),
        ],
        "umbp": [
            ("umbp_transfer_failed", "counter", {"operation": "load"}, failed, "_total"),
            ("umbp_transfer_submitted", "counter", {"operation": "load"}, 8.0, "_total"),
        ],
        "tiers": [
            ("kv_offload_tiering_promotion_job_failures", "counter", {"tier": "1:fs"}, failed, "_total"),
            ("kv_offload_tiering_promotion_latency_seconds", "histogram", {"tier": "1:fs"}, 8.0, "_count"),
        ],
    }[kind]


@pytest.mark.parametrize("kind", ["mooncake", "3fs", "umbp", "tiers"])
@pytest.mark.parametrize("fails", [True, False])
def test_loads_from_a_store_that_fail_are_named_although_lookups_hit(tmp_path, kind, fails):
    engine = Engine("a", ttft=then(0.15, 0.9), prefill=then(0.1, 0.8)) if fails else Engine("a")
    made = recorded(engine, Engine("b"))
    for name, of, labels, rate, suffix in loads(kind, then(0.0, 6.0 if fails else 0.05)):
        made.put(
            f"vllm:{name}",
            of,
            {**engine.target(), "model_name": "qwen", "engine": "0", **labels},
            total(rate, 0),
            suffix,
        )
    assert [one.id for one in diagnosed(made, tmp_path).findings] == (["kv-load-failure"] if fails else [])


@pytest.mark.parametrize("waits", [6.0, 0.01])
def test_a_wait_in_litellm_before_its_call_is_time_of_the_router(tmp_path, waits):
    made = recorded(Engine("a"), Engine("b"))
    where = target("litellm", "litellm-0")
    own = {**where, "requested_model": "qwen"}
    alive(made, where)
    made.put("litellm_proxy_total_requests_metric", "counter", {**own, "status_code": "200"}, total(8.0), "_total")
    means = {"overhead_latency_metric": 0.01, "request_queue_time_seconds": then(0.01, waits)}
    means["request_total_latency_metric"] = 1.2 + means["request_queue_time_seconds"]
    for name, mean in means.items():
        for suffix, rate in (("_count", 8.0), ("_sum", 8.0 * np.asarray(mean))):
            made.put(f"litellm_{name}", "histogram", own, total(rate, 0), suffix)
    assert [one.id for one in diagnosed(made, tmp_path).findings] == (["router-overloaded"] if waits > 1 else [])


@pytest.mark.parametrize("refused", [2.0, 0.0])
def test_requests_that_workers_of_dynamo_refuse_are_named(tmp_path, refused):
    made = recorded(Engine("a"), Engine("b"))
    for pod in ("w-0", "w-1"):
        where = target("dynamo-worker", pod)
        own = {**where, "dynamo_namespace": "d", "dynamo_component": "backend", "dynamo_endpoint": "generate"}
        alive(made, where)
        made.put("dynamo_component_requests", "counter", own, total(4.0), "_total")
        made.put("dynamo_component_inflight_requests", "gauge", own, 8.0)
        made.put("dynamo_rejection_request", "counter", where, total(then(0.0, refused), 0), "_total")
    assert [one.id for one in diagnosed(made, tmp_path).findings] == (["admission-shedding"] if refused else [])


def read(made: Recording, tmp_path, pod: str, *names: str) -> list[float]:
    """The newest values of signals of one pod."""
    source = open_source(store=stored(made.text(), tmp_path))
    latest = source.latest_ms() / 1000
    frame = source.read(list(names), latest - 120, latest, 15)
    source.close()
    rows = [[entity.get("pod") for entity in frame[name].entities].index(pod) for name in names]
    return [float(frame[name].values[row, -1]) for name, row in zip(names, rows, strict=True)]


def test_transfers_that_dynamo_counts_of_tensorrt_llm_are_read(tmp_path):
    made, where = recorded(Engine("b")), target("trtllm", "t-0")
    own = {**where, "model_name": "m", "engine_type": "trtllm", "disaggregation_mode": "decode"}
    alive(made, where)
    made.put("trtllm_num_requests_running", "gauge", own, 4)
    made.put("trtllm_generation_tokens", "counter", own, total(400.0), "_total")
    made.put("trtllm_kv_transfer_success", "counter", own, total(2.0), "_total")
    for name, mean in (("latency_seconds", 0.25), ("bytes", 5e8)):
        for suffix, rate in (("_count", 2.0), ("_sum", 2.0 * mean)):
            made.put(f"trtllm_kv_transfer_{name}", "histogram", own, total(rate, 0), suffix)
    names = ("nixl_xfer_rate", "nixl_xfer_mean", "nixl_bytes_rate", "transfer_seconds_per_gb")
    assert read(made, tmp_path, "t-0", *names) == pytest.approx([2.0, 0.25, 1e9, 0.5], rel=0.05)


def test_cached_prompt_tokens_of_llama_cpp_are_hits(tmp_path):
    made, where = recorded(Engine("b")), target("llamacpp", "l-0")
    alive(made, where)
    made.put("llamacpp:requests_processing", "gauge", where, 4)
    for name, rate in (("tokens_predicted", 100.0), ("prompt_tokens", 400.0), ("prompt_tokens_cached", 600.0)):
        made.put(f"llamacpp:{name}", "counter", where, total(rate), "_total")
    names = ("prefix_hit_ratio", "prompt_tokens_rate", "prompt_computed_share", "prefill_tokens_rate")
    assert read(made, tmp_path, "l-0", *names) == pytest.approx([0.6, 1000, 0.4, 400], rel=0.05)


def test_requests_for_which_ray_serve_chooses_no_replica_are_counted(tmp_path):
    made, where = recorded(Engine("b")), target("ray", "head-0")
    own = {**where, "application": "llm"}
    made.put("ray_serve_num_http_requests", "counter", {**own, "status_code": "200"}, total(8.0), "_total")
    for reason in ("router_unreachable", "unknown_replica_id"):
        made.put(
            "ray_serve_haproxy_ingress_router_failures", "counter", {**own, "reason": reason}, total(3.0, 0), "_total"
        )
    for suffix, rate in (("_count", 8.0), ("_sum", 8.0 * 40)):
        made.put("ray_serve_haproxy_ingress_router_latency_ms", "histogram", own, total(rate, 0), suffix)
    assert read(made, tmp_path, "head-0", "router_sched_failures", "router_sched_mean") == pytest.approx(
        [3.0, 0.04], rel=0.05
    )


def test_queries_that_a_separate_kv_indexer_fails_are_errors_of_kv_events(tmp_path):
    made, where = recorded(Engine("b")), target("dynamo-frontend", "frontend-0")
    made.put(
        "dynamo_frontend_requests", "counter", {**where, "model": "qwen", "status": "success"}, total(8.0), "_total"
    )
    for name, rate in (("query", 2.0), ("write", 1.0)):
        made.put(f"dynamo_component_router_remote_indexer_{name}_failures", "counter", where, total(rate, 0), "_total")
    assert read(made, tmp_path, "frontend-0", "kv_event_errors") == pytest.approx([3.0], rel=0.05)
