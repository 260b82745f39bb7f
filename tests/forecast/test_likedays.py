"""The path of like days."""

from __future__ import annotations

import numpy as np

from inferdoc.forecast.calendar import fold, zone_of
from inferdoc.forecast.paths import Folded, day, fill_gaps, like_days, week
from inferdoc.forecast.series import LoadSeries
from tests.forecast.made import DAY, MONDAY, office

BUSY = slice(20, 40)


def every_third_day(days: int) -> LoadSeries:
    """A job that runs on every third night, after a day that prepares it; the week has no part in it."""
    rng = np.random.default_rng(7)
    rows = rng.poisson(30.0, size=(days, 288)).astype(np.float64)
    rows[2::3, BUSY] += 600.0
    rows[1::3, 200:230] += 90.0
    return LoadSeries(start=MONDAY, step=300, values=rows.reshape(-1), name="job")


def folded_of(series: LoadSeries) -> Folded:
    rows = fold(series, zone_of("UTC"), 288)
    return Folded(rows, fill_gaps(rows))


def test_what_followed_days_like_the_last_one() -> None:
    for days, job in ((23, True), (24, False), (25, False)):
        folded = folded_of(every_third_day(days))
        path = like_days(folded, folded.count, 1)
        assert path is not None
        load = float((path[0, BUSY] ** 2).mean())
        assert load > 450 if job else load < 150, (days, load)
        for profile in (day, week):
            averaged = profile(folded, folded.count, 1)
            assert averaged is not None and 5 < (averaged[0, BUSY] ** 2).mean() < 450


def test_a_weekend_follows_days_before_weekends() -> None:
    friday = folded_of(office(26))
    path = like_days(friday, friday.count, 2)
    assert path is not None and path.shape == (2, 288)
    saturday = office(27).values[-288:]
    assert abs((path[0] ** 2).sum() / saturday.sum() - 1) < 0.15


def test_a_level_that_moved_is_followed_half_way() -> None:
    series = office(22)
    series.values[-288:] *= 4.0
    folded = folded_of(series)
    path = like_days(folded, folded.count, 1)
    usual = like_days(folded, folded.count - 1, 1)
    assert path is not None and usual is not None
    moved, before = float(path.mean()), float(usual.mean())
    assert 1.2 * before < moved < 1.8 * before


def test_three_days_are_needed() -> None:
    short = folded_of(office(4))
    assert like_days(short, 3, 1) is None
    assert like_days(short, 4, 1) is not None
    holed = office(14)
    holed.values[DAY // 300 : 12 * 288] = np.nan
    folded = folded_of(holed)
    assert like_days(folded, folded.count, 1) is None
