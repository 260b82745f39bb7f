"""Machines by parts, measured rates and measured lengths: what a calibrated pool is played with."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from inferdoc.simulate.hardware import PartsTime
from inferdoc.simulate.scenario import Length, StepParts, Stream
from inferdoc.simulate.workload import Traffic, scaled

DENSE = StepParts(weights=0.02, kv_token=1e-6, token=1e-4, token_distance=1e-8, fixed=0.002)


@pytest.mark.parametrize(
    ("parts", "step", "seconds"),
    [
        (DENSE, (10, 5000.0, 0, 0.0, 10), 0.020 + 0.005 + 0.002),
        (DENSE, (0, 0.0, 1000, 500.0, 1), 0.1 + 0.005 + 0.002),
        (replace(DENSE, routed=0.9, chosen=0.5), (1, 0.0, 0, 0.0, 1), 0.002 + 0.009 + 0.002),
        (replace(DENSE, routed=0.9, chosen=0.5, routed_token=0.5), (0, 0.0, 1000, 0.0, 1), 0.05 + 0.05 + 0.002),
    ],
    ids=["memory binds", "arithmetic binds", "few experts are read", "experts follow the rest"],
)
def test_a_step_is_the_longer_of_arithmetic_and_memory(parts, step, seconds):
    assert PartsTime(parts).step(*step).seconds == pytest.approx(seconds)


def test_drafts_lengthen_steps_that_decode_alone():
    parts = replace(DENSE, draft=0.05)
    plain, drafting = PartsTime(parts), PartsTime(parts, draft=4)
    assert drafting.step(10, 5000.0, 0, 0.0, 10).seconds == pytest.approx(0.025 * 1.2 + 0.002)
    assert drafting.step(0, 0.0, 1000, 0.0, 1).seconds == plain.step(0, 0.0, 1000, 0.0, 1).seconds


def test_measured_rates_follow_one_another():
    spec = Stream(Length(10), Length(10), rate=2.0, pattern="measured", rates=(1.0, 3.0), burst_every=60.0)
    spec = replace(spec, start=-120.0)
    traffic = Traffic(0, spec, np.random.default_rng(1))
    assert [traffic.rate(now) for now in (-121.0, -100.0, 0.0, 59.9, 60.0, 119.9, 500.0)] == [0, 2, 2, 2, 6, 6, 6]


def test_lengths_are_drawn_between_their_quantiles():
    spec = Stream(Length(0, quantiles=(100.0, 200.0, 1000.0)), Length(10))
    traffic = Traffic(0, spec, np.random.default_rng(1))
    drawn = np.array([traffic.draft(number).prompt for number in range(4000)])
    assert (drawn.min() >= 100, drawn.max() <= 1000) == (True, True)
    assert np.mean(drawn <= 200) == pytest.approx(0.5, abs=0.03)
    assert drawn.mean() == pytest.approx(spec.prompt.mean(), rel=0.03)
    assert scaled(spec.prompt, 2.0).quantiles == (200.0, 400.0, 2000.0)
