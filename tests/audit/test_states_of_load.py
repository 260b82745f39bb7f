"""States that need a day of load, a promise or a restart to show, on hand-made fleets."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.audit.quantities import QUANTITIES, cold_start, compute_bound_batch, same_ages
from inferdoc.audit.waste import WASTES
from inferdoc.config_sections import SloSection
from inferdoc.judging.view import View
from tests.audit.lab import START_MS, doubts, standing, verdicts, watched
from tests.audit.test_states import STEPS, day, pods

LOAD = day(0.5, 4.0)
NOON = np.quantile(LOAD, 0.85) < LOAD


def apart(prefill_use, decode_use, prefill="a100-80", decode="a100-80"):
    """One pod a role, with the KV cache in use as said."""
    uses = {"p": prefill_use, "d": decode_use}
    fleet = {name: {"kv_usage_mean": use, "prefill_tokens_rate": 10.0, "running": 8.0} for name, use in uses.items()}
    labels = {"p": {"role": "prefill", "tier": prefill}, "d": {"role": "decode", "tier": decode}}
    return watched(fleet, labels=labels)


def test_roles_that_are_far_apart_in_load_stand_and_cost_what_the_idler_could_give():
    fleet = apart(0.8, 0.2)
    entry = next(s for s in verdicts(fleet).standing if s.state.id == "roles-unevenly-loaded")
    assert entry.pool.role == "prefill"
    assert WASTES["idler_role"].measure(fleet, entry.units) == pytest.approx(0.75)
    assert "roles-unevenly-loaded" in standing(apart(0.2, 0.8))
    assert "roles-unevenly-loaded" not in standing(apart(0.6, 0.5))


def test_arithmetic_belongs_to_prefill():
    """FLOPs per byte: A100 153, H100 295, so decode on the H100 and prefill on the A100 is the wrong way round."""
    assert "phase-on-the-wrong-tier" in standing(apart(0.5, 0.5, "a100-80", "h100-80"))
    assert "phase-on-the-wrong-tier" not in standing(apart(0.5, 0.5, "h100-80", "a100-80"))
    assert "phase-on-the-wrong-tier" not in standing(apart(0.5, 0.5))


@pytest.mark.parametrize(
    ("at_noon", "otherwise", "stands"),
    [(15.0, 2.0, True), (15.0, 12.0, False), (6.0, 2.0, False)],
)
def test_a_tail_that_leaves_the_median_under_load_only(at_noon, otherwise, stands):
    tail = np.where(NOON, at_noon, otherwise)
    fleet = watched(pods(2, request_rate=LOAD, ttft_tail_ratio=tail))
    assert ("tail-leaves-median-under-load" in standing(fleet)) == stands


def test_a_queue_beyond_the_objective_that_nobody_bounds():
    objective = [SloSection({"ttft_p99": 2.0})]
    noon = {"queue_time_p99": np.where(NOON, 5.0, 0.1), "ttft_p99": 1.0}
    assert "no-admission-limit" in standing(watched(pods(2, **noon), slo=objective))
    refusing = noon | {"admission_rejections_rate": np.where(NOON, 0.5, 0.0)}
    assert "no-admission-limit" not in standing(watched(pods(2, **refusing), slo=objective))
    assert "no-admission-limit" not in standing(watched(pods(2, **noon)))
    assert "no-admission-limit" not in doubts(watched(pods(2, **noon)))


def test_more_gpus_than_memory_and_objective_need():
    idle = {"kv_usage": 0.1, "kv_usage_mean": 0.08, "prefix_hit_ratio": 0.5, "itl_p99": 0.01}
    objective = [SloSection({"itl_p99": 0.05})]
    assert "tensor-parallel-larger-than-needed" in standing(watched(pods(2, **idle), gpus=4, slo=objective))
    assert "tensor-parallel-larger-than-needed" not in standing(watched(pods(2, **idle), gpus=1, slo=objective))
    assert "tensor-parallel-larger-than-needed" not in standing(watched(pods(2, **idle), gpus=4))
    slow = idle | {"itl_p99": 0.04}
    assert "tensor-parallel-larger-than-needed" not in standing(watched(pods(2, **slow), gpus=4, slo=objective))


@pytest.mark.parametrize(
    ("state", "signal", "at_night", "at_noon", "cache", "stands"),
    [
        ("ttft-high-at-low-load", "ttft_p99", 3.0, 3.0, 0.1, True),
        ("ttft-high-at-low-load", "ttft_p99", 1.0, 3.0, 0.1, False),
        ("ttft-high-at-low-load", "ttft_p99", 3.0, 3.0, 0.9, False),
        ("itl-high-at-low-load", "itl_p99", 0.06, 0.06, 0.1, True),
        ("itl-high-at-low-load", "itl_p99", 0.03, 0.06, 0.1, False),
        ("itl-high-at-low-load", "itl_p99", 0.06, 0.06, 0.9, False),
    ],
)
def test_latency_that_misses_its_objective_while_the_pod_is_far_from_full(
    state, signal, at_night, at_noon, cache, stands
):
    objectives = [SloSection({"ttft_p99": 2.0, "itl_p99": 0.05})]
    shown = {
        "ttft_p99": 0.5,
        "itl_p99": 0.02,
        "request_rate": LOAD,
        "kv_usage_mean": cache,
        "prefill_tokens_rate": 10.0,
        signal: np.where(NOON, at_noon, at_night),
    }
    assert (state in standing(watched(pods(2, **shown), slo=objectives))) == stands
    assert state not in standing(watched(pods(2, **shown)))


@pytest.mark.parametrize(
    ("rate", "use", "prompt", "stands"),
    [(5.0, 0.5, 1000.0, True), (7.5, 0.5, 1000.0, False), (5.0, 0.3, 1000.0, False), (5.0, 0.5, 3000.0, False)],
)
def test_four_gpus_that_serve_less_than_twice_of_two(rate, use, prompt, stands):
    """Two GPUs serve 4 requests/s at a use of 0.5, so 4 per GPU at full use."""
    small = {"request_rate": 4.0, "kv_usage_mean": 0.5, "prompt_len_mean": 1000.0, "output_len_mean": 200.0}
    small |= {"prefill_tokens_rate": 10.0, "running": 10.0}
    large = small | {"request_rate": rate, "kv_usage_mean": use, "prompt_len_mean": prompt}
    fleet = watched({"small": small, "large": large}, gpus={"small": 2, "large": 4})
    name = "requests-per-gpu-fall-with-tensor-parallel"
    assert (name in standing(fleet)) == stands
    if stands:
        entry = next(each for each in verdicts(fleet).standing if each.state.id == name)
        assert [unit.name for unit in entry.units] == ["large"]


def test_a_draft_method_follows_acceptance_and_load():
    """5 drafted tokens of which 0.2 are accepted: 1.2 tokens in 1.25 steps lose with a draft head, and gain with a
    lookup that takes no time."""
    few = watched(pods(1, spec_acceptance_length=1.2, spec_draft_length=5.0, running=4.0))
    unit = few.view.units[0]
    assert "speculation-below-break-even" in standing(few)
    assert np.median(QUANTITIES["lookup_speedup"].of_unit(few, unit)) == pytest.approx(1.2)
    assert QUANTITIES["draft_batch"].of_unit(few, unit) == int(compute_bound_batch(few, unit) / 6)
    full = watched(pods(1, spec_acceptance_length=1.2, spec_draft_length=5.0, running=200.0))
    assert np.median(QUANTITIES["lookup_speedup"].of_unit(full, full.view.units[0])) < 1.0


def started(*ages_h: float, load_s: float = 0.0) -> dict[str, np.ndarray]:
    """Start times of the processes of a pod that ended at these ages; each shows its page load_s after it began."""
    times = START_MS / 1000 + 90.0 * np.arange(STEPS)
    starts, running, begin = np.full(STEPS, np.nan), np.full(STEPS, np.nan), times[0] - 3600.0
    for age in (*ages_h, 48.0):
        alive = (times >= begin + load_s) & (times < begin + 3600 * age)
        starts[alive], running[alive] = begin, 20.0
        begin += 3600 * age
    return {"process_start_time": starts, "running": running}


def test_starts_that_take_longer_than_five_minutes():
    slow, quick = (watched({"p0": started(5.0, 7.0, load_s=seconds), "p1": {}}) for seconds in (900.0, 100.0))
    assert cold_start(slow, slow.view.units[0]) == pytest.approx(900.0, abs=90.0)
    assert "cold-start-slow" in standing(slow) and "cold-start-slow" not in standing(quick)
    assert cold_start(slow, slow.view.units[1]) == 0.0


def test_ends_at_one_age_are_no_chance():
    leak, chance = watched({"p0": started(5.0, 5.1, 4.9, 5.0)}), watched({"p0": started(2.0, 5.0, 9.0, 3.0)})
    assert same_ages(leak, leak.view.units[0]) == pytest.approx(0.96, abs=0.02)
    assert "restarts-at-one-age" in standing(leak)
    assert "restarts-at-one-age" not in standing(chance)
    assert "restarts-at-one-age" not in standing(watched({"p0": started(5.0, 5.0)}))


def test_a_clock_below_that_of_its_peers():
    fleet = watched({"p0": {"sm_clock_busy": 990.0}, "p1": {"sm_clock_busy": 1980.0}})
    entry = next(s for s in verdicts(fleet).standing if s.state.id == "clock-below-peers")
    assert [unit.name for unit in entry.units] == ["p0"]
    assert WASTES["lower_clock"].measure(fleet, entry.units) == pytest.approx(0.5)
    assert "clock-below-peers" not in standing(
        watched({"p0": {"sm_clock_busy": 1900.0}, "p1": {"sm_clock_busy": 1980.0}})
    )


def test_a_context_limit_matters_where_the_cache_is_at_work():
    wide = {
        "kv_capacity_tokens": 200_000.0,
        "kv_max_concurrency": 1.5,
        "prompt_len_p99": 4000.0,
        "output_len_p90": 500.0,
    }
    full, empty = wide | {"kv_usage_mean": 0.7}, wide | {"kv_usage_mean": 0.2}
    assert "context-limit-far-over-use" in standing(watched(pods(2, **full)))
    assert "context-limit-far-over-use" not in standing(watched(pods(2, **empty)))
    asked = full | {"max_tokens_p90": 60_000.0}
    assert "context-limit-far-over-use" not in standing(watched(pods(2, **asked)))


def test_each_gpu_is_looked_at_equally_often_in_a_pool_of_any_size(monkeypatch):
    looked = list[str]()
    gpus = View.gpus

    def noted(view, unit, signal):
        looked.append(signal)
        return gpus(view, unit, signal)

    monkeypatch.setattr(View, "gpus", noted)

    def looks(pods):
        looked.clear()
        verdicts(watched({f"p{number}": {"sm_clock_busy": 1980.0} for number in range(pods)}))
        return looked.count("sm_clock_busy")

    assert looks(8) == 4 * looks(2) > 0
