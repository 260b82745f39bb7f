"""The headroom clock: when a forecast passes what a pool carries, on the users' clock, and by when to ask for more."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from inferdoc.headroom.capacity_forecast import clock_words, first_over, headroom_clock
from tests.headroom.made import MONDAY, ahead, reading

DAY, STEP = 86_400, 300
TIMES = MONDAY + STEP * (np.arange(2 * DAY // STEP) + 0.5)


def rising(begin: float, a_day: float) -> np.ndarray:
    """A load that grows evenly. begin: at midnight; a_day: what a day adds."""
    return begin + a_day * (TIMES - MONDAY) / DAY


def at(moment) -> float:
    return datetime.fromisoformat(moment.at).timestamp()


def test_a_path_passes_a_limit_on_the_line_between_the_middles_of_its_steps():
    assert first_over(rising(0.0, 24.0), MONDAY, STEP, 10.0) == pytest.approx(MONDAY + 10 * 3600)
    assert first_over(rising(0.0, 24.0), MONDAY, STEP, 48.0) is None
    assert first_over(rising(11.0, 24.0), MONDAY, STEP, 10.0) == MONDAY


def test_the_early_moment_is_of_q95_over_the_usable_rate_and_the_expected_one_of_q50_over_the_knee():
    pool = reading(peak=30.0, each=12.0, band=(11.0, 13.0), cold=480)
    clock = headroom_clock(pool, ahead(rising(24.0, 12.0), rising(28.0, 12.0), zone="Europe/Berlin"))
    assert clock.status == "crosses"
    assert at(clock.earliest) == pytest.approx(MONDAY + DAY * 5 / 12, abs=1)  # 28 -> 33
    assert at(clock.expected) == pytest.approx(MONDAY + DAY, abs=1)  # 24 -> 36
    assert clock.earliest.local == "Monday 11:00", "10:00 UTC in Berlin"
    assert at(clock.ask_by) == pytest.approx(at(clock.earliest) - 480 - 120, abs=1)
    numbers = {each.name: each for each in clock.numbers}
    assert numbers["replicas"].value == 2, "28 + 12 x 17 / 12 = 45, of which a replica carries 11"
    assert (numbers["hours"].low, numbers["hours"].value) == (pytest.approx(10.0, abs=0.01), pytest.approx(24.0))


def test_replicas_are_those_of_the_highest_load_of_the_day_after_the_crossing():
    steep = headroom_clock(reading(each=12.0), ahead(rising(20.0, 40.0), rising(30.0, 40.0)))
    (replicas,) = [each for each in steep.numbers if each.name == "replicas"]
    assert replicas.value == np.ceil((36.0 + 40.0) / 12.0) - 3


def test_a_crossing_that_is_nearer_than_a_cold_start_asks_now():
    clock = headroom_clock(reading(each=12.0, cold=7200), ahead(rising(30.0, 48.0), rising(34.0, 48.0)))
    assert clock.ask_by is None
    assert clock_words(clock, "its objective").endswith("replicas now")


def test_without_a_crossing_it_says_how_near_the_load_comes():
    clock = headroom_clock(reading(each=12.0), ahead(rising(10.0, 1.0), rising(16.0, 1.0)))
    assert clock.status == "not within the horizon" and clock.earliest is None
    assert "50 %" in clock.reason and not clock.numbers


def test_it_abstains_where_the_forecast_does():
    path = rising(100.0, 100.0)
    clock = headroom_clock(reading(), ahead(path, path, abstained=True, reason="no usable rhythm"))
    assert clock.status == "abstains" and clock.earliest is None and "no usable rhythm" in clock.reason


def test_a_load_that_is_beyond_it_already_is_said():
    clock = headroom_clock(reading(peak=40.0, each=12.0), ahead(rising(40.0, 1.0), rising(41.0, 1.0)))
    assert clock.status == "beyond it now" and clock_words(clock, "").endswith("1 replica now")


def test_a_moment_a_week_ahead_has_its_date():
    far = ahead(np.r_[np.zeros(8), 40.0], np.r_[np.zeros(8), 40.0], step=DAY)
    assert headroom_clock(reading(), far).earliest.local.startswith("Tuesday 2026-03-03")
