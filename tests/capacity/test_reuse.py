"""Hits of other cache sizes from gaps between uses: against traffic whose curve is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.capacity.reuse import HitCurve, ReuseCounts, exponential_end, hit_curve, unreported_kept

BOUNDS = np.array([1, 2, 5, 10, 20, 30, 60, 120, 300, 600.0])


def independent(rate: float, life: float, alone: float) -> tuple[float, float, float]:
    """A block used `rate` times a second by chance, besides `alone` blocks/s that are used once: (hits/s, blocks in the
    cache, written blocks/s)."""
    hit = 1.0 - np.exp(-rate * life)
    return rate * hit, hit + alone * life, rate * (1.0 - hit) + alone


def counts_of(rates: np.ndarray, life: float, alone: float, seconds: float = 1e6) -> ReuseCounts:
    """What engines would tell that follow every block, of blocks used by chance. A block that was written has
    geometrically many hits."""
    generator = np.random.default_rng(1)
    gaps, lived, lives, hits = [], 0.0, alone * seconds, 0.0
    for rate in rates:
        uses = generator.exponential(1.0 / rate, int(rate * seconds))
        hit = uses < life
        hits += hit.sum()
        runs = np.split(uses, np.flatnonzero(~hit))
        lives += len(runs)
        for run in runs:
            own = run[run < life]
            lived += own.sum()
            gaps.append(own[1:][-3:])
    told = np.concatenate(gaps)
    buckets = np.bincount(np.searchsorted(BOUNDS, told), minlength=len(BOUNDS) + 1)
    looked = float(sum(int(rate * seconds) for rate in rates) + alone * seconds)
    return ReuseCounts(looked, hits, 0.0, lives, lived + lives * life, lives * life, BOUNDS, buckets, told.sum())


@pytest.fixture(scope="module")
def zipf():
    rates = 0.5 / np.arange(1, 31) ** 1.1
    return rates, counts_of(rates, 60.0, 0.4, 4e4)


@pytest.mark.parametrize(("memory", "within"), [(0.35, 0.05), (0.5, 0.03), (0.75, 0.03)])
def test_smaller_caches_hit_as_the_law_of_independent_uses_says(zipf, memory, within):
    rates, counts = zipf
    lives = np.linspace(1.0, 60.0, 2000)
    hits, size, _ = np.sum([independent(rate, lives, 0.4 / len(rates)) for rate in rates], axis=0)
    there = np.interp(memory * size[-1], size, np.arange(len(size)))
    true_hits = np.interp(there, np.arange(len(size)), hits) / (rates.sum() + 0.4)
    low, middle, high = (
        float(hit_curve(counts, placing).with_memory(np.array([memory]))[0][0]) for placing in ("low", "middle", "high")
    )
    assert middle == pytest.approx(true_hits, abs=within)
    assert low <= true_hits <= high
    raw = counts.share * np.interp(lives[int(there)], BOUNDS, np.cumsum(counts.gaps[:-1]) / counts.gaps.sum())
    assert abs(middle - true_hits) < abs(raw - true_hits), "gaps of hot blocks are told less often than they come"


def test_the_size_of_now_has_the_hits_of_now_and_more_never_hits_less(zipf):
    curve = hit_curve(zipf[1])
    sizes = np.geomspace(0.1, 3, 60)
    hits, lives = curve.with_memory(sizes)
    assert np.all(np.diff(hits) >= 0) and np.all(np.diff(lives) > 0)
    assert float(curve.with_memory(np.array([1.0]))[0][0]) == pytest.approx(zipf[1].share, rel=1e-3)


def test_without_a_gain_a_larger_cache_hits_as_now_and_keeps_blocks_longer(zipf):
    hits, lives = hit_curve(zipf[1], steady=0.0).with_memory(np.array([2.0]))
    assert hits[0] == pytest.approx(zipf[1].share) and lives[0] > 2 * zipf[1].life


def test_the_mean_of_the_gaps_that_are_not_told_is_that_of_the_blocks_lives(zipf):
    """Forty hits of one block, of which three are told and the first is like them: the rest took the rest of its
    life."""
    counts = ReuseCounts(140.0, 40.0, 0.0, 100.0, 100 * 50.0 + 90.0, 100 * 50.0, BOUNDS, np.eye(11)[2] * 3, 9.0)
    assert counts.reported == pytest.approx(0.1)
    assert counts.unreported_gap == pytest.approx((90.0 - 12.0) / 36.0)


@pytest.mark.parametrize("mean", [0.5, 7.0, 20.0, 29.0])
def test_a_cut_exponential_has_the_mean_that_is_known_and_lies_within_any_law_of_it(mean):
    lives = np.linspace(0.0, 60.0, 6001)
    low, middle, high = (unreported_kept(lives, mean, 60.0, placing) for placing in ("low", "middle", "high"))
    assert float(((1 - middle[1:] + 1 - middle[:-1]) / 2 * np.diff(lives)).sum()) == pytest.approx(mean, rel=0.01)
    assert np.all(low <= middle + 1e-9) and np.all(middle <= high + 1e-9)


@pytest.mark.parametrize("rate", [0.01, 0.03, 0.2])
def test_an_exponential_is_continued_beyond_the_life_as_it_goes_on(rate):
    life = 80.0
    passed = np.exp(-rate * life * np.array([0.25, 0.5, 1.0]))
    more, read = exponential_end(passed[0] - passed[1], passed[1] - passed[2], life)
    assert read == pytest.approx(rate, rel=1e-6) and more == pytest.approx(passed[2], rel=1e-6)


def test_gaps_that_grow_more_frequent_up_to_the_life_come_to_no_end():
    assert exponential_end(0.1, 0.4, 60.0) == (0.0, 0.0)


@pytest.mark.parametrize(("life", "hits"), [(69.4, 0.5260), (570.5, 0.7175)])
def test_beyond_the_life_of_now_every_doubling_gains_as_the_worked_case_says(life, hits):
    curve = HitCurve(21.62, 0.42, 0.0, lambda lives: np.ones_like(lives), 0.42 * 0.15)
    assert float(curve.at(np.array([life]))[0]) == pytest.approx(hits, rel=1e-3)
