"""`prewarm plan --tune backtest`: chooses the quantile and the safety factor by replaying the last days. Each of these
days is planned from what was known before it, with every setting of a small grid, and replayed against the load that
came. The cheapest setting that avoids enough overload at a fair price is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.outage import without_outages
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.prewarm.build import Outlook, PoolOptions, ahead_at
from inferdoc.prewarm.plan import PoolRow, SettingRow, TuningRow
from inferdoc.prewarm.policy import AVOIDED, PRICE, Setting
from inferdoc.prewarm.replay import Site, WalkedDay, followed, oracle, per_minute, reactive, unserved, walk

REPLAYED_DAYS = 7
"""One of each day of the week."""
KNOWN_DAYS = 7
"""What each replayed day must have before it: plans that know no week are not those of today."""
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
    """What a setting would have done. avoided: share of the reactive scaler's overload; surely: the minimum of it over
    each left-out day and every larger setting; price: replica-hours over those of perfect foresight."""

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
    # ARIMA is left out: its share of a combination is small, and each day would take its fit anew.
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
        """Of a reactive scaler above the floor of each day's plan."""
        return self.above(followed(self.days, options))

    def above(self, floor: np.ndarray) -> Tally:
        """Of a reactive scaler above a floor (int64[minutes of the days])."""
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
