"""Replays a load minute by minute against a scaler: what was overloaded, and what was paid."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.engine import HISTORY_DAYS, forecast
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.prewarm.build import PoolOptions, ahead_at, shaped
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


def walk(series: LoadSeries, options: PoolOptions, begin: int, levels: Sequence[float]) -> list[WalkedDay]:
    """The days of a series from Unix seconds `begin` to its end, each forecast from what was known before it. levels:
    quantiles that the forecasts hold; series: outages already taken for gaps."""
    quantiles = tuple(sorted({0.5, 0.95, *levels}))
    request = replace(options.request, begin=None, levels=quantiles, keep_outages=True, followed=None)
    days = []
    for moment in range(begin, series.end, DAY):
        known = series.before(moment, HISTORY_DAYS)
        days.append(WalkedDay(moment, min(moment + DAY, series.end), known, forecast(known, request)))
    return days


def followed(days: Sequence[WalkedDay], options: PoolOptions) -> np.ndarray:
    """int64[minutes]: the floor of each day's own plan, one after another; the minimum where the forecast abstains.
    Raises InferdocError where a plan would hold the maximum all week."""
    zone, parts = zone_of(options.request.zone), []
    for day in days:
        row = shaped(ahead_at(day.known, day.result, options), replace(options, previous=None))
        floor, first = pool_plan(row).floor, minute_of_week(day.begin, zone)
        parts.append(floor[(first + np.arange(day.minutes)) % len(floor)])
    return np.concatenate(parts)


TARGET = 0.70
TOLERANCE = 0.10
HOLD_MINUTES = 5


@dataclass(frozen=True)
class ReplayOutcome:
    """overload: share of requests above what ready replicas can serve; minutes: with any overload; hours: replica-hours
    paid; top: most replicas at once; requests: all of them."""

    overload: float
    minutes: int
    hours: float
    top: int
    requests: float
    excess: float


@dataclass(frozen=True)
class Site:
    """capacity: load per minute one replica can serve; cold: minutes from creation to ready; minimum, maximum:
    replicas."""

    capacity: float
    cold: int
    minimum: int = 1
    maximum: int = 100_000


def per_minute(series: LoadSeries) -> np.ndarray:
    """float64[minutes]: load per minute, spread evenly inside each bin; NaN for gaps. Bins shorter than a minute are
    summed."""
    if series.step < 60:
        series = series.coarser(60 * max(1, round(series.step / 60)))
    minutes = series.step // 60
    share = 60.0 / series.step if series.kind == "amount" else 60.0
    return np.repeat(series.values * share, minutes)


def reactive(load: np.ndarray, site: Site, floor: np.ndarray | None = None) -> np.ndarray:
    """int64[n]: replicas paid by a scaler like the HPA (desired = load a minute ago at 70 % of capacity, 10 %
    tolerance, scale-down to the highest desired number of five minutes) that never goes below `floor` (int64[n]). A gap
    in the load keeps the last desired number."""
    count = len(load)
    paid = np.empty(count, dtype=np.int64)
    unit = TARGET * site.capacity
    first = load[np.isfinite(load)]
    now = max(site.minimum, math.ceil(first[0] / unit) if len(first) else site.minimum)
    recent: deque[int] = deque(maxlen=HOLD_MINUTES)
    seen = float(first[0]) if len(first) else 0.0
    for minute in range(count):
        past = load[minute - 1] if minute else seen
        seen = float(past) if past == past else seen
        ratio = seen / (now * unit) if now else math.inf if seen > 0 else 1.0
        desired = now if abs(ratio - 1.0) <= TOLERANCE else math.ceil(seen / unit - 1e-9)
        recent.append(desired)
        now = desired if desired > now else min(now, max(recent))
        low = site.minimum if floor is None else max(site.minimum, int(floor[minute]))
        now = min(max(now, low), site.maximum)
        paid[minute] = now
    return paid


def oracle(load: np.ndarray, site: Site) -> np.ndarray:
    """int64[n]: replicas paid with perfect foresight: the desired number of each minute is started a cold start
    earlier. A gap in the load keeps the last desired number, as for the reactive scaler."""
    at = np.maximum.accumulate(np.where(np.isfinite(load), np.arange(len(load)), 0))
    known = np.nan_to_num(load[at])
    desired = np.clip(np.ceil(known / (TARGET * site.capacity) - 1e-9), site.minimum, site.maximum).astype(np.int64)
    return highest_ahead(desired, site.cold)


def highest_ahead(values: np.ndarray, minutes: int) -> np.ndarray:
    """The maximum of each value and the next `minutes` ones."""
    padded = np.concatenate([values, np.repeat(values[-1:], minutes)])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, minutes + 1).max(axis=1))


def unserved(load: np.ndarray, paid: np.ndarray, site: Site) -> np.ndarray:
    """float64[n]: the load above what ready replicas serve, minute by minute; NaN in gaps of the load. A replica serves
    once it was paid for a whole cold start; the youngest leave first."""
    padded = np.concatenate([np.repeat(paid[:1], site.cold), paid])
    ready = np.lib.stride_tricks.sliding_window_view(padded, site.cold + 1).min(axis=1)
    return np.asarray(np.maximum(load - ready * site.capacity, 0.0))


def judge(load: np.ndarray, paid: np.ndarray, site: Site, skip: int = 0) -> ReplayOutcome:
    """The outcome of paying `paid`, without the first `skip` minutes."""
    over = unserved(load, paid, site)[skip:]
    load, paid = load[skip:], paid[skip:]
    known = np.isfinite(load)
    over = over[known]
    total = float(load[known].sum())
    excess = float(over.sum())
    return ReplayOutcome(
        overload=excess / total if total > 0 else 0.0,
        minutes=int((over > 1e-9).sum()),
        hours=float(paid.sum()) / 60,
        top=int(paid.max(initial=0)),
        requests=total,
        excess=excess,
    )
