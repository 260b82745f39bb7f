"""Local days that follow the wall clock through daylight saving."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from made import office

from inferdoc.errors import InferdocError
from inferdoc.forecast.calendar import fold, local_seconds, zone_of
from inferdoc.forecast.series import LoadSeries

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]


@pytest.mark.parametrize("name", ZONES)
def test_local_seconds_agree_with_zoneinfo_through_a_year(name: str) -> None:
    zone = ZoneInfo(name)
    times = np.arange(1767225600, 1767225600 + 366 * 86400, 1700, dtype=np.int64)
    expected = []
    for moment in times.tolist():
        offset = datetime.fromtimestamp(moment, UTC).astimezone(zone).utcoffset()
        assert offset is not None
        expected.append(moment + int(offset.total_seconds()))
    assert local_seconds(times, zone).tolist() == expected


def test_a_zone_that_does_not_exist_is_one_clear_line() -> None:
    for name in ("Europe/Berln", "", "../etc/passwd"):
        with pytest.raises(InferdocError, match="does not exist; give an IANA name"):
            zone_of(name)


def hours_of(start: str, days: float) -> LoadSeries:
    """Each value is its own local hour of the day in New York."""
    begin = int(datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp())
    times = begin + 3600 * np.arange(round(days * 24))
    hour = local_seconds(times, ZoneInfo("America/New_York")) % 86400 // 3600
    return LoadSeries(start=begin, step=3600, values=hour.astype(np.float64))


@pytest.mark.parametrize("start", ["2026-03-05T05:00", "2026-10-29T04:00"])
def test_columns_keep_their_local_hour_over_both_clock_changes(start: str) -> None:
    rows = fold(hours_of(start, 6), ZoneInfo("America/New_York"), 24)
    hours = np.round(rows.z**2)
    for column in range(24):
        known = hours[:, column][np.isfinite(hours[:, column])]
        assert len(set(known.tolist())) == 1


def test_forecast_steps_keep_their_place_over_a_day_of_25_hours() -> None:
    rows = fold(hours_of("2026-10-25T04:00", 6), ZoneInfo("America/New_York"), 49)
    hour_now = np.round(rows.z[-1] ** 2)[rows.col]
    ahead = hours_of("2026-10-31T04:00", 49 / 24).values
    assert hour_now.tolist() == ahead.tolist()


def test_weekends_rest_and_a_holiday_is_known_apart() -> None:
    """A holiday on a working day is no resting day: it is filled, and forecast, as the usual day."""
    rows = fold(office(7), ZoneInfo("UTC"), 288, [date(2026, 3, 4), date(2026, 3, 7)])
    assert rows.resting[:, 0].tolist() == [False, False, False, False, False, True, True, False]
    assert rows.holiday[:, 0].tolist() == [False, False, True, False, False, False, False]
    assert np.isnan(rows.z[2]).all()
    assert np.isfinite(rows.on_holiday[2]).all()
