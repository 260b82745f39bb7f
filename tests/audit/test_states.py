"""Standing states on hand-made fleets: what makes each stand, and what keeps it silent."""

from __future__ import annotations

import re

import numpy as np
import pytest

from inferdoc.audit.quantities import best_draft, compute_bound_batch
from inferdoc.audit.waste import WASTES
from inferdoc.capacity.step_time import DRAFT_COST
from inferdoc.config_sections import SloSection
from inferdoc.judging.advice import filled_in
from tests.audit.lab import doubts, standing, verdicts, watched
from tests.judging.frames import catalogue

HOURS = 24
STEPS = HOURS * 40 + 1


def day(low: float, high: float) -> np.ndarray:
    """A day: low at night, high at noon, one number per step of 90 s."""
    return low + (high - low) * (1 - np.cos(np.linspace(0, 2 * np.pi, STEPS))) / 2


def pods(count: int, **signals):
    return {f"p{number}": signals for number in range(count)}


IDLE = {"kv_usage_mean": 0.1, "kv_usage": 0.12, "prefill_tokens_rate": 500.0, "prefill_seconds_per_token": 5e-5}


# ---- an idle pool


def test_a_pool_that_is_idle_at_its_peak_too_stands_and_costs_what_could_go():
    fleet = watched(pods(8, running=day(2, 12), **IDLE), gpus=2)
    entry = next(s for s in verdicts(fleet).standing if s.state.id == "pool-mostly-idle")
    # H100: arithmetic binds from 989e12 / 3350e9 x 0.67 / 0.57 = 347 tokens; half of it is full use: the cache leads.
    assert compute_bound_batch(fleet, entry.units[0]) == pytest.approx(347.0, rel=1e-3)
    # 8 pods x 10 % / 60 % = 1.33, so 2 carry the peak: 6 pods of 2 GPUs could go.
    assert WASTES["surplus_replicas"].measure(fleet, entry.units) == pytest.approx(12.0)


def test_a_night_alone_does_not_report_and_a_busy_day_is_no_idle_pool():
    night = watched(pods(8, running=2.0, **IDLE), hours=4)
    assert "pool-mostly-idle" not in standing(night)
    assert doubts(night)["pool-mostly-idle"] == "short"
    busy_day = watched(pods(8, running=day(2, 12), **(IDLE | {"kv_usage_mean": day(0.05, 0.75)})))
    assert "pool-mostly-idle" not in standing(busy_day)
    assert "pool-mostly-idle" not in doubts(busy_day)


def test_two_replicas_are_one_more_than_needed_and_that_is_meant():
    assert "pool-mostly-idle" not in standing(watched(pods(2, running=day(1, 4), **IDLE)))


def test_a_pool_without_any_request_is_idle():
    silent = dict.fromkeys(("running", "request_rate", "generation_tokens_rate", "prompt_tokens_rate"), 0.0)
    fleet = watched(pods(4, **silent, **(IDLE | {"kv_usage_mean": 0.0, "prefill_tokens_rate": 0.0})))
    assert standing(fleet) == ["pool-mostly-idle"]


def test_a_benchmark_beats_the_estimate():
    busy = watched(pods(8, running=day(2, 12), fleet_utilisation=day(0.3, 0.95), **IDLE))
    assert standing(busy) == ["pool-without-headroom"]


# ---- what is promised


def test_an_objective_that_is_missed_all_day_is_an_issue():
    slow = pods(2, ttft_p99=3.0)
    assert standing(watched(slow, slo=[SloSection({"ttft_p99": 2.0})])) == ["objective-missed"]
    assert standing(watched(slow, slo=[SloSection({"ttft_p99": 4.0})])) == []
    assert standing(watched(slow, slo=[SloSection({"ttft_p99": 2.0}, tier="a100-80")])) == []
    assert "objective-missed" not in {**dict.fromkeys(standing(watched(slow))), **doubts(watched(slow))}
    assert "objective-missed" in doubts(watched(pods(2), slo=[SloSection({"ttft_p99": 2.0})]))


# ---- holding over the window


def test_what_comes_and_goes_does_not_stand():
    half = np.where(np.arange(STEPS) % 200 < 100, 0.3, 0.0)
    mostly = np.where(np.arange(STEPS) % 200 < 20, 0.0, 0.3)
    assert "preempts-always" not in standing(watched(pods(2, preempt_fraction=half)))
    assert "preempts-always" in standing(watched(pods(2, preempt_fraction=mostly)))


def test_the_quiet_part_of_a_day_does_not_speak_for_the_busy_one():
    """Drafts that lose only while nearly nothing runs: at night, below a fifth of the peak."""
    running = day(0.5, 40)
    asleep = running < 0.2 * np.quantile(running, 0.95)
    signals = {"spec_draft_length": 5.0, "spec_acceptance_length": np.where(asleep, 1.0, 4.0)}
    assert "speculation-below-break-even" not in standing(watched(pods(2, running=running, **signals)))


def test_a_pod_with_hardly_any_request_is_not_evaluated():
    fleet = watched(pods(2, preempt_fraction=0.3, request_rate=1e-5))
    assert "preempts-always" not in standing(fleet)
    assert doubts(fleet)["preempts-always"] == "quiet"


def test_one_pod_of_a_pool_is_named_alone():
    fleet = watched({"p0": {"preempt_fraction": 0.3}, "p1": {"preempt_fraction": 0.0}})
    entry = next(s for s in verdicts(fleet).standing if s.state.id == "preempts-always")
    assert [unit.name for unit in entry.units] == ["p0"]


# ---- speculation


@pytest.mark.parametrize(
    ("accepted_length", "draft", "running", "stands"),
    [
        (1.2, 5, 8.0, True),  # 1.2 tokens in the time of 1.25 steps
        (1.4, 5, 8.0, False),
        (3.5, 5, 8.0, False),
        (3.0, 5, 300.0, True),  # past 347 tokens in a step the drafts displace streams: a step takes 5.2 times as long
    ],
)
def test_drafts_break_even_by_the_time_they_take(accepted_length, draft, running, stands):
    signals = {"spec_acceptance_length": accepted_length, "spec_draft_length": float(draft), "running": running}
    assert ("speculation-below-break-even" in standing(watched(pods(2, **signals)))) == stands


def test_the_best_draft_length():
    """One drafted token in ten accepted pays for one draft of a cheap head at most; nine in ten for all of five."""
    assert DRAFT_COST == 0.05
    assert best_draft(1 + 0.04 + 0.04**2, 5) == 0
    assert best_draft(1 + 0.1 + 0.01 + 0.001, 3) == 1
    assert best_draft(sum(0.9**k for k in range(6)), 5) == 5


def test_rejected_drafts_are_not_named_beside_drafts_that_lose():
    losing = {"spec_acceptance_length": 1.1, "spec_draft_length": 5.0, "spec_acceptance_rate": 0.02}
    gaining = {"spec_acceptance_length": 2.0, "spec_draft_length": 5.0, "spec_acceptance_rate": 0.2}
    assert standing(watched(pods(2, **losing))) == ["speculation-below-break-even"]
    assert standing(watched(pods(2, **gaining))) == ["drafts-mostly-rejected"]


# ---- prefix cache


CHANCE = {"prompt_len_mean": 3000.0, "prompt_len_p10": 2500.0, "computed_tokens_p10": 200.0}


def hits(*ratios, **signals):
    return {f"p{n}": {"prefix_hit_ratio": ratio, **CHANCE, **signals} for n, ratio in enumerate(ratios)}


def test_hits_at_one_in_n_equal_on_all_pods_are_chance():
    assert standing(watched(hits(0.24, 0.26, 0.25, 0.27))) == ["prefix-hits-at-chance"]


@pytest.mark.parametrize(
    ("fleet", "why"),
    [
        (hits(0.85, 0.86, 0.84, 0.88), "hits are good"),
        (hits(0.05, 0.6, 0.1, 0.25), "the pods differ: somebody routes"),
        (hits(0.01, 0.01, 0.01, 0.01), "nobody shares a prompt"),
        (hits(0.5, 0.5), "two pods"),
        (hits(0.24, 0.26, 0.25, 0.27, computed_tokens_p10=1900.0), "all prompts share one head"),
        (hits(0.24, 0.26, 0.25, 0.27, prompt_len_mean=200.0), "prompts are short"),
    ],
)
def test_hits_that_are_no_chance(fleet, why):
    assert "prefix-hits-at-chance" not in standing(watched(fleet)), why


def test_without_histograms_of_computed_tokens_the_doubt_prints_so():
    fleet = {f"p{n}": {"prefix_hit_ratio": 0.25, "prompt_len_mean": 3000.0} for n in range(4)}
    assert doubts(watched(fleet))["prefix-hits-at-chance"] == "computed_tokens_p10, prompt_len_p10"


def test_what_routing_by_prefix_would_save():
    """Four pods, a quarter hits: routed well all would, at most 80 %: 0.55 x 2000 prompt tokens/s. A step lasts 20
    running / 400 tokens/s = 50 ms, one with a prompt of 750 tokens at 0.1 ms 75 ms: (75 - 50) / (1 - 2 x 0.05) = 27.8
    ms for 750 tokens, 37 us each."""
    signals = {"prefill_tokens_rate": 1500.0, "prefill_seconds_per_token": 1e-4}
    fleet = watched(hits(0.25, 0.25, 0.25, 0.25, **signals), gpus=2)
    entry = next(s for s in verdicts(fleet).standing if s.state.id == "prefix-hits-at-chance")
    assert WASTES["misses_by_chance"].measure(fleet, entry.units) == pytest.approx(4 * 2 * 1100 * 25e-3 / 0.9 / 750)


# ---- settings and hardware


def test_an_fp8_cache_stands_only_where_the_hardware_has_no_fp8():
    fp8 = {"cache_dtype": "fp8_e4m3"}
    assert standing(watched(pods(2), tier="a100-80", settings=fp8)) == ["fp8-cache-without-fp8"]
    assert standing(watched(pods(2), tier="h100-80", settings=fp8)) == []
    assert standing(watched(pods(2), tier="a100-80", settings={"cache_dtype": "auto"})) == []


def test_of_unknown_hardware_nothing_is_claimed():
    fleet = watched(pods(2), tier="unknown", settings={"cache_dtype": "fp8"})
    assert standing(fleet) == []
    assert doubts(fleet)["fp8-cache-without-fp8"] == "tier"


def test_four_gpus_over_pcie():
    assert "tensor-parallel-without-nvlink" in standing(watched(pods(2), tier="l40s", gpus=4))
    assert "tensor-parallel-without-nvlink" not in standing(watched(pods(2), tier="l40s", gpus=2))
    assert "tensor-parallel-without-nvlink" not in standing(watched(pods(2), tier="h100-80", gpus=8))


def test_kept_back_memory_counts_only_where_the_cache_is_short():
    low = {"gpu_memory_utilization": "0.7"}
    assert standing(watched(pods(2, preempt_fraction=0.3), settings=low)) == ["memory-fraction-low", "preempts-always"]
    roomy = pods(2, preempt_fraction=0.0, kv_usage_mean=0.4)
    assert standing(watched(roomy, settings=low)) == []


# ---- batch and memory


def test_a_batch_at_its_cap_with_room_for_more():
    capped = {
        "running": 8.0,
        "waiting": 12.0,
        "kv_usage_mean": 0.05,
        "prefill_tokens_rate": 500.0,
        "prefill_seconds_per_token": 5e-5,
    }
    fleet = watched(pods(2, **capped))
    entry = next(s for s in verdicts(fleet).standing if s.state.id == "batch-cap-below-hardware")
    # 12 more would fit beside 8: 12 of 20 of what the pod could do is left undone, on each of two GPUs.
    assert WASTES["queue_for_nothing"].measure(fleet, entry.units) == pytest.approx(2 * 12 / 20)
    for other in ({"kv_usage_mean": 0.8}, {"waiting": 0.0}, {"running": 8 + 6 * np.sin(np.arange(STEPS))}):
        assert "batch-cap-below-hardware" not in standing(watched(pods(2, **(capped | other))))


def test_unused_memory_is_reported_early_only_of_a_busy_pool():
    busy = {"kv_usage": 0.15, "kv_usage_mean": 0.1, "prefix_hit_ratio": 0.0, "prefill_seconds_per_token": 1e-3}
    full = pods(2, prefill_tokens_rate=800.0, **busy)
    lazy = pods(2, prefill_tokens_rate=100.0, **busy)
    assert "kv-memory-unused" in standing(watched(full, hours=2))
    assert "kv-memory-unused" not in standing(watched(lazy, hours=2))
    assert doubts(watched(lazy, hours=2))["kv-memory-unused"] == "short"
    cached = {name: signals | {"prefix_hit_ratio": 0.5} for name, signals in full.items()}
    assert "kv-memory-unused" not in standing(watched(cached, hours=2)), "free blocks serve as a prefix cache"


# ---- features that are not in use


def test_features_that_nobody_uses_are_neither_states_nor_doubts():
    printed = verdicts(watched(pods(2)))
    for name in ("speculation-below-break-even", "adapter-slots-short", "experts-unbalanced"):
        assert name in printed.inapplicable
        assert name not in {doubt.state.id for doubt in printed.doubts}


# ---- clocks that are held down


def test_clocks_are_throttled_by_reasons_and_not_by_a_mean_of_their_bits():
    """Half of the time heat (32 and 64), else idle (1): the mean of the masks, 48.5, names nothing."""
    masks = np.where(np.arange(STEPS) % 2, 96.0, 1.0)
    (entry,) = (
        s for s in verdicts(watched(pods(2, throttle_reasons=masks))).standing if s.state.id == "clocks-held-down"
    )
    (reading,) = entry.readings
    assert reading.value == 96.0
    assert "software thermal slowdown, hardware thermal slowdown" in reading.text and "bits" not in reading.text


# ---- numbers in steps


def test_a_step_leaves_out_a_number_that_nothing_shows():
    """So that no step of a state is lost, and none prints the name of a quantity in its place."""
    for state in catalogue().standing.states.values():
        for step in state.next_steps:
            for text in (step.do, step.why, step.cost, step.undo):
                without = filled_in(text, lambda name: None)
                assert without and not re.search(r"[{}|]", without), (state.id, text)
                known = filled_in(text, lambda name: "7")
                assert known and not re.search(r"[{}|]", known), (state.id, text)
