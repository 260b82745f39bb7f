"""A calibration sees nothing but pages; the machine behind them is known here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import InferdocError
from inferdoc.simulate.hardware import PartsTime
from inferdoc.simulate.pod import step_time
from inferdoc.whatif.calibrate import calibrated
from inferdoc.whatif.changes import changed_pool
from inferdoc.whatif.predict import plays_now, predicted
from inferdoc.whatif.steps import pods_played
from tests.whatif.lab import LIMITS, SEATS, SPEC


@pytest.mark.parametrize(
    "step", [(4, 4000.0, 0, 0.0, 4), (12, 12000.0, 0, 0.0, 12), (8, 8000.0, 700, 350.0, 9), (6, 6000.0, 2500, 900.0, 7)]
)
def test_steps_last_as_long_as_those_of_the_real_machine(calibrated_pool, step):
    real, fitted = step_time(SPEC), PartsTime(calibrated_pool.setting.parts)
    assert fitted.step(*step).seconds == pytest.approx(real.step(*step).seconds, rel=0.1)


def test_seats_are_told_by_requests_that_wait_beside_an_empty_cache(calibrated_pool):
    assert calibrated_pool.setting.max_num_seqs == SEATS
    assert "max-num-seqs" not in calibrated_pool.setting.assumed


def test_the_held_half_is_predicted(calibrated_pool):
    held = {each.name: each for each in calibrated_pool.holdout}
    for name, off in (("itl_p50", 0.1), ("served", 0.06), ("goodput", 0.2)):
        assert abs(held[name].off) < off, held[name]


def test_a_tier_scales_each_part_by_its_own_figure(calibrated_pool):
    catalogue = load_catalogue()
    change = changed_pool(calibrated_pool, {"tier": "h100-80"}, catalogue)
    old, new = catalogue.tiers.tiers["l4"], catalogue.tiers.tiers["h100-80"]
    now, then = calibrated_pool.setting, change.setting
    assert then.parts.weights / now.parts.weights == pytest.approx(old.memory_gbps.value / new.memory_gbps.value)
    assert then.parts.token / now.parts.token == pytest.approx(old.bf16_tflops.value / new.bf16_tflops.value)
    assert then.parts.fixed == now.parts.fixed
    assert then.kv_tokens > now.kv_tokens
    assert any("h100-80" in each for each in change.guesses)


def test_a_narrower_cache_holds_twice_as_much_and_is_read_in_half_the_time(calibrated_pool):
    change = changed_pool(calibrated_pool, {"kv-dtype": "fp8"}, load_catalogue())
    assert change.setting.kv_tokens == 2 * calibrated_pool.setting.kv_tokens
    assert change.setting.parts.kv_token == pytest.approx(calibrated_pool.setting.parts.kv_token / 2)
    same = changed_pool(calibrated_pool, {"kv-dtype": "bf16"}, load_catalogue())
    assert same.setting == calibrated_pool.setting
    assert not same.guesses


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"tier": "h1000"}, 'no tier "h1000"'),
        ({"draft-tokens": 3}, "--set accepted=0.8,0.6,0.42"),
        ({"accepted": (0.8,)}, "needs --set draft-tokens"),
        ({"batch-tokens": 64, "max-num-seqs": 128}, "vLLM does not start so"),
        ({"tier": "t4"}, "no room"),
    ],
)
def test_what_cannot_be_is_one_line(calibrated_pool, wanted, words):
    with pytest.raises(InferdocError, match=r"--set") as refused:
        changed_pool(calibrated_pool, wanted, load_catalogue())
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_seats_decide_what_is_good_and_far_more_traffic_is_a_guess(calibrated_pool):
    before = plays_now(calibrated_pool)
    catalogue = load_catalogue()
    more = predicted(calibrated_pool, changed_pool(calibrated_pool, {"max-num-seqs": 64}, catalogue), before)
    fewer = predicted(calibrated_pool, changed_pool(calibrated_pool, {"max-num-seqs": 6}, catalogue), before)
    assert (more.row("ttft_p99").move, fewer.row("ttft_p99").move) == ("better", "worse")
    assert fewer.row("goodput").move == "worse"
    crowded = predicted(
        calibrated_pool, changed_pool(calibrated_pool, {"max-num-seqs": 64, "traffic": 2.0}, catalogue), before
    )
    for row in (*more.rows, *fewer.rows):
        assert row.then.low <= row.then.value <= row.then.high
    assert any("never above" in each for each in crowded.guesses)
    assert not fewer.guesses


@pytest.mark.parametrize(
    ("unlike", "words"),
    [
        (lambda pool: {"engines": 4}, "4 engines a pod"),
        (lambda pool: {"pool": replace(pool.pool, role="decode")}, "a decode pool"),
        (
            lambda pool: {"gauges": {**pool.gauges, "kv_capacity_tokens": pool.gauges["waiting"] * np.nan}},
            "kv-tokens=N",
        ),
    ],
)
def test_a_pool_that_cannot_be_played_is_one_line(pool, unlike, words):
    with pytest.raises(InferdocError) as refused:
        calibrated(replace(pool, **unlike(pool)), load_catalogue(), {}, LIMITS)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("role", "replicas", "requests", "played"),
    [
        ("both", 2, 12_000, 1),
        ("both", 8, 12_000, 2),
        ("prefill", 2, 12_000, 2),
        ("prefill", 8, 12_000, 4),
        ("prefill", 1, 12_000, 1),
        ("decode", 3, 1_000, 3),
    ],
)
def test_prefill_pods_that_share_a_queue_are_fitted_together(calibrated_pool, role, replicas, requests, played):
    setting = replace(calibrated_pool.setting, role=role, replicas=replicas)
    assert pods_played(setting, requests) == played
