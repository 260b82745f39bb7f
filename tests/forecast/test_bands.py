"""Bands follow their own misses: the level asked of the residuals moves with what the days before it missed."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.forecast.bands import GAIN, Residuals, outward

WIDTH = 288
LEVELS = (0.05, 0.5, 0.9, 0.95)


def days(*scales: float, seed: int = 1) -> Residuals:
    """Errors of a day for each scale, the newest first."""
    rng = np.random.default_rng(seed)
    return Residuals(np.stack([rng.normal(0, scale, WIDTH) for scale in scales])[:, None], 5.0)


def test_days_alike_leave_the_levels_near_where_they_begin() -> None:
    asked = days(*[1.0] * 10).adjusted_levels(LEVELS)
    assert asked == pytest.approx([outward(level) for level in LEVELS], abs=0.02)


def test_days_that_miss_widen_the_band_and_days_that_never_do_narrow_it() -> None:
    calm = days(*[1.0] * 10).adjusted_levels(LEVELS)
    wild = days(4.0, 3.5, 3.0, 2.5, *[1.0] * 6).adjusted_levels(LEVELS)
    still = days(0.1, 0.1, 0.1, 0.1, *[1.0] * 6).adjusted_levels(LEVELS)
    assert wild[3] > calm[3] > still[3] and wild[2] > calm[2] > still[2] and wild[0] < calm[0] < still[0]
    assert [row[1] for row in (wild, calm, still)] == [0.5] * 3


def test_a_day_moves_a_level_by_the_gain_times_what_it_missed_too_often() -> None:
    values = np.zeros((4, 1, WIDTH))
    values[0, 0, : WIDTH // 8] = 1.0
    (asked,) = Residuals(values, 5.0).adjusted_levels((0.9,))
    assert asked == pytest.approx(outward(0.9) + GAIN * (0.125 - 0.1))


def test_levels_stay_within_what_ten_days_can_say() -> None:
    growing = Residuals(np.repeat(2.0 ** -np.arange(10.0), WIDTH).reshape(10, 1, WIDTH), 5.0)
    shrinking = Residuals(np.repeat(2.0 ** np.arange(10.0), WIDTH).reshape(10, 1, WIDTH), 5.0)
    assert growing.adjusted_levels((0.95,)) == pytest.approx([0.99])
    assert 0.90 <= shrinking.adjusted_levels((0.95,))[0] < outward(0.95)


def test_no_day_judges_itself_and_three_older_ones_are_needed() -> None:
    before = days(*[1.0] * 3)
    assert before.adjusted_levels((0.95,)) == (outward(0.95),)
    odd = np.concatenate([np.full((1, 1, WIDTH), np.nan), before.values])
    assert Residuals(odd, 5.0).adjusted_levels((0.95,)) == (outward(0.95),)


def test_a_load_that_grows_each_day_is_covered_better_than_by_the_levels_it_begins_with() -> None:
    """Walk-forward over errors that grow by a fifth each day."""
    rng = np.random.default_rng(7)
    line = np.stack([1.2**day * rng.normal(1, 1, WIDTH) for day in range(30)])
    missed: dict[str, list[float]] = {"kept": [], "moved": []}
    for day in range(12, 30):
        past = Residuals(line[day - 10 : day][::-1][:, None], 5.0)
        for name, asked in (("kept", (outward(0.95),)), ("moved", past.adjusted_levels((0.95,)))):
            missed[name].append(float((line[day] > past.quantiles(0, asked)[0]).mean()))
    assert np.mean(missed["moved"]) < np.mean(missed["kept"])
    assert np.mean(missed["kept"]) > 0.05
