"""Shares of paths are those of the mixture that errs least, as far as the days seen can tell."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.forecast.combine import shares

RECENT = np.ones(10)


def errors(*spreads: float, seed: int = 1) -> np.ndarray:
    """float64[N, 10, 48]: independent errors of so much spread."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.normal(0, spread, (10, 48)) for spread in spreads])


def test_the_better_path_has_more_and_all_add_up() -> None:
    share = shares(errors(1.0, 2.0, 4.0), RECENT)
    assert share.sum() == pytest.approx(1.0)
    assert share[0] > share[1] > share[2] > 0


def test_two_paths_that_err_alike_do_not_count_twice() -> None:
    one, other = errors(1.0, 1.0)
    share = shares(np.stack([one, one, other]), RECENT)
    assert share[0] == pytest.approx(share[1])
    assert share[2] > 0.41


def test_a_path_that_evens_out_the_errors_of_a_better_one_has_a_share() -> None:
    """Best of 1 and -1.5 times the same errors is 0.6 and 0.4; scored one by one the second had next to nothing."""
    one = errors(1.0)[0]
    share = shares(np.stack([one, -1.5 * one]), RECENT)
    assert share[1] == pytest.approx(0.4, abs=0.03)


def test_one_day_says_little_and_ten_say_more() -> None:
    left = errors(1.0, 3.0)
    few = shares(left[:, :1], np.ones(1))
    many = shares(left, RECENT)
    assert 0.5 < few[0] < many[0]


def test_newer_days_count_more() -> None:
    left = errors(1.0, 1.0)
    left[0, :5] *= 0.3
    left[1, 5:] *= 0.3
    newest_first = shares(left, 0.5 ** np.arange(10.0))
    assert newest_first[0] > 0.7
    assert shares(left, 0.5 ** np.arange(10.0)[::-1])[0] < 0.3


def test_without_a_known_day_all_are_alike() -> None:
    assert shares(np.full((4, 10, 48), np.nan), RECENT).tolist() == [0.25] * 4


def test_a_path_without_any_error_has_it_all_and_no_number_is_lost() -> None:
    left = errors(1.0, 1.0)
    left[0] = 0.0
    share = shares(left, RECENT)
    assert np.isfinite(share).all()
    assert share[0] > 0.99
