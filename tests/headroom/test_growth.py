"""A load that grows from day to day is ahead of every day that was; the clock carries its growth on."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.series import LoadSeries
from inferdoc.headroom.capacity_forecast import clock_words, headroom_clock, with_growth
from tests.headroom.made import MONDAY, reading

DAY, STEP = 86_400, 900
SLOTS = DAY // STEP
REQUEST = Request(horizon=2 * DAY, arima_seconds=0)


def load(levels: list[float], seed: int = 1, noise: float = 0.05) -> LoadSeries:
    """Days of these levels that swing by half, and end on a Monday midnight."""
    rng = np.random.default_rng(seed)
    swing = 1.0 - 0.5 * np.cos(2 * np.pi * (np.arange(SLOTS) + 0.5) / SLOTS)
    values = np.concatenate([level * swing * rng.lognormal(0.0, noise, SLOTS) for level in levels])
    return LoadSeries(MONDAY - len(levels) * DAY, STEP, values, "rate", "requests/s", "pool")


def working(levels: list[float]) -> LoadSeries:
    """The same, ending as a Friday begins, so that the day to come is like those before it."""
    made = load(levels)
    return LoadSeries(made.start + 4 * DAY, STEP, made.values, "rate", made.unit, made.name)


def at(moment) -> float:
    return datetime.fromisoformat(moment.at).timestamp()


def test_growth_is_carried_on_where_days_bear_it_out():
    series = load([10 * 1.2**day for day in range(9)])
    plain = forecast(series, REQUEST)
    grown, growth = with_growth(series, plain)
    assert growth is not None
    assert growth.each == pytest.approx(np.log(1.2), abs=0.02)
    assert growth.share > 0.9
    assert (grown.p95 >= grown.p50).all()


def test_the_next_day_of_a_growing_load_is_told():
    """Monday to Thursday grew by a fifth each; Friday is asked for."""
    series = working([10 * 1.2**day for day in range(9)])
    grown, _ = with_growth(series, forecast(series, REQUEST))
    wanted = 10 * 1.2**9
    swing = 1.0 - 0.5 * np.cos(2 * np.pi * (np.arange(SLOTS) + 0.5) / SLOTS)
    assert grown.p50[:SLOTS].mean() == pytest.approx((wanted * swing).mean(), rel=0.07)


@pytest.mark.parametrize("seed", range(6))
def test_days_that_only_vary_have_no_growth_to_carry_on(seed):
    rng = np.random.default_rng(seed)
    series = load((20 * rng.lognormal(0.0, 0.1, 14)).tolist(), seed)
    plain = forecast(series, REQUEST)
    grown, growth = with_growth(series, plain)
    assert np.abs(np.log(grown.p50[:SLOTS].mean() / plain.p50[:SLOTS].mean())) < 0.06, growth


def test_a_weekend_is_no_fall_and_a_monday_no_growth():
    week = [20.0, 20.0, 20.0, 20.0, 20.0, 8.0, 8.0]
    series = load(week * 3)
    plain = forecast(series, REQUEST)
    grown, growth = with_growth(series, plain)
    assert growth is None or abs(growth.a_day) < 0.02
    np.testing.assert_allclose(grown.p50[:SLOTS].mean(), plain.p50[:SLOTS].mean(), rtol=0.03)


def test_a_fall_is_carried_on_as_well():
    series = working([40 * 0.85**day for day in range(9)])
    grown, growth = with_growth(series, forecast(series, REQUEST))
    assert growth is not None and growth.a_day == pytest.approx(-0.15, abs=0.03)
    assert (grown.quantiles[0.5] <= grown.p95).all()


def test_two_days_tell_no_growth():
    series = load([10.0, 12.0, 14.4])
    plain = forecast(series, REQUEST)
    assert with_growth(series, plain) == (plain, None)


def test_the_clock_expects_a_crossing_that_no_past_day_reached_and_names_the_growth():
    """Three replicas carry 66; the top of the last day was 64.5, that of the day to come is 77."""
    series = working([10 * 1.2**day for day in range(9)])
    pool = reading(peak=60.0, each=22.0, band=(21.0, 23.0))
    plain = forecast(series, REQUEST)
    grown, growth = with_growth(series, plain)
    clock = headroom_clock(pool, grown, growth)
    assert clock.expected is not None
    day = 10 * 1.2**9
    swing = np.arccos((1.0 - 66 / day) / 0.5) / (2 * np.pi) * 24
    hours = (at(clock.expected) - grown.start) / 3600
    assert hours == pytest.approx(swing, abs=1.5)
    late = headroom_clock(pool, plain).expected
    assert late is None or at(late) > at(clock.expected)
    assert "of growth a day" in clock_words(clock, "its objective")
