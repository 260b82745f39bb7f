"""Holidays are as the earlier holidays of the same load were, and like a Sunday where there were none."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
from made import DAY, office

from inferdoc.forecast.calendar import fold, likeness_of, zone_of
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import LoadSeries

MONDAY = date(2026, 3, 2)
STEP = 900
FREE = (29, 46, 64, 87)
"""A Tuesday, a Friday, a Wednesday and a Thursday."""


def load(rest: float, days: int = 112, seed: int = 1) -> LoadSeries:
    """An office whose holidays rest as much as a share of a Sunday does; below 0 they are busier than a usual day."""
    series = office(days, step=STEP, seed=seed)
    rng = np.random.default_rng(seed + 100)
    for day in FREE:
        at = np.arange(day * DAY // STEP, (day + 1) * DAY // STEP)
        hour = at * STEP % DAY / 3600
        series.values[at] = rng.poisson(400 * (0.08 + np.exp(-(((hour - 14) / 3.2) ** 2)) * (1 - 0.65 * rest)))
    return series


def told(series: LoadSeries, day: int, known: tuple[int, ...], days: float = 28.0) -> tuple[float, Forecast]:
    """Bias of p50 on a day, in a history of so many days, with these days as holidays."""
    begin = series.start + day * DAY
    dates = [MONDAY + timedelta(number) for number in known]
    past = series.before(begin, days)
    made = forecast(past, Request(DAY, holidays=dates, never_abstain=True, arima_seconds=0.0))
    actual = series.values[day * DAY // STEP : (day + 1) * DAY // STEP]
    return float(made.p50.sum() / actual.sum() - 1.0), made


@pytest.mark.parametrize("rest", [1.0, 0.5, 0.0])
def test_the_fourth_holiday_is_as_the_three_before(rest: float) -> None:
    bias, made = told(load(rest), FREE[-1], FREE, days=400.0)
    assert abs(bias) < 0.12
    assert any("by 3 earlier ones" in note for note in made.notes)


def test_holidays_older_than_the_history_of_the_paths_are_learned_from() -> None:
    series = load(0.0)
    short, _ = told(series, FREE[-1], FREE, days=20.0)
    long, _ = told(series, FREE[-1], FREE, days=400.0)
    assert short < -0.2
    assert abs(long) < 0.1


def test_one_earlier_holiday_outweighs_the_word_of_a_list_but_does_not_silence_it() -> None:
    series = load(0.0)
    first, _ = told(series, FREE[0], FREE[:1], days=400.0)
    second, made = told(series, FREE[1], FREE[:2], days=400.0)
    assert first < -0.2
    assert 0.1 < second / first < 0.6
    assert any("by 1 earlier one:" in note for note in made.notes)


def test_a_listed_day_like_any_other_leaves_the_day_after_alone() -> None:
    series = load(0.0)
    listed, _ = told(series, FREE[2] + 1, FREE)
    unlisted, _ = told(series, FREE[2] + 1, ())
    assert abs(listed - unlisted) < 0.03


def test_a_holiday_below_every_sunday_lowers_the_day_after() -> None:
    series = load(1.0)
    series.values[FREE[2] * DAY // STEP : (FREE[2] + 1) * DAY // STEP] *= 0.3
    deep, _ = told(series, FREE[2] + 1, FREE)
    plain, _ = told(load(1.0), FREE[2] + 1, FREE)
    assert -0.3 < deep - plain < -0.02


def test_the_band_of_a_holiday_holds_how_unlike_holidays_are() -> None:
    """Alternately as a Sunday and as any day: the next one is either."""
    series, other = load(1.0), load(0.0)
    for day in FREE[1::2]:
        part = slice(day * DAY // STEP, (day + 1) * DAY // STEP)
        series.values[part] = other.values[part]
    _, unlike = told(series, FREE[-1], FREE, days=400.0)
    _, alike = told(load(1.0), FREE[-1], FREE, days=400.0)
    assert (unlike.p95 / unlike.p50).mean() > 1.2 * (alike.p95 / alike.p50).mean()
    assert (series.values[FREE[-1] * DAY // STEP : (FREE[-1] + 1) * DAY // STEP] <= unlike.p95).mean() > 0.8


def test_no_earlier_holiday_is_a_sunday_and_shares_are_never_negative() -> None:
    rows = fold(load(1.0), zone_of("UTC"), 0, [MONDAY + timedelta(day) for day in FREE])
    learned = likeness_of(rows)
    assert learned.seen == len(FREE)
    assert learned.sunday > 0.8
    assert 0 <= learned.usual < 0.15
    assert likeness_of(fold(load(1.0), zone_of("UTC"), 0)).sunday == 1.0


def test_the_saturday_after_a_free_friday_is_a_saturday() -> None:
    """Weekends are far below working days here: what the Friday was filled with is none of Saturday's kind."""
    series = load(1.0)
    listed, _ = told(series, FREE[1] + 1, FREE[:2])
    assert abs(listed) < 0.12


def test_holidays_beside_idle_sundays_or_idle_weekdays_tell_nothing() -> None:
    """A share of nothing is no share: the next holiday stays like a Sunday."""
    for idle in (lambda weekday: weekday == 6, lambda weekday: weekday < 6):
        series = load(0.0)
        for day in range(112):
            if day not in FREE and idle(day % 7):
                series.values[day * DAY // STEP : (day + 1) * DAY // STEP] = 0.0
        found = likeness_of(fold(series, zone_of("UTC"), 0, [MONDAY + timedelta(day) for day in FREE]))
        assert (found.sunday, found.usual) == (1.0, 0.0)
