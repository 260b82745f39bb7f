"""Loads that change for good, and those that only seem to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made import DAY, MONDAY, noise, office

from inferdoc.forecast.arima import carried_over
from inferdoc.forecast.calendar import fold, zone_of
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.series import LoadSeries

BREAK, DAYS = 15, 24
WIDTH = 288


def changed(factor: float, added: float = 0.0) -> LoadSeries:
    """The office with its load times `factor`, plus `added` at night, from a Tuesday on."""
    base = office(DAYS)
    day, hour = np.arange(DAYS * WIDTH) // WIDTH, np.arange(DAYS * WIDTH) % WIDTH / 12
    more = np.where((hour >= 1) & (hour < 5), added, 0.0)
    level = np.where(day >= BREAK, base.values * factor + more, base.values)
    return replace(base, values=np.round(level))


def first_after(series: LoadSeries, days: float) -> int | None:
    """The row of the change as seen `days` into the series."""
    known = series.before(round(series.start + days * DAY))
    return carried_over(fold(known, zone_of("UTC"), WIDTH))[1]


def error(series: LoadSeries, day: int) -> float:
    """Mean absolute error over the mean load, of the day after `day` days."""
    made = forecast(series.before(MONDAY + day * DAY), Request(DAY, arima_seconds=0, never_abstain=True))
    actual = series.values[day * WIDTH : (day + 1) * WIDTH]
    return float(np.abs(actual - made.p50).mean() / actual.mean())


@pytest.mark.parametrize(("factor", "added"), [(3.0, 0.0), (0.2, 0.0), (1.0, 300.0)])
def test_two_days_after_it_a_change_is_known(factor: float, added: float) -> None:
    series = changed(factor, added)
    assert first_after(series, BREAK) is None
    assert first_after(series, BREAK + 1) is None  # one odd day is no change
    for since in (2, 3, 5, 8):
        assert first_after(series, BREAK + since) == BREAK
        assert error(series, BREAK + since) < 0.15


def test_a_weekend_after_the_change_keeps_its_shape() -> None:
    series = changed(3.0)
    saturday = BREAK + 4
    today, before = (series.values[day * WIDTH : (day + 1) * WIDTH] for day in (saturday, saturday - 1))
    assert error(series, saturday) < 0.5 * float(np.abs(today - before).mean() / today.mean())
    rows = fold(series.before(MONDAY + saturday * DAY), zone_of("UTC"), WIDTH)
    moved, _ = carried_over(rows)
    noon = slice(150, 180)
    assert np.nanmean(moved.z[12, noon] ** 2) < 0.8 * np.nanmean(moved.z[11, noon] ** 2)


def test_one_odd_day_is_no_change() -> None:
    series = office(DAYS)
    values = series.values.copy()
    values[BREAK * WIDTH : (BREAK + 1) * WIDTH] *= 4
    odd = replace(series, values=values)
    assert [first_after(odd, BREAK + since) for since in (1, 2, 3, 4)] == [None] * 4


@pytest.mark.parametrize("series", [office(21), noise(21), office(3), replace(office(21), values=np.zeros(21 * WIDTH))])
def test_what_goes_on_as_before_is_left_alone(series: LoadSeries) -> None:
    rows = fold(series, zone_of("UTC"), WIDTH)
    kept, first = carried_over(rows)
    assert kept is rows and first is None


def test_the_change_is_told() -> None:
    series = changed(3.0).before(MONDAY + (BREAK + 3) * DAY)
    made = forecast(series, Request(DAY, arima_seconds=0))
    assert any("changed for good in the day from 2026-03-17T00:00:00Z" in note for note in made.notes)
    assert not any("changed for good" in note for note in forecast(office(18), Request(DAY, arima_seconds=0)).notes)
