"""What counters stood at when they were first scraped."""

from __future__ import annotations

import numpy as np

from inferdoc.source.first_counters import START, FirstCounters
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


REQUESTS = Read("requests", "rate", ("cluster", "namespace", "pod", "instance"))
OLD, YOUNG, TOLD_NOTHING = (("", "", name, name) for name in ("old", "young", "unknown"))


class Began:
    """Two processes that finish a request a second now, ten before; the start of a third is not shown."""

    def evaluate(self, reads, grid, match=()):
        began = {OLD: grid.start_ms / 1000 - 6000, YOUNG: grid.start_ms / 1000 - 180}
        now = np.arange(grid.count) * grid.step_ms / 1000
        rows = {
            True: {key: np.full(grid.count, value) for key, value in began.items()},
            False: dict.fromkeys((OLD, YOUNG, TOLD_NOTHING), 1000.0 + now),
        }
        told = {read: rows[read.name == START] for read in reads}
        return {read: ReadResult(read.by, list(each), np.array(list(each.values()))) for read, each in told.items()}


def test_the_present_is_no_part_of_a_life():
    """As much as is counted now in so many seconds is taken off, of a short life a sixth of it at most."""
    stood = FirstCounters(Began(), GRID, present=90.0).of([REQUESTS])[REQUESTS]
    assert dict(zip(stood.keys, stood.values.tolist(), strict=True)) == {
        OLD: 1000.0 - 90.0,
        YOUNG: 1000.0 - 180.0 / 6,
        TOLD_NOTHING: 1000.0,
    }
    before = dict(zip(stood.keys, (GRID.start_ms - stood.at_ms).tolist(), strict=True))
    assert before == {OLD: 90_000, YOUNG: 30_000, TOLD_NOTHING: 0}
    assert FirstCounters(Began(), GRID).of([REQUESTS])[REQUESTS].values.tolist() == [1000.0] * 3


def test_what_was_not_counted_before_the_present_is_none_rather_than_less():
    class Errors(Began):
        def evaluate(self, reads, grid, match=()):
            results = super().evaluate(reads, grid, match)
            for read, result in results.items():
                if read.name != START:
                    result.values[:] -= 995.0
            return results

    stood = FirstCounters(Errors(), GRID, present=90.0).of([REQUESTS])[REQUESTS]
    assert stood.values.tolist() == [0.0, 0.0, 5.0]
