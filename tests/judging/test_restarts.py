"""How often an engine was started again, where the scrapes are a minute apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferdoc.judging import restarts
from inferdoc.source.frame import SignalFrame
from tests.judging.frames import frame_of, grid

NAN, MINUTES = np.nan, 45


def minutes(**rows) -> SignalFrame:
    """A frame of one pod with a step of a minute, like its scrapes."""
    frame = frame_of({name: {"p0/0": values} for name, values in rows.items()})
    frame.grid = replace(grid(MINUTES), step_ms=60_000, interval_ms=60_000, rate_ms=240_000, gauge_ms=300_000)
    return frame


def counted(*at: int, ends: int = MINUTES) -> np.ndarray:
    """A count that rises by one at some minutes."""
    return np.cumsum(np.isin(np.arange(ends), at)).astype(float)


def test_three_restarts_within_half_an_hour_count_and_one_an_hour_ago_does_not():
    row = restarts.recent(minutes(restarts_total=5.0 + counted(2, 20, 25, 44)))
    assert row.values[0][[1, 2, 25, 31, 32, 44]].tolist() == [0, 1, 3, 3, 2, 3], (
        "five before the data begin are no news"
    )


def test_a_count_that_is_not_seen_for_some_minutes_loses_no_restart():
    counts = counted(10, 12)
    counts[8:14] = NAN
    assert restarts.recent(minutes(restarts_total=counts)).values[0][20:40].tolist() == [2.0] * 20


def test_a_new_pod_of_the_same_name_counts_from_nothing():
    counts = counted(5, 6, 7)
    counts[20:] = 0.0
    assert restarts.recent(minutes(restarts_total=counts)).values[0][30] == 3, "the lower count is no restart"


def test_an_engine_ended_where_the_kubelet_counts_and_the_process_is_another():
    started = 1e9 + 300.0 * counted(23)
    row = restarts.engine_ends(minutes(kubelet_restarts=counted(20), process_start_time=started)).values[0]
    assert row[[19, 20, 27, 28]].tolist() == [0, 1, 1, 0], "twice the rate window, for longer than a deviation lasts"


def test_the_restart_of_a_sidecar_ends_no_engine():
    frame = minutes(kubelet_restarts=counted(20), process_start_time=np.full(MINUTES, 1e9))
    assert not restarts.engine_ends(frame).values.any()


def test_without_a_start_time_nothing_is_said_of_the_engine():
    assert restarts.engine_ends(minutes(kubelet_restarts=counted(20))) is None
    assert restarts.recent(minutes(running=np.ones(MINUTES))) is None


@pytest.mark.parametrize(
    ("up", "again"),
    [
        ("0001111", [3]),
        ("0011111", []),
        ("1000111", [4]),
        ("1001011", []),
        ("1000011000011", [5, 11]),
        ("1000", []),
    ],
)
def test_scrapes_that_succeed_after_three_that_failed_are_of_a_new_process(up, again):
    assert np.flatnonzero(restarts.came_back(np.array([float(each) for each in up]))).tolist() == again


@pytest.mark.parametrize(
    ("shown", "failed", "again"),
    [
        ("1111000001111", "0000000000000", [4]),  # the agent responds, its engine was away
        ("1111000001111", "0000011100000", []),  # its target was down: counted where scrapes succeed again
        ("1111001111111", "0000000000000", []),  # two scrapes get lost
        ("0000011111111", "0000000000000", []),  # not seen before
    ],
)
def test_an_engine_that_is_not_shown_while_its_target_responds_was_restarted(shown, failed, again):
    marks = restarts.left_for_a_time(*(np.array([one == "1" for one in text]) for text in (shown, failed)))
    assert np.flatnonzero(marks).tolist() == again
