"""What buckets prove about a limit: nothing between two bounds."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.slo.history import Counted, added, within


def cells(**counts: float) -> dict[float, np.ndarray]:
    return {float(bound.replace("_", ".").removeprefix("b")): np.array([count]) for bound, count in counts.items()}


PAGE = cells(b1=60.0, b2_5=90.0, b5=98.0, binf=100.0)


@pytest.mark.parametrize(
    ("limit", "low", "high", "below", "above"),
    [
        (2.5, 0.90, 0.90, 2.5, 2.5),
        (2.5000000001, 0.90, 0.90, 2.5, 2.5),
        (3.0, 0.90, 0.98, 2.5, 5.0),
        (0.5, 0.0, 0.60, None, 1.0),
        (7.0, 0.98, 1.0, 5.0, np.inf),
    ],
)
def test_a_limit_between_two_bounds_has_two_ends(limit, low, high, below, above):
    found = within(PAGE, limit)
    assert found.share == (low, high) and (found.below, found.above) == (below, above)


def test_a_histogram_without_a_bucket_for_all_reports_nothing():
    assert within(cells(b1=60.0), 1.0) is None


def test_bounds_that_change_prove_what_they_prove_while_they_are_there():
    """A pod of a StatefulSet restarts under its name with other buckets: those of both sides together say that nobody
    was within a bound that only one of them has."""
    gone, new = np.array([90.0] * 3 + [np.nan] * 3), np.array([np.nan] * 3 + [70.0] * 3)
    wide = np.array([np.nan] * 3 + [95.0] * 3)
    page = {2.5: gone, 2.0: new, 4.0: wide, np.inf: np.full(6, 100.0)}
    found = within(page, 2.5)
    assert found.low.tolist() == [90.0, 90.0, 90.0, 70.0, 70.0, 70.0]
    assert found.high.tolist() == [90.0, 90.0, 100.0, 100.0, 95.0, 95.0], "beside the change nothing is proven bad"
    assert (found.below, found.above) == (2.0, 4.0)
    assert within({2.5: gone, np.inf: np.full(6, 100.0)}, 2.5).low.tolist() == [90.0] * 3 + [0.0] * 3


def test_a_step_without_the_page_has_no_events():
    page = {2.5: np.array([9.0, np.nan, 9.0]), np.inf: np.array([10.0, np.nan, 10.0])}
    found = within(page, 2.5)
    assert found.events == 20.0 and found.share == (0.9, 0.9) and (found.below, found.above) == (2.5, 2.5)


def test_of_several_each_counts_with_its_own_bounds():
    """Two releases cut their buckets otherwise: what one proves the other may leave open."""
    other = within(cells(b1=50.0, b4=100.0, binf=100.0), 2.5)
    both = added([within(PAGE, 2.5), other])
    assert both.share == (0.70, 0.95) and (both.below, both.above) == (1.0, 4.0)
    assert added([]) is None


def test_no_events_have_no_share():
    nothing = np.zeros(3)
    assert Counted(nothing, nothing, nothing).share is None
    assert Counted(np.arange(4.0), np.arange(4.0), np.arange(4.0)).last(2).events == 5.0
