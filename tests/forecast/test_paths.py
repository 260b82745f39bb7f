"""The path of waves: what repeats so many times a day, or a week, is foreseen."""

from __future__ import annotations

import numpy as np
import pytest
from made import DAY, MONDAY

from inferdoc.forecast.calendar import fold, zone_of
from inferdoc.forecast.paths import Folded, fill_gaps, harmonics
from inferdoc.forecast.series import LoadSeries


@pytest.mark.parametrize(
    ("times", "per", "foreseen"),
    [(1, DAY, True), (8, DAY, True), (9, DAY, False), (1, 7 * DAY, True), (6, 7 * DAY, True), (8, 7 * DAY, False)],
)
def test_eight_waves_a_day_and_six_a_week_are_foreseen(times: int, per: int, foreseen: bool) -> None:
    moments = np.arange(0, 23 * DAY, 300)
    waves = 20 + 3 * np.sin(2 * np.pi * times * moments / per + 1.0)
    rows = fold(LoadSeries(MONDAY, 300, waves[: 21 * 288] ** 2, name="waves"), zone_of("UTC"), 288)
    path = harmonics(Folded(rows, fill_gaps(rows)), rows.count, 2)
    assert path is not None
    missed = float(np.abs(path[1] - waves[22 * 288 :]).max())
    assert (missed < 0.3) == foreseen, missed


def test_what_is_left_of_the_last_day_and_of_its_last_hour_fades_away() -> None:
    """The last hour counts for what it is off the last day, which is off all days before."""
    values = np.full(21 * 288, 20.0)
    values[-288:] += 2.0
    values[-12:] += 3.0
    rows = fold(LoadSeries(MONDAY, 300, values**2, name="late"), zone_of("UTC"), 288)
    path = harmonics(Folded(rows, fill_gaps(rows)), rows.count, 7)
    assert path is not None
    assert path[0, 0] == pytest.approx(25.0, abs=0.6)
    assert 20.5 < path[0, 144] < 21.6
    assert path[6, -1] == pytest.approx(20.0, abs=1.0)
