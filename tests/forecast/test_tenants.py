"""Loads that are told by tenant: forecast apart where that is better, and never for the worse where it is not."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from made import DAY, noise, office

from inferdoc.errors import SourceError
from inferdoc.forecast.agenda import from_csv
from inferdoc.forecast.combine import APART, MOST, largest
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.series import LoadSeries

REQUEST = Request(DAY, arima_seconds=0.0)


def night_job(days: int = 24) -> LoadSeries:
    """Every third night from one to four o'clock."""
    usual = office(days)
    hour, day = usual.times % DAY / 3600, (usual.times - usual.start) // DAY
    values = np.where((hour >= 1) & (hour < 4) & (day % 3 == 0), 300.0, 0.0)
    return replace(usual, values=values, name="job")


def pool(*parts: LoadSeries) -> LoadSeries:
    return replace(parts[0], values=np.sum([part.values for part in parts], axis=0), parts=parts, name="pool")


def error(series: LoadSeries, origins: range) -> float:
    """Mean absolute error of the day after each origin, in days from the beginning of the data."""
    found = []
    for day in origins:
        at = series.start + day * DAY
        actual = series.values[day * 288 : (day + 1) * 288]
        found.append(np.abs(forecast(series.before(at), REQUEST).p50 - actual).mean())
    return float(np.mean(found))


def growing(days: int = 24) -> LoadSeries:
    """An office whose level drifts, on a clock eight hours away."""
    usual = office(days, seed=5, zone="Asia/Tokyo")
    return replace(usual, values=usual.values * 1.06 ** ((usual.times - usual.start) / DAY))


def test_tenants_that_live_by_rhythms_of_their_own_are_better_told_apart() -> None:
    whole = pool(growing(), night_job())
    apart, together = error(whole, range(14, 23)), error(replace(whole, parts=()), range(14, 23))
    assert apart < together


def test_a_crowd_without_rhythm_beside_an_office_does_no_harm() -> None:
    whole = pool(office(24), *(noise(24, seed=seed) for seed in (3, 4, 5)))
    apart, together = error(whole, range(14, 20)), error(replace(whole, parts=()), range(14, 20))
    assert apart < 1.03 * together


def test_the_share_of_tenants_apart_is_told_and_all_shares_are_one() -> None:
    result = forecast(pool(growing(), night_job()), REQUEST)
    assert result.weights[APART] > 0.2 and sum(result.weights.values()) == pytest.approx(1)
    assert APART not in forecast(growing(), REQUEST).weights
    assert APART not in forecast(pool(growing(), night_job()), replace(REQUEST, model="naive")).weights


def test_no_forecast_knows_what_a_tenant_did_after_its_origin() -> None:
    whole = pool(growing(), night_job())
    at = whole.start + 15 * DAY
    later = pool(*(replace(p, values=np.where(p.times < at, p.values, 9999.0)) for p in whole.parts))
    same, other = (forecast(each.before(at), REQUEST) for each in (whole, later))
    assert same.p50.tolist() == other.p50.tolist() and same.p95.tolist() == other.p95.tolist()
    as_of = forecast(later, replace(REQUEST, begin=at))
    assert as_of.p50.tolist() == same.p50.tolist()


def test_a_tenant_that_came_yesterday_or_left_breaks_nothing() -> None:
    usual, born, gone = growing(), night_job(), office(24, seed=9)
    born = replace(born, values=np.where(born.times < born.end - DAY, 0.0, 50.0))
    gone = replace(gone, values=np.where(gone.times < gone.end - 3 * DAY, gone.values, 0.0))
    result = forecast(pool(usual, born, gone), REQUEST)
    assert np.isfinite(result.p95).all() and (result.p95 >= result.p50).all()


def test_a_hole_in_the_whole_is_one_in_each_tenant() -> None:
    whole = pool(growing(), night_job())
    hole = (whole.times >= whole.start + 20 * DAY) & (whole.times < whole.start + 20.5 * DAY)
    marked = replace(whole, values=np.where(hole, np.nan, whole.values))
    zeroed = replace(marked, parts=tuple(replace(p, values=np.where(hole, 0.0, p.values)) for p in whole.parts))
    assert forecast(marked, REQUEST).p50.tolist() == forecast(zeroed, REQUEST).p50.tolist()


def test_the_smallest_tenants_are_one_together() -> None:
    parts = [replace(office(2), values=np.full(576, float(size)), name=str(size)) for size in range(1, MOST + 4)]
    found = largest(parts)
    assert [part.name for part in found] == [*map(str, range(MOST + 3, 3, -1)), "others"]
    assert found[-1].values[0] == 1 + 2 + 3


def read(text: str) -> LoadSeries:
    return from_csv("-", stdin=io.BytesIO(text.encode()))


def test_a_column_of_tenants_is_summed_and_one_without_a_row_was_idle() -> None:
    series = read("timestamp,tenant,value\n0,a,1\n0,b,2\n300,a,3\n600,b,4\n600,a,\n900,a,5\n")
    assert series.values[[0, 1, 3]].tolist() == [3, 3, 5] and np.isnan(series.values[2])
    assert {part.name: np.nan_to_num(part.values, nan=-1).tolist() for part in series.parts} == {
        "a": [1, 3, -1, 5],
        "b": [2, 0, 4, 0],
    }


def test_a_file_with_one_tenant_is_a_file_without() -> None:
    series = read("timestamp,value,tenant\n0,1,a\n300,2,a\n")
    assert series.parts == () and series.values.tolist() == [1, 2]


def test_a_file_of_thousands_of_tenants_keeps_the_largest() -> None:
    rows = "".join(f"{300 * i},{i % 7 + 1},t{i % 500}\n" for i in range(1000))
    series = read(f"timestamp,value,tenant\n{rows}")
    assert len(series.parts) == 101 and series.parts[-1].name == "all other tenants"
    assert sum(part.values.sum() for part in series.parts) == series.values.sum() == sum(i % 7 + 1 for i in range(1000))


def test_two_values_of_one_tenant_at_one_time_are_one_line() -> None:
    with pytest.raises(SourceError) as refused:
        read("timestamp,value,tenant\n0,1,a\n0,2,b\n0,3,a\n300,1,a\n")
    assert "line 4: 0 occurs twice with different values (1, 3) for tenant a" in str(refused.value)
