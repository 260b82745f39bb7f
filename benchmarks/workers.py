"""Run the tasks of a benchmark, in processes of their own where more than one is requested."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Task = TypeVar("Task")
T = TypeVar("T")


def results(function: Callable[[Task], T], tasks: Sequence[Task], jobs: int) -> Iterator[T]:
    """The result of each task, in the order of the tasks. One job runs in this process."""
    if jobs == 1:
        yield from map(function, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(function, tasks)


def results_within(function: Callable[[Task], T], tasks: Sequence[Task], jobs: int, minutes: float) -> Iterator[T]:
    """Results as they come until the time is up. One job runs in this process and ends with the task at hand."""
    end = time.monotonic() + 60 * minutes
    if jobs == 1:
        for task in tasks:
            if time.monotonic() >= end:
                return
            yield function(task)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        coming = pool.imap_unordered(function, tasks)
        for _ in tasks:
            try:
                yield coming.next(max(0.0, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                return
