"""Plans made anew each day from what was known then, and the floor that whoever follows them holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.engine import HISTORY_DAYS, forecast
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.prewarm.build import Wish, ahead_at, shaped
from inferdoc.prewarm.plan import pool_plan
from inferdoc.prewarm.week import minute_of_week


@dataclass(frozen=True)
class WalkedDay:
    """A day and what was forecast at its beginning. begin, end: Unix seconds, at most a day apart; known: the load up
    to then; result: the forecast of the plan's horizon."""

    begin: int
    end: int
    known: LoadSeries
    result: Forecast

    @property
    def minutes(self) -> int:
        return (self.end - self.begin) // 60


def walk(series: LoadSeries, wish: Wish, begin: int, levels: Sequence[float]) -> list[WalkedDay]:
    """The days of a series from Unix seconds `begin` to its end, each forecast from what was known before it. levels:
    quantiles that the forecasts hold; series: outages already taken for gaps."""
    wanted = tuple(sorted({0.5, 0.95, *levels}))
    asked = replace(wish.request, begin=None, levels=wanted, keep_outages=True, followed=None)
    days = []
    for moment in range(begin, series.end, DAY):
        known = series.before(moment, HISTORY_DAYS)
        days.append(WalkedDay(moment, min(moment + DAY, series.end), known, forecast(known, asked)))
    return days


def followed(days: Sequence[WalkedDay], wish: Wish) -> np.ndarray:
    """int64[minutes]: the floor of each day's own plan, one after another; the minimum where the forecast abstains.
    Raises InferdocError where a plan would hold the maximum all week."""
    zone, parts = zone_of(wish.request.zone), []
    for day in days:
        row = shaped(ahead_at(day.known, day.result, wish), replace(wish, previous=None))
        floor, first = pool_plan(row).floor, minute_of_week(day.begin, zone)
        parts.append(floor[(first + np.arange(day.minutes)) % len(floor)])
    return np.concatenate(parts)
