"""Medians and percentiles are those of numpy, to the last bit."""

import numpy as np
import pytest

from inferdoc.judging.clock import Clock, Rule
from inferdoc.judging.deviation import find, resting
from inferdoc.judging.order import median, medians_of_others, middles, percentiles, row_percentile, rows_of

RNG = np.random.default_rng(3)
SERIES = [RNG.lognormal(0, 2, n) for n in (1, 2, 3, 4, 5, 17, 64, 239, 240)] + [
    np.array([2.0, 2.0, 2.0]),
    -RNG.random(31),
]


@pytest.mark.parametrize("values", SERIES, ids=lambda v: f"{len(v)}")
def test_one_series(values):
    assert median(values) == np.median(values)
    shares = (0.05, 0.25, 0.5, 0.75, 0.95)
    assert percentiles(np.sort(values), shares) == [float(x) for x in np.percentile(values, [100 * s for s in shares])]


def test_rows_with_gaps():
    rows = RNG.lognormal(0, 1, (40, 60))
    rows[RNG.random(rows.shape) < 0.3] = np.nan
    rows[7] = np.nan
    counts = np.isfinite(rows).sum(axis=1)
    found = row_percentile(np.sort(rows, axis=1), counts, 0.05)
    assert np.isnan(found[7])
    for i, row in enumerate(rows):
        if counts[i]:
            assert found[i] == np.percentile(row[np.isfinite(row)], 5)


def test_middles_of_rows():
    rows = RNG.lognormal(0, 3, (60, 41))
    mask = RNG.random(rows.shape) < RNG.random((60, 1))
    mask[5], mask[6] = False, True
    for row, kept, found in zip(rows, mask, middles(rows, mask), strict=True):
        assert found == np.median(row[kept]) if kept.any() else np.isnan(found)
    assert np.isnan(middles(np.empty((3, 0)), np.empty((3, 0), bool))).all() and not len(middles(rows[:0], mask[:0]))


def test_rows_are_put_together_as_they_are():
    rows = [np.arange(4.0), np.full(4, np.nan), -np.arange(8.0)[::2]]
    np.testing.assert_array_equal(rows_of(rows), np.vstack(rows))


@pytest.mark.parametrize("pods", [2, 3, 4, 7, 20, 601])
def test_the_median_of_the_others(pods):
    rows = np.round(RNG.lognormal(0, 1, (pods, 50)), 1)
    rows[RNG.random(rows.shape) < 0.2] = np.nan
    rows[:, 3] = np.nan
    found = medians_of_others(rows)
    for i in range(pods if pods < 100 else 5):
        others = np.delete(rows, i, axis=0)
        seen = np.isfinite(others).any(axis=0)
        assert np.isnan(found[i][~seen]).all()
        assert (found[i][seen] == np.nanmedian(others[:, seen], axis=0)).all()


def test_what_rests_has_no_deviation_and_what_moves_does_not_rest():
    clock = Clock(15.0, 15.0, 5)
    rows = 1 + 0.02 * RNG.standard_normal((30, 240))
    rows[::3, 150:] *= 2
    rows[1, 30:] = np.nan
    rows[2, 2:] = np.nan
    for rule in (Rule(1.5), Rule(0.7), Rule(1.1, by=0.5)):
        still = resting(rows, rule, clock)
        for row, rests in zip(rows, still.tolist(), strict=True):
            assert not rests or find(row, rule, clock) is None
    assert not resting(rows, Rule(1.5), clock)[::3].any()
    assert resting(rows, Rule(1.5), clock)[4:].sum() >= 15
