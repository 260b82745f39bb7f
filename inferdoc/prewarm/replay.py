"""Replays a load minute by minute against a scaler, and tunes a plan by that (`prewarm plan --tune backtest`).

Each of the last days is planned from what was known before it, with every setting of a small grid, and replayed against
the load that came. The cheapest setting that avoids enough overload at a fair price is taken."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.engine import HISTORY_DAYS, forecast
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import DAY, LoadSeries, without_outages
from inferdoc.prewarm.build import Outlook, ahead_at, shaped
from inferdoc.prewarm.plan import PoolRow, SettingRow, TuningRow, pool_plan
from inferdoc.prewarm.plan_options import AVOIDED, PRICE, PoolOptions, Setting
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


REPLAYED_DAYS = 7
"""One of each day of the week."""
KNOWN_DAYS = 7
"""Days of history before each replayed day: with less than a week, plans differ from today's."""
FEWEST_DAYS = 3
STAYS = 0.05
"""A setting that was chosen before stays while another is not better by more."""


@dataclass(frozen=True)
class Tally:
    """A replay, day by day. excess: float64[days], load that met no ready replica; hours: float64[days], replica-hours
    paid."""

    excess: np.ndarray
    hours: np.ndarray


@dataclass(frozen=True)
class Tried:
    """The replay of one setting. avoided: share of the reactive scaler's overload; surely: the minimum of it over each
    left-out day and every larger setting; price: replica-hours over those of perfect foresight."""

    setting: Setting
    avoided: float
    surely: float
    price: float

    @property
    def row(self) -> SettingRow:
        return SettingRow(
            self.setting.quantile,
            self.setting.safety,
            round(self.avoided, 4),
            round(self.surely, 4),
            round(self.price, 4),
        )


def tuned(series: LoadSeries, ahead: Outlook, options: PoolOptions) -> tuple[Outlook, PoolOptions]:
    """The outlook and the options with the setting that the back-test chooses from `options.grid`; unchanged, with a
    note, if the replay gives no result. The outlook's forecast contains the quantiles of the grid."""
    if not options.grid or ahead.result.abstained:
        return ahead, options
    try:
        tried = replay_grid(series, options)
    except InferdocError as fault:
        return replace(ahead, result=replace(ahead.result, notes=(*ahead.result.notes, f"not tuned: {fault}"))), options
    previous = [] if options.previous is None else options.previous.pools
    former = next((row for row in previous if row.name == options.name), None)
    row = chosen(tried, Setting(options.policy.quantile, options.safety), former)
    options = with_setting(options, Setting(row.chosen.quantile, row.chosen.safety_factor))
    without = None if ahead.without is None else ahead_at(series, ahead.without.result, options)
    return replace(ahead_at(series, ahead.result, options), without=without), replace(options, tuning=row)


def with_setting(options: PoolOptions, setting: Setting) -> PoolOptions:
    policy = replace(options.policy, quantile=setting.quantile)
    return replace(options, policy=policy, safety=setting.safety)


@dataclass(frozen=True)
class GridReplay:
    """days: replayed; each: what every setting would have done."""

    days: int
    each: list[Tried]


def replay_grid(series: LoadSeries, options: PoolOptions) -> GridReplay:
    """Replays the last days of a series with every setting. Raises InferdocError where too little is known."""
    begin = options.request.begin
    clean = without_outages(series if begin is None else series.before(min(begin, series.end)))
    count = min(REPLAYED_DAYS, int(clean.days - KNOWN_DAYS + 0.01))
    if count < FEWEST_DAYS:
        raise InferdocError(f"{clean.days:.1f} days of history, a back-test takes at least {KNOWN_DAYS + FEWEST_DAYS}")
    settings = [*dict.fromkeys((*options.grid, Setting(options.policy.quantile, options.safety)))]
    # ARIMA is left out: its share of a combination is small, and each day would need a new fit.
    brief = replace(options, request=replace(options.request, arima_seconds=0.0))
    days = walk(clean, brief, clean.end - count * DAY, [setting.quantile for setting in settings])
    acted = np.array([not day.result.abstained for day in days])
    if acted.sum() < FEWEST_DAYS:
        raise InferdocError(f"the forecast abstained on {count - int(acted.sum())} of the last {count} days")
    replays = Replays(clean, days, options)
    scaler, foresight = replays.tally(reactive), replays.tally(oracle)
    excess = scaler.excess[acted]
    if excess.sum() <= 0:
        raise InferdocError(f"a reactive scaler alone was never overloaded in the last {count} days")
    each = []
    for setting in settings:
        try:
            tally = replays.following(with_setting(brief, setting))
        except InferdocError:
            continue  # a plan that would hold the maximum all week is none
        price = float(tally.hours[acted].sum() / max(foresight.hours[acted].sum(), 1e-9))
        each.append(Tried(setting, *_avoided(excess, tally.excess[acted]), price))
    if not each:
        raise InferdocError("every setting holds the maximum all week")
    return GridReplay(int(acted.sum()), without_luck(each))


def without_luck(tried: Sequence[Tried]) -> list[Tried]:
    """The settings, none with a higher `surely` than a larger one: if the larger one avoids less, the difference is
    chance."""
    return [
        replace(each, surely=min(other.surely for other in tried if other.setting.is_at_least(each.setting)))
        for each in tried
    ]


def _avoided(reactive_excess: np.ndarray, excess: np.ndarray) -> tuple[float, float]:
    """The share avoided, and the least of it when one day is left out: one day of a burst is no habit."""
    before, after = float(reactive_excess.sum()), float(excess.sum())
    rest = before - reactive_excess
    without = 1.0 - (after - excess)[rest > 0] / rest[rest > 0]
    overall = 1.0 - after / before
    return overall, float(min(without.min(initial=1.0), overall))


Scaler = Callable[[np.ndarray, Site], np.ndarray]


class Replays:
    """The load of walked days against scalers, minute by minute."""

    def __init__(self, series: LoadSeries, days: Sequence[WalkedDay], options: PoolOptions) -> None:
        self.days = days
        self.minutes = [day.minutes for day in days]
        self.load = per_minute(series.before(days[-1].end, (days[-1].end - days[0].begin) / DAY + 1.0))
        self.lead = len(self.load) - sum(self.minutes)
        rate = options.capacity.rate.per_second * 60
        cold = max(1, round(options.cold_start / 60))
        self.site = Site(rate, cold, options.limits.minimum, options.limits.maximum)

    def tally(self, scaler: Scaler) -> Tally:
        paid = scaler(self.load, self.site)
        excess = np.nan_to_num(unserved(self.load, paid, self.site))
        begins = self.lead + np.cumsum([0, *self.minutes[:-1]])
        return Tally(np.add.reduceat(excess, begins), np.add.reduceat(paid, begins) / 60)

    def following(self, options: PoolOptions) -> Tally:
        """The tally of a reactive scaler above the floor of each day's plan."""
        return self.above(followed(self.days, options))

    def above(self, floor: np.ndarray) -> Tally:
        """The tally of a reactive scaler above a floor (int64[minutes of the days])."""
        whole_floor = np.concatenate([np.zeros(self.lead, dtype=np.int64), floor])
        return self.tally(lambda load, site: reactive(load, site, whole_floor))


def chosen(tried: GridReplay, usual: Setting, former: PoolRow | None) -> TuningRow:
    """The cheapest setting that surely avoids enough at a fair price. Where none does, the one that surely avoids most
    of those at a fair price, else the cheapest. former: the pool in the plan followed now, whose setting stays while it
    is all but as good."""
    fair = [each for each in tried.each if each.price <= PRICE]
    enough = [each for each in fair if each.surely >= AVOIDED]
    if enough:
        best = min(enough, key=lambda each: each.price)
        alike = [each for each in enough if each.price <= best.price * (1 + STAYS)]
    elif fair:
        best = max(fair, key=lambda each: (each.surely, -each.price))
        alike = [each for each in fair if each.surely >= best.surely - STAYS]
    else:
        best = min(tried.each, key=lambda each: each.price)
        alike = [each for each in tried.each if each.price <= best.price * (1 + STAYS)]
    if former is not None:
        before = Setting(former.policy.quantile, former.policy.safety_factor)
        best = next((each for each in alike if each.setting == before), best)
    by_policy = next((each.row for each in tried.each if each.setting == usual), None)
    enough_for_more = [each for each in tried.each if each.surely >= AVOIDED]
    dearer = min(enough_for_more, key=lambda each: each.price, default=None)
    return TuningRow(
        days=tried.days,
        tried=len(tried.each),
        met=bool(enough),
        chosen=best.row,
        usual=by_policy,
        enough=None if enough or dearer is None else dearer.row,
    )
