"""Many rows at once give what one series at a time gives."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.clock import Clock, Rule
from inferdoc.judging.deviation import against_rows, find_rows, shifts, without_past
from inferdoc.judging.spans import NONE, holding
from tests.judging import plain_deviation as plain

STEPS, ROWS = 240, 120
CLOCKS = (Clock(15.0, 15.0, 5), Clock(5.0, 10.0, 12), Clock(15.0, 15.0, 5, begin=90), Clock(15.0, 15.0, 5, lead=40))
RULES = (
    Rule(1.5),
    Rule(0.7),
    Rule(1.2, by=0.5),
    Rule(2.0, share=0.3),
    Rule(0.8, share=0.9),
    Rule(1.5, hold_seconds=300),
)


def fleet(seed: int) -> np.ndarray:
    """Series that rest, step, spike, warm up, recover, grow, swing, have gaps, begin late, or are all of it."""
    rng = np.random.default_rng(seed)
    rows = rng.lognormal(1.0, rng.choice([0.02, 0.1, 0.5], (ROWS, 1)), (ROWS, STEPS))
    for row in rows:
        for _ in range(rng.integers(0, 4)):
            first = int(rng.integers(0, STEPS - 5))
            row[first : first + int(rng.integers(1, 150))] *= rng.choice([0.0, 0.3, 0.6, 1.3, 2.0, 5.0])
    rows[rng.random(rows.shape) < rng.choice([0.0, 0.05, 0.4], (ROWS, 1))] = np.nan
    rows[::17, : STEPS // 2] = np.nan
    rows[5] = np.nan
    rows[7] = 1.0
    return np.round(rows, 1)


def counts_of(seed: int) -> np.ndarray:
    counts = np.random.default_rng(seed + 1).integers(0, 12, (ROWS, STEPS)).astype(float)
    counts[::4] = np.nan
    return counts


def one(counts: np.ndarray) -> np.ndarray | None:
    return None if np.isnan(counts).all() else counts


@pytest.mark.parametrize("clock", CLOCKS, ids=str)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rows_are_searched_as_series_are(clock: Clock, rule: Rule):
    values, counts = fleet(3), counts_of(3)
    found = find_rows(values, rule, clock, counts)
    plainly = [plain.find(row, rule, clock, one(some)) for row, some in zip(values, counts, strict=True)]
    assert sum(p is not None for p in plainly) >= 2, "some of them move"
    for row, expected in enumerate(plainly):
        same(found[row], expected)


@pytest.mark.parametrize("clock", CLOCKS, ids=str)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_each_row_has_a_split_of_its_own(clock: Clock, rule: Rule):
    values, counts = fleet(4), counts_of(4)
    splits = np.random.default_rng(0).integers(0, STEPS, ROWS)
    found = against_rows(values, splits, rule, clock, counts)
    for row, split in enumerate(splits.tolist()):
        same(found[row], plain.against(values[row], split, rule, clock, one(counts[row])))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_limits_are_held_as_in_one_series(rule: Rule):
    values = fleet(5)
    finite = np.isfinite(values)
    mask = finite & (np.nan_to_num(values) > 3.5)
    starts, lasts = holding(mask, finite, rule, CLOCKS[0])
    for row, (first, last) in enumerate(zip(starts.tolist(), lasts.tolist(), strict=True)):
        expected = plain.held(mask[row], finite[row], rule, CLOCKS[0])
        assert (None if first == NONE else (first, last)) == expected


@pytest.mark.parametrize("clock", CLOCKS, ids=str)
def test_means_are_compared_as_in_one_series(clock: Clock):
    values, rng = fleet(6), np.random.default_rng(2)
    splits = rng.integers(0, STEPS - 1, ROWS)
    lasts = np.minimum(STEPS - 1, splits + rng.integers(0, 150, ROWS))
    for row, moved in enumerate(shifts(values, splits, lasts, clock)):
        expected = plain.shift(values[row], int(splits[row]), int(lasts[row]), clock)
        assert (moved is None) == (expected is None)
        if moved is not None and expected is not None:
            assert moved.before == pytest.approx(expected.before) and moved.after == pytest.approx(expected.after)
            assert moved.errors == pytest.approx(expected.errors, abs=1e-6) or np.isinf(expected.errors)
            assert moved.freedom == pytest.approx(expected.freedom, rel=1e-6) or np.isinf(expected.errors)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_past_incidents_go_as_in_one_series(rule: Rule):
    values, clock = fleet(8), CLOCKS[2]
    kept = without_past(values, rule, clock)
    assert np.isnan(kept).sum() > np.isnan(values).sum() or not rule.up, "some row has a past incident"
    for row in range(ROWS):
        np.testing.assert_array_equal(kept[row], plain.without_past(values[row], rule, clock))


def same(quick, slow) -> None:
    assert (quick is None) == (slow is None)
    if quick is not None:
        assert (quick.start, quick.last) == (slow.start, slow.last)
        assert (quick.baseline, quick.band, quick.observed) == pytest.approx((slow.baseline, slow.band, slow.observed))
