"""The path of waves: what repeats with the day, or with the kind of day, is foreseen."""

from __future__ import annotations

import numpy as np
import pytest
from made import DAY, MONDAY

from inferdoc.forecast.calendar import fold, zone_of
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.paths import Folded, day_level, day_type, fill_gaps, harmonics
from inferdoc.forecast.series import LoadSeries


@pytest.mark.parametrize(("times", "foreseen"), [(1, True), (8, True), (9, False)])
def test_eight_waves_a_day_are_foreseen(times: int, foreseen: bool) -> None:
    moments = np.arange(0, 23 * DAY, 300)
    waves = 20 + 3 * np.sin(2 * np.pi * times * moments / DAY + 1.0)
    rows = fold(LoadSeries(MONDAY, 300, waves[: 21 * 288] ** 2, name="waves"), zone_of("UTC"), 2 * 288)
    path = harmonics(Folded(rows, fill_gaps(rows)), rows.count, 2)
    assert path is not None
    missed = float(np.abs(path[1] - waves[22 * 288 :]).max())
    assert (missed < 1.5) == foreseen, missed


def test_a_weekend_of_its_own_shape_is_foreseen_from_two() -> None:
    """Saturdays and Sundays peak 6 hours later and twice as high; Fridays are a tenth lower."""
    moments = np.arange(0, 14 * DAY, 300)
    hour, day = moments % DAY / 3600, moments // DAY % 7
    working = 20 + 5 * np.sin((hour - 9) / 24 * 2 * np.pi) * np.where(day == 4, 0.9, 1.0)
    load = np.where(day >= 5, 30 + 10 * np.sin((hour - 15) / 24 * 2 * np.pi), working)
    known = np.concatenate([load, load[: 5 * 288]])
    rows = fold(LoadSeries(MONDAY, 300, known**2, name="weekend"), zone_of("UTC"), 2 * 288)
    path = harmonics(Folded(rows, fill_gaps(rows)), rows.count, 2)
    assert path is not None
    assert np.abs(path - load[5 * 288 : 7 * 288].reshape(2, -1)).max() < 1.0


def test_what_is_left_of_the_last_day_and_of_its_last_hour_fades_away() -> None:
    """The last hour counts for what it is off the last day, which is off all days before."""
    values = np.full(21 * 288, 20.0)
    values[-288:] += 2.0
    values[-12:] += 3.0
    rows = fold(LoadSeries(MONDAY, 300, values**2, name="late"), zone_of("UTC"), 7 * 288)
    path = harmonics(Folded(rows, fill_gaps(rows)), rows.count, 7)
    assert path is not None
    assert path[0, 0] == pytest.approx(25.0, abs=1.5)
    assert 20.5 < path[0, 144] < 21.6
    assert path[6, -1] < 22.0


def test_the_first_weekend_says_nothing_of_the_second() -> None:
    """A weekend that no earlier one foretold counts neither in the shares nor in the band of the next."""
    moments = np.arange(0, 13 * DAY, 300)
    hour, day = moments % DAY / 3600, moments // DAY % 7
    load = np.where(day >= 5, 4.0, 1.0) * (20 + 15 * np.sin((hour - 9) / 24 * 2 * np.pi))
    known, actual = load[: 12 * 288], load[12 * 288 :]
    made = forecast(LoadSeries(MONDAY, 300, known, name="weekend"), Request(DAY, arima_seconds=0))
    assert np.abs(made.p50 - actual).mean() < 0.1 * actual.mean()
    assert made.p95.mean() < 1.3 * actual.mean()


def test_a_lower_level_of_working_days_lowers_the_weekend_by_the_same_share() -> None:
    """Weekends have twice the load; the load halves on the Thursday before the third."""
    day = np.arange(19 * 288) // 288
    load = np.where(day % 7 >= 5, 800.0, 400.0) * np.where(day >= 17, 0.5, 1.0)
    rows = fold(LoadSeries(MONDAY, 300, load, name="level"), zone_of("UTC"), 288)
    folded = Folded(rows, fill_gaps(rows))
    steady, followed = day_type(folded, rows.count, 1), day_level(folded, rows.count, 1)
    assert steady is not None and followed is not None
    assert steady[0] ** 2 == pytest.approx(np.full(288, 800.0))
    assert followed[0].min() ** 2 > 400.0 and followed[0].max() ** 2 < 600.0
