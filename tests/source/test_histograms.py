"""Buckets that a release spells or cuts otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.source.histograms import bucket_quantile, common_bounds, quantiles
from inferdoc.source.reads import ReadResult

T, SETTLE = 60, 6
RNG = np.random.default_rng(5)


def cumulative(bounds: list[float]) -> np.ndarray:
    """Rates of buckets that grow with the bound: float64[B, T]."""
    shares = np.array([1.0 if np.isinf(bound) else bound / (bound + 0.4) for bound in bounds])
    return shares[:, np.newaxis] * RNG.uniform(5, 10, T)


def read(rows: dict[str, np.ndarray], pod: str = "a") -> ReadResult:
    return ReadResult(("pod", "le"), [(pod, le) for le in rows], np.vstack(list(rows.values())))


def between(row: np.ndarray, begin: int, end: int) -> np.ndarray:
    """The row where it was scraped."""
    there = np.full(T, np.nan)
    there[begin:end] = row[begin:end]
    return there


def test_buckets_that_stay_are_read_as_ever():
    bounds = [0.1, 1.0, np.inf]
    rows = cumulative(bounds)
    told = quantiles(read(dict(zip(("0.1", "1.0", "+Inf"), rows, strict=True))), 0.9, SETTLE)
    np.testing.assert_array_equal(told.values[0], bucket_quantile(0.9, np.array(bounds), rows))
    assert told.bounds.tolist() == [0.1, 1.0] and told.keys == [("a",)]


def test_pods_of_two_releases_resolve_what_the_coarser_does():
    """By the bounds of the finer one, a move within one bucket of the coarser one looks like one over several."""
    few, many = [0.1, 1.0, np.inf], [0.1, 0.3, 0.5, 1.0, np.inf]
    keys = [("a", str(bound)) for bound in few] + [("b", str(bound)) for bound in many]
    told = quantiles(ReadResult(("pod", "le"), keys, np.vstack([cumulative(few), cumulative(many)])), 0.9, SETTLE)
    assert told.keys == [("a",), ("b",)] and told.bounds.tolist() == [0.1, 1.0]


@pytest.mark.parametrize("overlap", [0, 5])
def test_a_bound_that_is_spelt_otherwise_is_the_same_bucket(overlap: int):
    """le="1" becomes le="1.0": for a window both have rates, of which each has its part."""
    bounds = [0.1, 1.0, np.inf]
    tenth, one, all_of_them = cumulative(bounds)
    old, new = between(one, 0, 30 + overlap), between(one, 30, T)
    old[30 : 30 + overlap], new[30 : 30 + overlap] = 0.6 * one[30 : 30 + overlap], 0.4 * one[30 : 30 + overlap]
    told = quantiles(read({"0.1": tenth, "1": old, "1.0": new, "+Inf": all_of_them}), 0.9, SETTLE)
    expected = bucket_quantile(0.9, np.array(bounds), np.vstack([tenth, one, all_of_them]))
    np.testing.assert_allclose(told.values[0], expected)


def test_other_bounds_have_quantiles_of_their_own_and_none_across_the_change():
    former, later = [0.1, 1.0, np.inf], [0.25, 2.0, np.inf]
    old, new = cumulative(former), cumulative(later)
    change, gone = 30, 35
    rows = {"0.1": between(old[0], 0, gone), "1": between(old[1], 0, gone)}
    rows |= {"0.25": between(new[0], change, T), "2": between(new[1], change, T)}
    total = np.where(np.arange(T) < change, old[2], new[2])
    told = quantiles(read({**rows, "+Inf": total}), 0.5, SETTLE).values[0]
    expected = [bucket_quantile(0.5, np.array(b), np.vstack([*r[:2], total])) for b, r in ((former, old), (later, new))]
    np.testing.assert_allclose(told[:change], expected[0][:change])
    settled = (
        change + SETTLE
    )  # a window that holds one sample of the former process still counts all observations longer
    np.testing.assert_allclose(told[settled:], expected[1][settled:])
    assert np.isnan(told[change:settled]).all()


def test_finer_bounds_are_told_once_all_cover_a_window():
    coarse, fine = [1.0, np.inf], [0.25, 1.0, np.inf]
    rows = cumulative(fine)
    read_rows = {"0.25": between(rows[0], 30, T), "1": rows[1], "+Inf": rows[2]}
    told = quantiles(read(read_rows), 0.5, SETTLE).values[0]
    np.testing.assert_allclose(told[:30], bucket_quantile(0.5, np.array(coarse), rows[1:])[:30])
    assert np.isnan(told[30 : 30 + SETTLE]).all()
    np.testing.assert_allclose(told[36:], bucket_quantile(0.5, np.array(fine), rows)[36:])


def test_coarser_bounds_are_told_without_those_that_end():
    """While a window reaches back to the former ones, these cover a part of it: too few seem to be below them."""
    fine = [0.25, 1.0, np.inf]
    rows = cumulative(fine)
    change, gone = 30, 35
    ending = between(rows[0], 0, gone)
    ending[change:gone] *= np.linspace(0.9, 0.1, gone - change)
    told = quantiles(read({"0.25": ending, "1": rows[1], "+Inf": rows[2]}), 0.5, SETTLE)
    np.testing.assert_allclose(told.values[0, :change], bucket_quantile(0.5, np.array(fine), rows)[:change])
    assert np.isnan(told.values[0, change:gone]).all()
    np.testing.assert_allclose(told.values[0, gone:], bucket_quantile(0.5, np.array(fine[1:]), rows[1:])[gone:])
    assert told.bounds.tolist() == [1.0], "a move that only the finer ones show is none of the whole"


def test_the_bounds_of_both_sides_are_no_resolution():
    former, later = [0.1, 1.0, np.inf], [0.25, 0.5, 2.0, np.inf]
    old, new = cumulative(former), cumulative(later)
    rows = {"0.1": between(old[0], 0, 30), "1": between(old[1], 0, 30)}
    rows |= {str(bound): between(row, 30, T) for bound, row in zip(later[:-1], new, strict=False)}
    told = quantiles(read({**rows, "+Inf": new[-1]}), 0.5, SETTLE)
    assert told.bounds.tolist() == [0.1, 1.0]


def test_common_bounds_are_those_that_all_have_at_all_times():
    one = dict(zip((0.5, 1.0, np.inf), np.ones((3, T)), strict=True))
    changing = {0.5: between(np.ones(T), 5, 30), 1.0: between(np.ones(T), 5, T), 2.0: between(np.ones(T), 30, T)}
    changing[np.inf] = between(np.ones(T), 5, T)
    assert common_bounds([one]) == [0.5, 1.0, np.inf]
    assert common_bounds([one, changing]) == [1.0, np.inf]
    assert common_bounds([one, {}]) == common_bounds([]) == []


def test_a_window_that_begins_in_the_change_begins_without():
    fine = [0.25, 1.0, np.inf]
    rows = cumulative(fine)
    told = quantiles(read({"0.25": between(rows[0], 0, 4), "1": rows[1], "+Inf": rows[2]}), 0.5, SETTLE).values[0]
    assert np.isnan(told[:4]).all() and np.isfinite(told[4:]).all()


def test_a_gap_is_no_change():
    bounds = [0.1, 1.0, np.inf]
    rows = cumulative(bounds)
    rows[:, 20:25] = np.nan
    told = quantiles(read(dict(zip(("0.1", "1.0", "+Inf"), rows, strict=True))), 0.9, SETTLE).values[0]
    assert np.isnan(told[20:25]).all() and np.isfinite(np.delete(told, np.s_[20:25])).all()
