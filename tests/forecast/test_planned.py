"""Holidays and planned events: on clean data they hold to the bin, whichever model forecasts."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from inferdoc.errors import InferdocError
from inferdoc.forecast.agenda import PlannedEvent, event_of, factors, read_calendar
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.series import DAY, LoadSeries

STEP = 900
MODELS = ("combination", "naive")
"""The seasonal models of statsmodels take minutes on a busy machine, and one of them knows no week."""
MONDAY = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp())
"""The load begins on a Monday; nights, working days and quiet weekends, without noise."""
HOLIDAY = date(2026, 11, 25)
BERLIN = ZoneInfo("Europe/Berlin")


def usual(days: int, resting: tuple[date, ...] = ()) -> LoadSeries:
    times = MONDAY + STEP * np.arange(days * DAY // STEP)
    hour = times % DAY / 3600
    day = times // DAY
    quiet = ((day + 3) % 7 >= 5) | np.isin(day, [d.toordinal() - date(1970, 1, 1).toordinal() for d in resting])
    load = (20.0 + 80.0 * np.exp(-(((hour - 14.0) / 4.0) ** 2))) * np.where(quiet, 0.3, 1.0)
    return LoadSeries(name="made", start=MONDAY, step=STEP, values=load, kind="rate", unit="requests/s")


def bias(made: np.ndarray, true: np.ndarray) -> float:
    return float(made.sum() / true.sum() - 1.0)


@pytest.mark.parametrize("model", MODELS)
def test_a_holiday_is_forecast_like_a_sunday(model: str) -> None:
    known, begin = usual(28).before(MONDAY + 23 * DAY), MONDAY + 23 * DAY
    true = usual(28, (HOLIDAY,)).values[23 * DAY // STEP : 24 * DAY // STEP]
    request = {"horizon": DAY, "model": model, "begin": begin, "never_abstain": True}
    blind = forecast(known, Request(**request))
    told = forecast(known, Request(**request, holidays=(HOLIDAY,)))
    assert bias(blind.mean, true) > 1.0
    assert abs(bias(told.mean, true)) < 0.1
    assert any("taken for Sundays: 2026-11-25" in note for note in told.notes)


@pytest.mark.parametrize("model", MODELS)
def test_a_holiday_of_the_past_does_not_come_back_a_week_later(model: str) -> None:
    known, true = usual(30, (HOLIDAY,)), usual(31).values[-DAY // STEP :]
    told = forecast(known, Request(horizon=DAY, model=model, holidays=(HOLIDAY,), never_abstain=True))
    assert abs(bias(told.mean, true)) < 0.1


@pytest.mark.parametrize("model", MODELS)
def test_an_event_multiplies_its_hours_and_no_others(model: str) -> None:
    known, end = usual(21), MONDAY + 21 * DAY
    event = PlannedEvent(end + 9 * 3600, end + 11 * 3600, 3.0, "Launch")
    plain = forecast(known, Request(horizon=DAY, model=model, never_abstain=True))
    told = forecast(known, Request(horizon=DAY, model=model, events=(event,), never_abstain=True))
    inside = np.zeros(DAY // STEP, dtype=bool)
    inside[9 * 4 : 11 * 4] = True
    for level in plain.quantiles:
        np.testing.assert_allclose(told.quantiles[level][inside], 3.0 * plain.quantiles[level][inside])
        np.testing.assert_array_equal(told.quantiles[level][~inside], plain.quantiles[level][~inside])
    assert any("Launch: x3 from 2026-11-23T09:00:00Z" in note for note in told.notes)


def test_an_event_of_the_past_is_not_learned() -> None:
    launched, plain = usual(28), usual(28)
    event = PlannedEvent(MONDAY + 26 * DAY + 9 * 3600, MONDAY + 26 * DAY + 17 * 3600, 5.0)
    inside = slice((event.start - MONDAY) // STEP, (event.end - MONDAY) // STEP)
    launched.values[inside] *= 5.0
    true = usual(35).values[28 * DAY // STEP :]
    request = Request(horizon=7 * DAY, events=(event,))
    assert abs(bias(forecast(launched, request).mean, true)) < 0.02
    assert bias(forecast(launched, Request(horizon=7 * DAY)).mean, true) > 0.02
    assert abs(bias(forecast(plain, request).mean, true)) < 0.02


def test_half_a_bin_is_multiplied_by_half() -> None:
    event = PlannedEvent(1800, 4500, 3.0)
    assert factors(0, 3600, 3, (event,)).tolist() == [2.0, 1.5, 1.0]


def test_an_event_of_the_command_line_is_of_the_clock_of_the_zone() -> None:
    nine = int(datetime(2026, 12, 1, 8, tzinfo=UTC).timestamp())
    assert event_of("2026-12-01T09:00,2h,x3", BERLIN) == PlannedEvent(nine, nine + 7200, 3.0)
    assert event_of("2026-12-01T08:00:00Z, 2h, ×3", BERLIN) == PlannedEvent(nine, nine + 7200, 3.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-12-01", "write when, how long and how much"),
        ("2026-12-01T09:00,2h,3", "write when, how long and how much"),
        ("tomorrow,2h,x3", "`tomorrow` is not a time"),
        ("2026-12-01T09:00,soon,x3", "soon"),
        ("2026-12-01T09:00,0s,x3", "ends before it begins"),
    ],
)
def test_an_event_that_cannot_be_read_is_one_line(text: str, said: str) -> None:
    with pytest.raises(InferdocError, match=said):
        event_of(text, BERLIN)


ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//made//EN
BEGIN:VEVENT
UID:1
SUMMARY:Christmas
DTSTART;VALUE=DATE:20261225
DTEND;VALUE=DATE:20261227
END:VEVENT
BEGIN:VEVENT
UID:2
SUMMARY:Weekly digest x1.5
DTSTART;TZID=Europe/Berlin:20261201T090000
DTEND;TZID=Europe/Berlin:20261201T100000
RRULE:FREQ=WEEKLY;COUNT=3
END:VEVENT
BEGIN:VEVENT
UID:3
SUMMARY:Board meeting
DTSTART:20261203T090000
DTEND:20261203T100000
END:VEVENT
END:VCALENDAR
"""


def test_a_calendar_holds_holidays_and_events(tmp_path) -> None:
    path = tmp_path / "team.ics"
    path.write_text(ICS, "utf-8")
    begin, end = (int(datetime(2026, month, 1, tzinfo=UTC).timestamp()) for month in (11, 12))
    holidays, events, others = read_calendar(str(path), BERLIN, begin, end + 30 * DAY)
    assert holidays == (date(2026, 12, 25), date(2026, 12, 26))
    first = int(datetime(2026, 12, 1, 8, tzinfo=UTC).timestamp())
    weekly = [PlannedEvent(first + n * 7 * DAY, first + n * 7 * DAY + 3600, 1.5, "Weekly digest") for n in range(3)]
    assert list(events) == weekly
    assert others == ["Board meeting"]


def test_a_file_that_is_no_calendar_is_one_line(tmp_path) -> None:
    path = tmp_path / "team.ics"
    path.write_text("2026-12-25\n", "utf-8")
    with pytest.raises(InferdocError, match=r"team\.ics: not a calendar"):
        read_calendar(str(path), BERLIN, MONDAY, MONDAY + DAY)
