"""What buckets prove about a limit: nothing between two bounds."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.slo.buckets import Counted, added, within


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


def test_a_histogram_without_a_bucket_for_all_tells_nothing():
    assert within(cells(b1=60.0), 1.0) is None


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
