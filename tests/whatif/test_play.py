"""One play: it begins warm, and counts no more than its own time."""

from __future__ import annotations

import pytest

from inferdoc.whatif.live import TTFT
from inferdoc.whatif.run_simulation import TimesCounted, played


def test_a_play_begins_with_streams_at_work_and_a_warm_cache(calibrated_pool):
    play = played(calibrated_pool.setting.scenario(1))
    observed = calibrated_pool.observed
    assert play.minutes["running"][0] > 1
    first = play.minutes["ttft_count"][:3].sum() / observed.counters[f"{TTFT}_count"][:, :3].sum()
    assert first == pytest.approx(1.0, abs=0.25)
    assert play.hits / play.looked == pytest.approx(
        observed.total("vllm:prefix_cache_hits_total") / observed.total("vllm:prefix_cache_queries_total"), rel=0.1
    )


def test_what_comes_before_the_begin_is_not_counted(calibrated_pool):
    scenario = calibrated_pool.setting.scenario(1)
    whole, later = played(scenario), played(scenario, begin=240.0)
    assert later.seconds == whole.seconds - 240.0
    assert later.served + whole.minutes["ttft_count"][:4].sum() == pytest.approx(whole.served, rel=0.05)


def test_a_quantile_is_even_within_its_bucket():
    counted = TimesCounted([0.1, 0.2, 0.4], [10.0, 10.0, 20.0, 0.0])
    assert counted.quantile(0.5) == pytest.approx(0.2)
    assert counted.quantile(0.75) == pytest.approx(0.3)
    assert counted.within(0.3) == pytest.approx(0.75)
    assert counted.within(0.05) == pytest.approx(0.125)
