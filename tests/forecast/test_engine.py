"""Forecasts: shape of the answer, calibration, abstention, and thin or damaged input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made import DAY, MONDAY, noise, office

from inferdoc.errors import InferdocError
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import LoadSeries, without_outages


def made(series: LoadSeries, horizon: int = DAY, **asked: object) -> Forecast:
    # ARIMA's budget is of the wall clock: on a busy machine one of two fits would be left out.
    result = forecast(series, Request(**{"horizon": horizon, "arima_seconds": 600.0, **asked}))  # type: ignore[arg-type]
    count = horizon // series.step
    assert len(result.mean) == len(result.p50) == len(result.p95) == count
    for values in (result.mean, result.p50, result.p95, result.p95 - result.p50):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
    return result


def plain(count: int, value: float = 5.0, step: int = 300) -> LoadSeries:
    return LoadSeries(start=MONDAY, step=step, values=np.full(count, value))


def test_a_rhythm_is_forecast_better_than_every_rival() -> None:
    whole = office(22)
    result = made(whole.before(whole.end - DAY))
    actual = whole.values[-288:]
    assert not result.abstained
    assert result.skill is not None and result.skill > 0.8
    assert result.start == whole.end - DAY
    assert np.abs(actual - result.p50).mean() < 1.3 * np.abs(
        actual - office(22, seed=9).values[-288:]
    ).mean() / np.sqrt(2)
    assert 0.85 <= (actual <= result.p95).mean() <= 1.0
    assert min(result.errors, key=lambda name: result.errors[name]) == "combination"


@pytest.mark.parametrize("days", [9, 14, 60])
def test_nine_days_two_weeks_and_two_months_of_history_do(days: int) -> None:
    assert not made(office(days)).abstained


@pytest.mark.parametrize(("days", "reason"), [(2 / 24, "0.1 days of history"), (2, "2.0 days of history")])
def test_two_hours_and_two_days_abstain_with_a_usable_baseline(days: float, reason: str) -> None:
    result = made(office(days))
    assert result.abstained
    assert reason in result.reason
    assert result.method.startswith("baseline")


@pytest.mark.parametrize("horizon", [900, 3600, 6 * 3600, 2 * DAY, 7 * DAY])
def test_horizons_from_a_quarter_of_an_hour_to_a_week(horizon: int) -> None:
    assert not made(office(21), horizon).abstained


@pytest.mark.parametrize("step", [10, 60, 420, 600, 1800, 3600, 7200])
def test_other_steps_than_five_minutes(step: int) -> None:
    days = 4 if step < 60 else 15
    result = made(office(days, step=step, peak=4 * step))
    assert not result.abstained
    assert abs(result.p50.sum() / office(1, step=step, peak=4 * step).values.sum() - 1) < 0.25


def test_bursts_without_rhythm_abstain_and_say_the_skill() -> None:
    result = made(noise())
    assert result.abstained
    assert "no usable rhythm" in result.reason
    assert result.skill is not None and result.skill < 0.25


def test_two_points_abstain_with_a_band_between_them() -> None:
    result = made(LoadSeries(start=MONDAY, step=300, values=np.array([100.0, 400.0])))
    assert result.abstained
    assert 150 < result.p50[0] < 300 < result.p95[0] < 500


def test_all_zeros_abstain_with_a_band_of_zero() -> None:
    result = made(plain(14 * 288, 0.0))
    assert result.abstained
    assert result.p95.max() == 0


def test_one_spike_abstains() -> None:
    series = plain(14 * 288, 0.0)
    series.values[2000] = 1000.0
    assert made(series).abstained


def test_after_a_month_of_gap_history_begins_anew() -> None:
    series = office(45)
    series.values[10 * 288 : 40 * 288] = np.nan
    after = made(series)
    assert not after.abstained
    assert after.history_days == 5
    series.values[10 * 288 : 43 * 288] = np.nan
    assert "2.0 days of history" in made(series).reason


def test_a_history_full_of_holes_abstains() -> None:
    series = office(21)
    series.values[np.random.default_rng(3).random(len(series.values)) < 0.4] = np.nan
    result = made(series)
    assert result.abstained
    assert "of the history is missing" in result.reason


def test_gaps_in_the_peak_do_not_pull_the_next_peak_down() -> None:
    whole = office(15)
    holed = replace(whole, values=whole.values.copy())
    for day in (9, 10, 11, 12):
        holed.values[day * 288 + 150 : day * 288 + 190] = np.nan
    peak = slice(150, 190)
    assert abs(made(holed).p50[peak].mean() / made(whole).p50[peak].mean() - 1) < 0.1


def test_an_outage_stored_as_zeros_is_taken_for_a_gap() -> None:
    whole = office(15)
    down = replace(whole, values=whole.values.copy())
    down.values[13 * 288 + 100 : 13 * 288 + 190] = 0
    repaired = without_outages(down)
    assert "looks like an outage" in repaired.notes[0]
    assert np.isnan(repaired.values[13 * 288 + 100 : 13 * 288 + 190]).all()


def test_a_job_that_rests_every_night_is_no_outage() -> None:
    series = office(14)
    quiet = replace(series, values=np.where(series.times % DAY < 8 * 3600, 0.0, series.values))
    assert without_outages(quiet) is quiet


def test_the_clock_change_moves_the_peak_with_the_local_clock() -> None:
    before_change = MONDAY + 5 * DAY
    whole = office(29, zone="America/New_York", start=before_change - 28 * DAY)
    whole = replace(whole, values=office(30, zone="America/New_York", start=before_change - 28 * DAY).values)
    known = whole.before(before_change + DAY)
    actual = whole.values[len(known.values) : len(known.values) + 288]
    local = made(known, zone="America/New_York")
    utc = made(known, zone="UTC")
    assert np.abs(local.p50 - actual).mean() < 0.6 * np.abs(utc.p50 - actual).mean()


def test_from_uses_only_what_was_known_then() -> None:
    whole = office(21)
    then = whole.end - 2 * DAY
    assert np.array_equal(made(whole, begin=then).p50, made(whole.before(then)).p50)


def test_from_after_the_data_bridges_the_stretch_between() -> None:
    whole = office(21)
    result = made(whole, begin=whole.end + 6 * 3600)
    assert result.start == whole.end + 6 * 3600
    assert np.allclose(result.p50[:100], made(whole).p50[72:172], rtol=1e-3)


def test_the_same_input_gives_the_same_numbers() -> None:
    first, second = made(office()), made(office())
    assert np.array_equal(first.p95, second.p95)


@pytest.mark.parametrize("model", ["naive", "sarima", "dhr"])
def test_named_models_answer(model: str) -> None:
    result = made(office(9, step=7200, peak=4000), model=model)
    assert not result.abstained
    assert result.method != "combination"


def test_arima_is_a_path_of_the_combination_and_within_its_time() -> None:
    series = office(21)
    with_it = made(series)
    assert with_it.method == "combination" and 0 < with_it.weights["arima"] < 1
    assert abs(sum(with_it.weights.values()) - 1) < 1e-9
    for seconds in (0.0, 1e-9):
        without = made(series, arima_seconds=seconds)
        assert "arima" not in without.weights and not without.abstained
    assert not np.array_equal(with_it.p50, without.p50)


def test_nonsense_requests_are_one_clear_line() -> None:
    for asked, said in [
        ({"horizon": 60}, "shorter than one step"),
        ({"horizon": 60 * DAY}, "more than 35 days"),
        ({"horizon": DAY, "model": "oracle"}, "not known"),
        ({"horizon": DAY, "zone": "Mars/Base"}, "does not exist"),
        ({"horizon": DAY, "begin": MONDAY - DAY}, "nothing before --from"),
    ]:
        with pytest.raises(InferdocError, match=said):
            forecast(office(9), Request(**asked))  # type: ignore[arg-type]


def test_a_holiday_is_forecast_like_a_weekend_and_said() -> None:
    from datetime import date

    whole = office(28)
    known = whole.before(whole.end - 4 * DAY)  # the next day is a Thursday
    plain, rest = made(known), made(known, holidays=[date(2026, 3, 26)])
    assert rest.p50.sum() < 0.9 * plain.p50.sum()
    assert "2026-03-26" in rest.notes[-1]
    assert made(known, holidays=[date(2027, 1, 1)]).notes == ()


def test_counting_noise_is_called_by_its_name() -> None:
    assert any("counting noise" in note for note in made(office(14, peak=1.0)).notes)


@pytest.mark.parametrize("step", [7, 86_400, 7 * 86_400])
def test_steps_that_do_not_divide_a_day_or_span_several(step: int) -> None:
    values = np.random.default_rng(6).poisson(50, size=60_000 if step < 60 else 60).astype(np.float64)
    made(LoadSeries(start=MONDAY, step=step, values=values), 2 * max(step, 4200))


def test_a_model_that_cannot_be_fitted_says_so_and_the_combination_stands_in() -> None:
    result = made(office(9, step=420, peak=900), 420 * 200, model="sarima")
    assert result.method == "combination"
    assert "sarima could not be fitted" in result.notes[0]
