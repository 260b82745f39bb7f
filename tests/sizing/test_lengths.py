"""Lengths behind quantiles that wide buckets show."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.sizing.live import variation_behind

BOUNDS = np.array([digit * 10.0**power for power in range(6) for digit in (1, 2, 5)])


def shown_p90(lengths: np.ndarray) -> float:
    """As a server works it out from cumulative buckets."""
    counts = np.array([(lengths <= bound).mean() for bound in BOUNDS])
    place = int(np.argmax(counts >= 0.9))
    lower, least = (BOUNDS[place - 1], counts[place - 1]) if place else (0.0, 0.0)
    return float(lower + (BOUNDS[place] - lower) * (0.9 - least) / (counts[place] - least))


@pytest.mark.parametrize(("median", "sigma"), [(600, 0.6), (3000, 0.4), (250, 0.5), (40, 0.9)])
def test_the_spread_of_lengths_is_told_through_the_buckets(median, sigma):
    lengths = median * np.exp(sigma * np.random.default_rng(7).standard_normal(200_000))
    true = lengths.std() / lengths.mean()
    assert variation_behind(float(lengths.mean()), shown_p90(lengths)) == pytest.approx(true, rel=0.05)


def test_a_tail_that_no_lognormal_has_is_taken_as_the_longest():
    assert variation_behind(100.0, 90_000.0) == pytest.approx(np.sqrt(np.exp(1.282**2) - 1.0), rel=1e-6)
