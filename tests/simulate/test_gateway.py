"""What stands before and above the engines: the router's readings and processor, flow control, proxies, autoscalers."""

from __future__ import annotations

import msgspec
import pytest

from inferdoc.simulate.engine_pages import router_items
from inferdoc.simulate.exporter_pages import kube_items
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.scenario_files import read_scenario

BASE = """
id: small
title: Small
expect: {cause: null}
pools:
  - {name: vllm, pods: 2, tier: h100-80, model: llama-3.1-8b, flags: {max_seqs: 8}%(pool)s}
traffic:
%(traffic)s
router: {policy: least-loaded%(router)s}
faults: [%(faults)s]
duration: 10m
warmup: 0
"""
CHAT = "  - {rate: %(rate)s, prompt: {median: 400, sigma: 0.3}, output: {median: 100, sigma: 0.3}%(more)s}\n"


def chat(rate: float, more: str = "") -> str:
    return CHAT % {"rate": rate, "more": more}


def fleet(traffic: str = chat(2.0), router: str = "", faults: str = "", pool: str = "") -> SimulatedFleet:
    return SimulatedFleet(
        read_scenario(BASE % {"traffic": traffic, "router": router, "faults": faults, "pool": pool}, "small")
    )


def totals(found: SimulatedFleet) -> tuple[int, dict[str, int]]:
    """Requests, and errors by code, over all classes."""
    errors: dict[str, int] = {}
    for stats in found.router.stats.classes.values():
        for code, count in stats.errors.items():
            errors[code] = errors.get(code, 0) + count
    return sum(s.requests for s in found.router.stats.classes.values()), errors


def value(items, name: str, **labels: str) -> float:
    (one,) = [i for i in items if i.name == name and set(labels.items()) <= set(i.labels)]
    return one.values[0]


# ---- flow control ----


def test_flow_control_with_fresh_values_queues_nothing():
    found = fleet(router=", flow: {}")
    found.run(120.0)
    flow = found.gateway.flow
    assert flow.queued == 0 and set(flow.outcomes) == {("Dispatched", 0)}
    assert totals(found)[1] == {}


def test_stale_figures_close_the_gate_at_exactly_one_and_requests_age_out():
    found = fleet(router=", flow: {ttl: 60s}", faults="{kind: poll, at: 60s, share: 1.0}")
    found.run(180.0)
    flow = found.gateway.flow
    assert flow.saturation == 1.0 and flow.stale == 2
    assert sum(len(p.engine.running) for p in found.pods) == 0
    assert flow.outcomes[("EvictedTTL", 0)] == pytest.approx(2.0 * 60, rel=0.3)
    assert totals(found)[1] == {"ResourceExhausted": flow.outcomes[("EvictedTTL", 0)]}
    page = list(router_items(found, "m", "sim"))
    assert value(page, "llm_d_epp_flow_control_pool_saturation", stage="effective") == 1.0
    assert value(page, "llm_d_epp_flow_control_stale_endpoints") == 2
    assert value(page, "llm_d_epp_flow_control_queue_size") == flow.queued > 60


def test_a_refresh_slower_than_the_staleness_limit_lets_requests_go_once_a_refresh():
    found = fleet(router=", refresh: 10s, flow: {staleness: 0.2s}")
    found.run(300.0)
    waits = [h for (_, outcome), h in found.gateway.flow.waits.items() if outcome == "Dispatched"]
    assert sum(h.sum for h in waits) / sum(h.count for h in waits) == pytest.approx(5.0, rel=0.3)


def test_the_higher_priority_is_served_while_the_lower_waits():
    two = chat(16, ", tenant: gold, priority: 10") + chat(12, ", tenant: free")
    found = fleet(two, router=", flow: {ttl: 30s}", pool="")
    found.run(240.0)
    waits = found.gateway.flow.waits
    mean = {kind[0]: h.sum / h.count for (kind, outcome), h in waits.items() if outcome == "Dispatched"}
    assert ("EvictedTTL", 0) in found.gateway.flow.outcomes and ("EvictedTTL", 10) not in found.gateway.flow.outcomes
    assert mean["free"] > 10 * mean["gold"]


def test_a_full_band_turns_requests_away_at_once():
    found = fleet(router=", flow: {capacity: 5}", faults="{kind: poll, at: 30s, share: 1.0}")
    found.run(60.0)
    assert found.gateway.flow.queued == 5 and found.gateway.flow.outcomes[("RejectedCapacity", 0)] > 10


def test_without_an_endpoint_every_request_is_refused():
    for router in ("", ", flow: {}"):
        found = fleet(router=router, faults="{kind: unlabel, at: 60s}")
        found.run(120.0)
        requests, errors = totals(found)
        assert sum(errors.values()) == pytest.approx(requests / 2, rel=0.3)
        assert value(list(router_items(found, "m", "sim")), "llm_d_epp_ready_endpoints") == 0


# ---- what the router reads, and what it takes ----


def test_a_pod_that_cannot_be_read_keeps_its_last_figures():
    found = fleet(chat(8), router=", in_flight: false", faults="{kind: poll, at: 60s, pods: [vllm-0], share: 1.0}")
    found.run(60.25)
    frozen = found.router.polled["vllm-0"]
    found.run(120.0)
    assert found.router.polled["vllm-0"] == frozen
    assert found.router.age("vllm-0", found.now) == pytest.approx(60.0, abs=1.0)
    assert found.router.age("vllm-1", found.now) == 0.0
    assert found.router.stats.poll_errors == pytest.approx(60.0 / 0.05, rel=0.02)


def test_too_few_cores_delay_every_request_before_an_engine_sees_it():
    def first_token(cpu: float) -> tuple[float, float]:
        found = fleet(router=", cores: 0.5", faults=f"{{kind: router-cores, at: 0s, cpu: {cpu}}}")
        found.run(240.0)
        (stats,) = found.router.stats.classes.values()
        engine = sum(p.engine.stats.ttft.sum for p in found.pods) / sum(p.engine.stats.ttft.count for p in found.pods)
        return stats.ttft.sum / stats.ttft.count - engine, engine

    (gap, engine), (short_gap, short_engine) = first_token(1.0), first_token(0.305)
    assert gap < 0.1 and short_gap > 10 * gap
    assert short_engine == pytest.approx(engine, rel=0.3)


def test_a_proxy_cuts_at_its_limit_and_the_engine_stops():
    found = fleet(router=", timeout: 0.5s")
    found.run(120.0)
    finished = sum(sum(p.engine.stats.success.values()) for p in found.pods)
    answered = sum(sum(p.engine.stats.http.values()) for p in found.pods)
    assert answered > 200 and finished < 0.7 * answered
    assert sum(len(p.engine.running) for p in found.pods) <= 4


# ---- replicas ----

SCALER = ", cold_start: 60s, scaler: {least: 1, most: 6, target: 6, down_window: %s%s}"


def test_the_autoscaler_scales_at_once_and_gets_after_the_cold_start():
    found = fleet(chat(16), pool=SCALER % ("300s", ""), faults="{kind: traffic, at: 0s, rate: 2.5}")
    (scaler,) = found.scalers
    found.run(40.0)
    assert scaler.desired > 2 and len(scaler.ready) == 2
    page = list(kube_items(found, "sim"))
    assert value(page, "kube_horizontalpodautoscaler_status_desired_replicas") == scaler.desired
    assert value(page, "kube_deployment_status_replicas_ready") == 2
    found.run(140.0)
    assert len(scaler.ready) >= scaler.desired - 1 > 2


def test_a_scaler_without_a_metric_stays_where_it_is_and_prints_so():
    found = fleet(chat(30), pool=SCALER % ("300s", ", metric: missing"))
    found.run(120.0)
    (scaler,) = found.scalers
    assert scaler.desired == 2
    page = list(kube_items(found, "sim"))
    assert value(page, "kube_horizontalpodautoscaler_status_condition", condition="ScalingActive", status="false") == 1


def test_pods_without_a_gpu_stay_pending():
    found = fleet(chat(30), pool=SCALER % ("300s", ", room: 3"))
    found.run(200.0)
    (scaler,) = found.scalers
    assert scaler.desired > 3 and len(scaler.ready) == 3
    assert [i for i in kube_items(found, "sim") if i.name == "kube_pod_status_unschedulable"]


def test_the_window_before_scaling_down_keeps_replicas():
    def after(window: str) -> int:
        found = fleet(chat(16), pool=SCALER % (window, ""), faults="{kind: traffic, at: 100s, rate: 0.05}")
        found.run(200.0)
        return found.scalers[0].desired

    assert after("0s") == 1 < after("300s")


def test_a_planned_end_without_time_loses_what_runs_and_one_with_time_loses_nothing():
    lost = {}
    for seconds in ("0s", "60s"):
        found = fleet(chat(6), faults=f"{{kind: stop, at: 60s, pods: [vllm-0], seconds: {seconds}, after: 30s}}")
        found.run(60.0)
        running = found.pods[0].engine.load
        found.run(150.0)
        lost[seconds] = sum(totals(found)[1].values())
        assert running > 0 and not found.pods[0].alive and found.pods[-1].name == "vllm-2" and found.pods[-1].alive
        assert lost[seconds] == (pytest.approx(running, abs=3) if seconds == "0s" else 0)


def test_a_scenario_without_any_of_it_is_as_before():
    """The pages of the engines do not depend on what the router could do."""
    plain, careful = fleet(), fleet(router=", refresh: 0s, in_flight: true, cores: 0")
    for found in (plain, careful):
        found.run(60.0)
    assert msgspec.to_builtins(plain.scenario) == msgspec.to_builtins(careful.scenario)
    assert [p.engine.stats.generation for p in plain.pods] == [p.engine.stats.generation for p in careful.pods]
