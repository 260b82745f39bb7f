"""Lengths, prefixes and arrivals behind what a pool counts, against those that were drawn."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.simulate.stats import length_bounds
from inferdoc.whatif.live import STEP, TTFT, Spread
from inferdoc.whatif.steps import prefixes_of, quantiles_behind, rates_of, traffic_of


def spread_of(lengths):
    bounds = np.array(length_bounds(32768), dtype=float)
    cells = np.bincount(np.searchsorted(bounds, lengths), minlength=len(bounds) + 1).astype(float)
    return Spread(bounds, cells[:, None])


@pytest.mark.parametrize(("median", "sigma"), [(700, 0.3), (700, 0.8), (90, 0.6)])
def test_coarse_buckets_give_back_the_lengths_that_were_drawn(median, sigma):
    lengths = median * np.exp(sigma * np.random.default_rng(1).standard_normal(20_000))
    found = np.array(quantiles_behind(spread_of(lengths), float(lengths.mean())))
    for share in (0.1, 0.5, 0.9, 0.99):
        assert found[round(share * 200)] == pytest.approx(np.quantile(lengths, share), rel=0.06), share


def test_two_kinds_of_prompts_stay_two():
    rng = np.random.default_rng(2)
    lengths = np.concatenate([rng.normal(150, 15, 6000), rng.normal(6000, 400, 4000)])
    found = np.array(quantiles_behind(spread_of(lengths), float(lengths.mean())))
    assert found[round(0.3 * 200)] == pytest.approx(150, rel=0.25)
    assert found[round(0.8 * 200)] == pytest.approx(6000, rel=0.25)


def test_prompts_of_one_length_do():
    found = quantiles_behind(spread_of(np.full(500, 640.0)), 640.0)
    assert min(found) < 640 < max(found)
    assert np.mean(found) == pytest.approx(640, rel=0.02)


def test_the_shared_beginnings_of_a_fleet_are_told_by_its_histograms(pool):
    found = prefixes_of(pool, 28_000)
    assert found.tokens == pytest.approx(640, rel=0.15)
    assert found.share == pytest.approx(0.7, rel=0.15)


def test_traffic_has_the_rate_and_the_lengths_that_the_pool_had(pool):
    traffic = traffic_of(pool, 28_000)
    assert np.mean(traffic.rates) == pytest.approx(pool.total(f"{TTFT}_count") / pool.seconds, rel=0.03)
    whole = traffic.prompt.mean() + traffic.prefixes.tokens * traffic.prefixes.share
    assert whole == pytest.approx(pool.mean("vllm:request_prompt_tokens"), rel=0.01)


def test_a_burst_stays_in_the_rate_and_chance_does_not(pool):
    rng = np.random.default_rng(3)
    even = rng.poisson(240, pool.intervals).astype(float)
    heaps = even.copy()
    heaps[5] = 1200.0
    for came, least, most in ((even, 0.0, 0.06), (heaps, 2.0, 4.5)):
        half = np.vstack([came / 2, came / 2])
        pool.counters[f"{TTFT}_count"], before = half, pool.counters[f"{TTFT}_count"]
        waiting = pool.gauges["waiting"]
        pool.gauges["waiting"] = np.zeros_like(waiting)
        rates = rates_of(pool) * STEP / 240
        pool.counters[f"{TTFT}_count"], pool.gauges["waiting"] = before, waiting
        assert least <= rates.max() - 1.0 <= most


@pytest.mark.parametrize("minutes", [1, 2, 4, 5, 6])
def test_the_halves_of_a_short_history_have_a_rate_for_each_minute(pool, minutes):
    short = pool.part(0, minutes)
    rates = rates_of(short)
    assert len(rates) == minutes
    assert rates.sum() * STEP == pytest.approx(short.arrivals.sum(), rel=0.1)
