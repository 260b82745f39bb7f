"""Ranges of counted things read as English does."""

from __future__ import annotations

import pytest

from inferdoc.report.estimates import _range
from inferdoc.sizing.model import Predicted


@pytest.mark.parametrize(
    ("value", "unit", "shown", "words"),
    [
        (1.0, "replicas", " replica", "  1 to 2"),
        (2.0, "replicas", " replicas", "  1 to 3"),
        (0.9, "s", " ms", "  600 to 1.2 s"),
    ],
)
def test_the_ends_of_a_range_carry_no_unit_that_stands_before_them(value, unit, shown, words):
    low, high = {1.0: (1.0, 2.0), 2.0: (1.0, 3.0), 0.9: (0.6, 1.2)}[value]
    assert _range(Predicted("x", "x", value, low, high, unit, "", {}, ""), shown) == words
