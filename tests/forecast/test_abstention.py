"""A forecast near the limit of skill does not act one night and abstain the next."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from made import DAY, noise, office

from inferdoc.forecast.engine import MIN_SKILL, Request, forecast
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import LoadSeries

NIGHTS = range(14, 40)


def weak(share: float) -> LoadSeries:
    """Bursts on a daily wave of which the forecast has a skill of about 0.2 to 0.3."""
    base = noise(40, seed=7)
    hour = np.arange(len(base.values)) % 288 / 12
    return replace(base, values=base.values * (1 + share * np.sin((hour - 9) / 24 * 2 * np.pi)))


def nights(series: LoadSeries, remembering: bool) -> list[Forecast]:
    made: list[Forecast] = []
    for night in NIGHTS:
        followed = not made[-1].abstained if made and remembering else None
        request = Request(DAY, arima_seconds=0, followed=followed)
        made.append(forecast(series.before(series.start + night * DAY), request))
    return made


def turns(made: list[Forecast]) -> int:
    return sum(one.abstained != other.abstained for one, other in pairwise(made))


@pytest.mark.parametrize(("share", "lasting"), [(0.92, 1), (0.95, 0)])
def test_it_stays_with_what_it_did(share: float, lasting: int) -> None:
    """The skill of these loads falls slowly: that of the first for good below the limit."""
    series = weak(share)
    forgetful, steady = nights(series, False), nights(series, True)
    assert turns(forgetful) >= 4
    assert turns(steady) == lasting
    assert steady[-1].abstained == (lasting == 1)


def test_a_clear_skill_is_acted_on_whatever_went_before() -> None:
    for followed in (True, False, None):
        assert not forecast(office(21), Request(DAY, arima_seconds=0, followed=followed)).abstained
        made = forecast(noise(21), Request(DAY, arima_seconds=0, followed=followed))
        assert made.abstained and made.skill is not None and made.skill < MIN_SKILL


def test_what_it_takes_to_act_again_is_said() -> None:
    series = weak(0.95).before(weak(0.95).start + 18 * DAY)
    made = forecast(series, Request(DAY, arima_seconds=0, followed=False))
    assert made.abstained and made.reason.endswith("is needed (0.25 and its error, to act again)")
