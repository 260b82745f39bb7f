"""Containers that end and start again: what Kubernetes counts, how long it waits, what memory shows before."""

from __future__ import annotations

import msgspec
import pytest

from inferdoc.simulate.faults import BACK_OFF
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import load_scenario

replace = msgspec.structs.replace


def quick(name: str, **fault: object) -> Scenario:
    """The scenario with its fault at 100 s and quick starts."""
    found = load_scenario(name)
    pools = tuple(replace(pool, cold_start=20.0) for pool in found.pools)
    return replace(found, pools=pools, faults=(replace(found.faults[0], at=100.0, **fault),))


def lost(fleet: SimulatedFleet) -> int:
    return sum(sum(stats.errors.values()) for stats in fleet.router.stats.classes.values())


def test_every_start_waits_longer_and_is_counted() -> None:
    fleet = SimulatedFleet(quick("engine-crash-loop", seconds=5.0))
    pod = fleet.pod("vllm-2")
    ends: list[float] = []
    starts: list[float] = []
    alive = True
    while fleet.now < 330:
        fleet.run(fleet.now + 0.25)
        if pod.alive != alive:
            (starts if pod.alive else ends).append(fleet.now)
            alive = pod.alive
    waits = [start - end - 20.0 for end, start in zip(ends, starts, strict=False)]
    assert waits[0] == pytest.approx(1.0, abs=1.0)
    assert waits[1:4] == pytest.approx([2 * BACK_OFF, 4 * BACK_OFF, 8 * BACK_OFF][: len(waits) - 1], abs=1.0)
    assert pod.restarts >= 3
    assert pod.last_end == "Error"


def test_memory_fills_before_the_end_and_is_free_after_the_start() -> None:
    fleet = SimulatedFleet(quick("engine-oom", seconds=60.0))
    pod = fleet.pod("vllm-1")
    fleet.run(130.0)
    half = pod.memory_taken
    fleet.run(165.0)
    assert half == pytest.approx(0.5, abs=0.02)
    assert not pod.alive
    assert pod.last_end == "Error"
    fleet.run(185.0)
    assert pod.alive
    assert pod.restarts == 1
    assert pod.memory_taken < 0.2


def test_the_kernel_ends_a_process_for_host_memory_without_a_sign_on_the_gpu() -> None:
    fleet = SimulatedFleet(quick("engine-oom", seconds=60.0, host=True))
    pod = fleet.pod("vllm-1")
    fleet.run(150.0)
    assert pod.memory_taken == 0.0
    fleet.run(165.0)
    assert not pod.alive
    assert pod.last_end == "OOMKilled"


def test_requests_of_an_ended_process_are_lost() -> None:
    fleet = SimulatedFleet(quick("engine-crash-loop", seconds=5.0))
    fleet.run(104.0)
    kept = fleet.pod("vllm-2").engine.load
    before = lost(fleet)
    fleet.run(106.0)
    assert kept > 0
    assert lost(fleet) >= before + kept
