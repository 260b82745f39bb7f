"""Series that no schedule can be made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made import DAY, MONDAY, office

from inferdoc.errors import InferdocError
from inferdoc.forecast.series import LoadSeries
from inferdoc.prewarm.pools import fit_for_a_plan

USUAL = office(14)


def test_a_usual_load_is_fit_also_as_of_a_moment_in_between() -> None:
    fit_for_a_plan(USUAL, USUAL.end)
    fit_for_a_plan(USUAL, MONDAY + 7 * DAY, chosen=True)


def test_clocks_that_differ_by_minutes_are_no_future() -> None:
    fit_for_a_plan(USUAL, USUAL.end - 800)


def test_sparse_blips_are_no_counter() -> None:
    values = np.zeros(5000)
    values[::40] = 3.0
    fit_for_a_plan(replace(USUAL, values=values), USUAL.start + 5000 * 300)


def raw_counter() -> LoadSeries:
    """Requests ever counted, with a restart in the middle."""
    total = np.cumsum(USUAL.values)
    return replace(USUAL, values=np.where(np.arange(len(total)) < 2000, total, total - total[2000]))


@pytest.mark.parametrize(
    ("series", "later", "words"),
    [
        (USUAL, 2 * DAY, "2.0 days before the plan: collect again"),
        (USUAL, -2 * 3600, "2.0 hours after the plan: check the clock that stamped it (local time taken for UTC?)"),
        (USUAL, -40 * DAY, "40.0 days after the plan"),
        (LoadSeries(MONDAY, DAY, np.arange(30.0) % 7 + 1), 0, "bins of 24 h hold no times of day"),
        (raw_counter(), 0, "the values only grow, as a raw counter does"),
        (replace(USUAL, values=np.full(4000, np.nan)), 0, "no load was seen"),
    ],
)
def test_what_is_refused_in_one_line(series: LoadSeries, later: int, words: str) -> None:
    with pytest.raises(InferdocError) as refused:
        fit_for_a_plan(series, series.end + later)
    assert words in str(refused.value) and "\n" not in str(refused.value) and refused.value.exit_code == 2
