"""What counters stood at when they were first scraped."""

from __future__ import annotations

import numpy as np

from inferdoc.source.first_counters import FirstCounters
from inferdoc.source.reads import Grid, Read, ReadResult

GRID = Grid(1_000_000, 10_000, 6, 10_000, 50_000, 25_000)
BUCKETS = Read("ttft_bucket", "rate", ("pod", "le"))


class Scraped:
    """A source of one histogram: values of its buckets at the steps of the grid, NaN before they are there."""

    def __init__(self, rows: dict[tuple[str, str], list[float]]) -> None:
        self.rows = rows

    def evaluate(self, reads, grid, match=()):
        keys = list(self.rows)
        return {read: ReadResult(read.by, keys, np.array([self.rows[key] for key in keys])) for read in reads}


def test_buckets_of_a_process_that_came_later_are_none_of_the_first():
    """Under the same labels: small new counts under a new bound would stand among the large ones of a whole life."""
    nan = float("nan")
    source = Scraped(
        {
            ("a", "1"): [900.0, 910.0, 920.0, nan, nan, nan],
            ("a", "+Inf"): [1000.0, 1010.0, 1020.0, 3.0, 6.0, 9.0],
            ("a", "0.5"): [nan, nan, nan, 1.0, 2.0, 3.0],
            ("b", "0.5"): [nan, 5.0, 6.0, 7.0, 8.0, 9.0],
            ("b", "+Inf"): [nan, 10.0, 12.0, 14.0, 16.0, 18.0],
        }
    )
    stood = FirstCounters(source, GRID).of([BUCKETS])[BUCKETS]
    assert dict(zip(stood.keys, stood.values.tolist(), strict=True)) == {
        ("a", "1"): 900.0,
        ("a", "+Inf"): 1000.0,
        ("b", "0.5"): 5.0,
        ("b", "+Inf"): 10.0,
    }
