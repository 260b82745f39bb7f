"""The same fleet under other ways of scraping, and that it stays quiet."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import rescraped
from tests.benchmarks.test_perturb import INTERVAL, PODS, START, page

MIDDLE_MS = (START + 6 * INTERVAL) * 1000


def times_of(samples, name="up", pod=PODS[0]) -> list[int]:
    """Seconds since the start at which a pod has a series of this name."""
    wanted = [each.name == name and ("pod", pod) in each.labels for each in samples.series]
    there = np.array(wanted)[samples.series_index]
    return sorted((samples.timestamps_ms[there] // 1000 - START).tolist())


def test_the_interval_changes_at_its_moment():
    changed = rescraped.interval_changed(page(), MIDDLE_MS, 1, 3)
    assert times_of(changed) == [0, 10, 20, 30, 40, 50, 60, 90]
    assert times_of(rescraped.interval_changed(page(), MIDDLE_MS, 2, 1)) == [0, 20, 40, 60, 70, 80, 90, 100, 110]


def test_a_round_is_lost_for_all_targets():
    lost = rescraped.rounds_lost(page(), 0.4, INTERVAL * 1000, np.random.default_rng(1))
    assert times_of(lost) == times_of(lost, pod=PODS[1])
    assert 0 < len(times_of(lost)) < 12


def test_a_pair_holds_every_series_twice():
    pair = rescraped.paired(page())
    ups = [each for each in pair.series if each.name == "up" and ("pod", PODS[0]) in each.labels]
    assert len(ups) == 2 and {dict(each.labels)[rescraped.REPLICA] for each in ups} == {"a", "b"}
    assert len(pair) == len(page()) and times_of(pair) == times_of(page())


@pytest.mark.parametrize(("bound", "spelt"), [("1.0", "1"), ("1", "1.0"), ("0.25", "0.25"), ("+Inf", "+Inf")])
def test_a_bound_is_spelt_otherwise(bound, spelt):
    assert rescraped.respelt([bound]) == {bound: spelt}
    assert float(spelt) == float(bound)


def test_every_other_bound_goes_and_the_last_stays():
    assert rescraped.coarser(["0.1", "10", "2", "+Inf", "0.5"]) == {"0.5": None, "10": None}
