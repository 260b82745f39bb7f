"""GPUs with their heat, ranks of one deployment, and engines that come back with other settings."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.simulate.batch import EngineConfig
from inferdoc.simulate.engine import Engine
from inferdoc.simulate.engine_pages import vllm_items
from inferdoc.simulate.exporter_pages import Dcgm
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.gpus import BRAKE_CLOCK, HARDWARE_SLOWDOWN, HW_THERMAL, POWER_BRAKE, POWER_CAP, SW_THERMAL, Gpu
from inferdoc.simulate.hardware import LockStep, MeasuredTime, Roofline, tier
from inferdoc.simulate.request import EngineRequest
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import read_scenario

CARD = tier("h100-80").card


def settled(gpu: Gpu, share: float, seconds: int = 600) -> float:
    """The clock after a load that would draw this share of the limit at the full clock."""
    clock = 1.0
    for _ in range(seconds):
        clock = gpu.clock(clock, CARD, CARD.watts * share * clock, 1.0)
    return clock


def test_a_cooled_gpu_keeps_its_clock_and_gives_no_reason():
    gpu = Gpu()
    assert settled(gpu, 0.9) == 1.0
    assert gpu.reasons == 0
    assert gpu.temperature == pytest.approx(30 + 42 * 0.9, abs=0.5)


def test_less_cooling_lowers_the_clock_until_the_heat_can_be_carried_off():
    gpu = Gpu(cooling=0.4)
    clock = settled(gpu, 0.8)
    assert 0.4 < clock < 0.9
    assert gpu.reasons & (SW_THERMAL | HW_THERMAL)
    assert gpu.temperature is not None and gpu.temperature < HARDWARE_SLOWDOWN + 3


def test_the_same_cooling_is_enough_for_less_work():
    assert settled(Gpu(cooling=0.4), 0.3) == 1.0


def test_a_power_limit_is_kept_by_the_clock():
    gpu = Gpu(limit=0.5)
    clock = settled(gpu, 0.8)
    assert 0.8 * clock <= 0.5 + 0.03
    assert gpu.reasons & POWER_CAP


def test_a_power_brake_halves_the_clock_and_ends_with_it():
    gpu = Gpu(brake=True)
    assert settled(gpu, 0.5) == BRAKE_CLOCK
    assert gpu.reasons & POWER_BRAKE
    gpu.brake = False
    clock = BRAKE_CLOCK
    for _ in range(60):
        clock = gpu.clock(clock, CARD, 0.3 * CARD.watts, 1.0)
    assert clock == 1.0 and gpu.reasons == 0


FLEET = """
id: test
title: test
expect: {cause: null}
pools:
  - {name: vllm, pods: 1, tier: h100-80, model: MODEL, ranks: RANKS, flags: {max_seqs: 32}}
traffic:
  - {rate: 6, prompt: {median: 300, sigma: 0.3}, output: {median: 60, sigma: 0.3}}
faults: [FAULT]
warmup: 0
"""


def fleet(model: str = "llama-3.1-8b", ranks: int = 1, fault: str = "") -> SimulatedFleet:
    return SimulatedFleet(scenario(model, ranks, fault))


def scenario(model: str, ranks: int, fault: str) -> Scenario:
    text = FLEET.replace("MODEL", model).replace("RANKS", str(ranks)).replace("FAULT", fault)
    return read_scenario(text, "test")


def xids(kept: SimulatedFleet, dcgm: Dcgm, now: float) -> list[tuple[str, float]]:
    items = list(dcgm.items([rank for pod in kept.pods for rank in pod.ranks], now, "sim"))
    return [(dict(i.labels)["gpu"], i.values[0]) for i in items if i.name == "DCGM_FI_DEV_XID_ERRORS"]


def test_a_lost_gpu_leaves_the_page_at_the_next_collection_and_its_siblings_stay():
    kept, dcgm = fleet(ranks=2, fault="{kind: gpu-lost, at: 10s, pods: [vllm-0], xid: 79}"), Dcgm(1, False)
    assert xids(kept, dcgm, 0.0) == [("0", 0.0), ("1", 0.0)]
    kept.run(31.0)
    assert xids(kept, dcgm, 31.0) == [("1", 0.0)]
    assert kept.pods[0].engine.hung


def test_a_memory_error_ends_the_process_and_stays_as_the_last_code():
    fault = "{kind: xid, at: 10s, pods: [vllm-0], xid: 94, rows: 2, after: 15s}"
    kept, dcgm = fleet(fault=fault), Dcgm(1, True)
    xids(kept, dcgm, 0.0)
    kept.run(12.0)
    assert not kept.pods[0].alive
    assert (kept.pods[0].restarts, kept.pods[0].last_end) == (1, "Error"), "as the kubelet counts it"
    kept.run(40.0)
    assert kept.pods[0].alive and kept.pods[0].started == pytest.approx(25.0, abs=0.3)
    xids(kept, dcgm, 40.0)
    assert xids(kept, dcgm, 71.0) == [("0", 94.0)]
    recent = [i for i in dcgm.items(kept.pods, 72.0, "sim") if i.name == "DCGM_EXP_XID_ERRORS_COUNT"]
    assert [dict(i.labels)["xid"] for i in recent] == ["94"]


def test_the_internal_balancer_keeps_ranks_even_and_a_header_does_not():
    even = fleet(ranks=4)
    even.run(60.0)
    counts = [rank.engine.stats.e2e.count for rank in even.pods[0].ranks]
    assert min(counts) > 0.6 * max(counts) > 0
    skewed = fleet(ranks=4, fault="{kind: rank, at: 0s, pods: [vllm-0], gpu: 2, share: 0.9}")
    skewed.run(60.0)
    counts = [rank.engine.stats.e2e.count for rank in skewed.pods[0].ranks]
    assert counts[2] > 3 * max(counts[0], counts[1], counts[3])


def test_every_request_of_a_deployment_ends_on_one_of_its_ranks():
    kept = fleet(ranks=3)
    kept.run(60.0)
    pod = kept.pods[0]
    done = sum(rank.engine.stats.e2e.count for rank in pod.ranks)
    router = sum(stats.requests for stats in kept.router.stats.classes.values())
    assert done + pod.load() == pytest.approx(router, abs=3)


def test_rank_for_prefers_few_waiting_over_few_running():
    pod = fleet(ranks=2).pods[0]
    ranks = pod.ranks
    busy = [EngineRequest(i, 10, 5, 5, [], 0.0) for i in range(4)]
    ranks[0].engine.running = {r.id: r for r in busy[:3]}
    ranks[1].engine.waiting.append(busy[3])
    rng = np.random.default_rng(1)
    assert pod.rank_for(rng) is ranks[0], "3 running are less than 4 x 1 waiting"
    pod.pinned_rank = (1, 1.0)
    assert pod.rank_for(rng) is ranks[1]


def test_ranks_of_a_model_with_experts_step_together_and_others_do_not():
    group = LockStep()
    assert group.join(0, 0.010) == 0.010
    assert group.join(1, 0.040) == 0.040
    assert group.join(0, 0.010) == 0.040
    group.rest(1)
    assert group.join(0, 0.010) == pytest.approx(0.010)
    for model, in_step in {"qwen3-30b-a3b": True, "llama-3.1-8b": False}.items():
        machine = fleet(model, ranks=2).pods[0].timing
        assert isinstance(machine, Roofline) and (machine.group is not None) is in_step


def test_the_page_of_a_deployment_has_one_series_per_rank_and_no_process():
    kept = fleet(ranks=3)
    kept.run(20.0)
    items = list(vllm_items(kept.pods[0], "m", 0.0))
    running = [dict(i.labels)["engine"] for i in items if i.name == "vllm:num_requests_running"]
    assert running == ["0", "1", "2"]
    names = [i.name for i in items]
    assert "process_start_time_seconds" not in names
    blocks = [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]
    assert len(blocks) == len(set(blocks)), "samples of a family stand together"
    answered = sum(i.values[0] for i in items if i.name == "http_requests_total")
    assert answered == sum(sum(rank.engine.stats.http.values()) for rank in kept.pods[0].ranks)


def test_a_synchronous_rearrangement_stops_the_streams_at_its_interval():
    def slow_gaps(**flags: float) -> tuple[int, float]:
        config = EngineConfig(blocks=4000, **flags)  # type: ignore[arg-type]
        kept = Engine(config, MeasuredTime(0.01, 0.0, 1 / 8000), np.random.default_rng(1))
        kept.submit(EngineRequest(0, 100, 1001, 1001, [(("own", 0), 0)], 0.0), 0.0)
        kept.advance(60.0)
        gaps = kept.stats.itl
        return sum(count for bound, count in zip(gaps.bounds, gaps.counts, strict=False) if bound > 0.2), gaps.sum

    none, quick = slow_gaps()
    stops, slow = slow_gaps(rebalance_every=100, rebalance_pause=0.4)
    assert none == 0
    assert stops == pytest.approx(10, abs=1)
    assert slow - quick == pytest.approx(10 * 0.4, abs=0.9)


def test_a_restart_with_other_settings_shows_on_the_page_and_in_the_steps():
    fault = "{kind: restart, at: 5s, after: 15s, pods: [vllm-0], flags: {cache_dtype: fp8, kernels: 2.0}}"
    kept = fleet(fault=fault)
    before = kept.pods[0].timing.step(8, 8000, 0, 0.0, 8).seconds
    blocks = kept.pods[0].engine.config.blocks
    kept.run(25.0)
    pod = kept.pods[0]
    shown = next(dict(i.labels) for i in vllm_items(pod, "m", 0.0) if i.name == "vllm:cache_config_info")
    assert shown["cache_dtype"] == "fp8" and int(shown["num_gpu_blocks"]) == 2 * blocks
    assert pod.timing.step(8, 8000, 0, 0.0, 8).seconds > 1.8 * before
