"""Tasks of a benchmark in this process and in others."""

from __future__ import annotations

import pytest
from workers import results, results_within

TASKS = [-3, 1, -2]


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_tasks(jobs):
    assert list(results(abs, TASKS, jobs)) == [3, 1, 2]


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_end_when_the_time_is_up(jobs):
    assert sorted(results_within(abs, TASKS, jobs, minutes=5)) == [1, 2, 3]
    assert list(results_within(abs, TASKS, jobs, minutes=0)) == []
