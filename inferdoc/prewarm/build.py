"""Builds a plan: forecast, replicas, lead time, shape, windows with the reason for each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.calendar import local_seconds, zone_of
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.events import PlannedEvent, factors
from inferdoc.forecast.result import Forecast, label, number
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.forecast.units import Load, LoadUnit, Rate
from inferdoc.prewarm.change import FormerPool, former_pool, settled_with, with_moves
from inferdoc.prewarm.defaults import CHANGE_HOURS
from inferdoc.prewarm.plan import (
    SCHEMA,
    CandidateRow,
    ForecastRow,
    PlanRequest,
    PlanRow,
    PolicyRow,
    PoolRow,
    TuningRow,
    WithoutRow,
    pool_plan,
    stamped,
    window_row,
)
from inferdoc.prewarm.policy import (
    CAP_DAYS,
    CAP_FACTOR,
    CAP_QUANTILE,
    Limits,
    Policy,
    Setting,
    lead_seconds,
    replicas_for,
)
from inferdoc.prewarm.shape import ahead_of, merged_days, ramped, steps, within_budget
from inferdoc.prewarm.week import MINUTES, WeekWindow, clear_of_jumps, clock, floor_of, grouped, segments

PROOF_DAYS = 400
LONGEST = 14 * DAY
SILENCE = 0.5  # load units per step: a count below one half is nobody


@dataclass(frozen=True)
class Capacity:
    """What one replica serves at its SLO, and where the number comes from."""

    rate: Rate
    source: str = "given"


@dataclass(frozen=True)
class PoolOptions:
    """What a plan is made from. cold_start: seconds from creation to ready; safety: factor on the load; previous: the
    plan that is followed now; change_hours: replica-hours a week that a change against it must save; grid: the settings
    that a back-test may choose among; tuning: what it chose."""

    request: Request
    policy: Policy
    capacity: Capacity
    limits: Limits
    cold_start: int
    safety: float = 1.0
    role: str = "both"
    name: str = ""
    previous: PlanRow | None = None
    change_hours: float = CHANGE_HOURS
    grid: tuple[Setting, ...] = ()
    tuning: TuningRow | None = None


@dataclass(frozen=True)
class Outlook:
    """The load that a pool is planned for. load: the quantile of the policy at each step of the forecast; cap: what it
    was held under, per second; without: the same without ARIMA, where that has a share."""

    result: Forecast
    load: Load
    cap: float | None
    without: Outlook | None = None


def outlook(series: LoadSeries, wish: PoolOptions) -> Outlook:
    """What is to come, at the quantile of the wish."""
    if wish.request.horizon > LONGEST:
        raise InferdocError("a plan covers two weeks at most; shorten --horizon to 14d")
    levels = tuple(sorted({0.5, 0.95, wish.policy.quantile, *(setting.quantile for setting in wish.grid)}))
    request = replace(wish.request, levels=levels)
    ahead = ahead_at(series, forecast(series, request), wish)
    if "arima" not in ahead.result.weights:
        return ahead
    bare = forecast(series, replace(request, arima_seconds=0.0))
    return replace(ahead, without=ahead_at(series, bare, wish))


def ahead_at(series: LoadSeries, result: Forecast, wish: PoolOptions) -> Outlook:
    """What a forecast that holds the quantile of the wish says is to come."""
    return Outlook(result, *load_per_second(series, result, wish.policy, wish.request.events))


def shaped(ahead: Outlook, wish: PoolOptions) -> PoolRow:
    """The windows that carry a load."""
    result = ahead.result
    wanted = replicas_for(ahead.load, wish.capacity.rate, wish.policy.utilisation, wish.safety)
    need = np.clip(wanted, 0, wish.limits.maximum)
    largest = int(np.diff(need).max()) if len(need) > 1 else 0
    lead = lead_seconds(wish.cold_start, largest)
    notes = list(result.notes)
    former = former_pool(wish.previous, wish.name or result.name, result.zone)
    if result.abstained:
        notes.append(
            f"no schedule: {result.reason}. Headroom is a decision of its own: see the static floor in backtest"
        )
        floor = np.full(MINUTES, wish.limits.minimum, dtype=np.int64)
    else:
        floor, said = _floor(result, need, lead, wish, former)
        _refuse_full(result, ahead.load, wanted, floor, wish)
        notes += said
    base = max(wish.limits.minimum, int(floor.min()))
    windows = grouped(segments(floor, base))
    reasons = _Reasons(result, ahead.load.values, need, lead, wish)
    row = PoolRow(
        name=wish.name or result.name,
        role=wish.role,
        zone=result.zone,
        base=base,
        maximum=wish.limits.maximum,
        scale_to_zero=wish.limits.scale_to_zero,
        windows=[window_row(w, reasons.of(w)) for w in windows],
        policy=_policy_row(wish, lead, ahead.cap),
        forecast=_forecast_row(result),
        hours=round(float(floor_of(windows, base).sum()) / 60, 2),
        base_hours=round(base * MINUTES / 60, 2),
        notes=notes,
        tuning=wish.tuning,
    )
    if ahead.without is not None:
        row.forecast.without_arima = _without_row(ahead.without, result, floor_of(windows, base), wish)
    return row if former is None else with_moves(row, former)


def _without_row(bare: Outlook, result: Forecast, floor: np.ndarray, wish: PoolOptions) -> WithoutRow:
    row = shaped(bare, wish)
    other = pool_plan(row).floor
    return WithoutRow(
        skill=None if bare.result.skill is None else round(bare.result.skill, 4),
        error=number(bare.result.errors.get(bare.result.method, float("nan"))),
        error_with=number(result.errors.get(result.method, float("nan"))),
        hours=row.hours,
        minutes=int((other != floor).sum()),
    )


def _refuse_full(result: Forecast, load: Load, wanted: np.ndarray, floor: np.ndarray, wish: PoolOptions) -> None:
    """A floor at the maximum at every minute is no plan: capacity, load or maximum is not what was meant."""
    most = wish.limits.maximum
    covered = _minutes_of_week(result, result.step // 60)
    if wanted.max(initial=0) <= most or (floor[covered] < most).any():
        return
    low, high = (Rate(float(bound(load.values)), load.unit) for bound in (np.min, np.max))
    raise InferdocError(
        f"the floor would stay at the maximum of {most} all week: {label(wish.policy.quantile)} of {low} to {high}"
        f"{'' if wish.safety == 1 else f' x {wish.safety:g}'} / ({wish.policy.utilisation:.0%} of {wish.capacity.rate} "
        f"per replica) = {int(wanted.min())} to {int(wanted.max())} replicas; correct the capacity, or raise --max"
    )


def _minutes_of_week(result: Forecast, span: int = 1) -> np.ndarray:
    """int64[H * span]: the minutes of the local week of each step, and of the `span` - 1 minutes after it."""
    starts = local_seconds(result.times, zone_of(result.zone)) // 60
    each = (starts[:, None] + np.arange(max(1, span))).reshape(-1)
    return (each + 3 * 1440) % MINUTES  # minute 0 of 1970-01-01 was a Thursday, three days after Monday


def build_plan(
    pools: list[PoolRow],
    generated: int,
    horizon: int = 7 * DAY,
    asked: PlanRequest | None = None,
    notes: Sequence[str] = (),
) -> PlanRow:
    """The plan of all pools. generated: Unix seconds; horizon: seconds from then on for which the plan is valid, since
    nothing was forecast beyond; asked: the request, from which a nightly job asks for the next plan; notes: what its
    reader must know, such as the pools that are not in it."""
    made = datetime.fromtimestamp(generated, UTC)
    asked = asked or PlanRequest()
    valid_until = made + timedelta(seconds=horizon)
    plan = PlanRow(SCHEMA, "", made, valid_until, pools, list(notes), asked.words, asked.files)
    return stamped(plan)


def unit_of(series: LoadSeries) -> LoadUnit:
    """What a series counts per second; one that comes from a file does not say."""
    return next((unit for unit in LoadUnit if unit.value == series.unit), LoadUnit.OF_FILE)


def load_per_second(
    series: LoadSeries, result: Forecast, policy: Policy, events: Collection[PlannedEvent] = ()
) -> tuple[Load, float | None]:
    """The forecast quantile as load per second, and the cap it was held under (load per second); what a planned event
    multiplies, the cap does not take away."""
    share = 1.0 / series.step if series.kind == "amount" else 1.0
    unit = unit_of(series)
    load = result.quantiles[policy.quantile] * share
    load = np.where(load * series.step < SILENCE, 0.0, load)
    if not policy.capped:
        return Load(load, unit), None
    recent = series.before(result.start, CAP_DAYS).values
    recent = recent[np.isfinite(recent)]
    if not len(recent):
        return Load(load, unit), None
    cap = CAP_FACTOR * float(np.quantile(recent, CAP_QUANTILE)) * share
    planned = np.maximum(factors(result.start, result.step, len(load), events), 1.0)
    return Load(np.minimum(load, cap * planned), unit), cap


def _floor(
    result: Forecast, need: np.ndarray, lead: int, wish: PoolOptions, former: FormerPool | None
) -> tuple[np.ndarray, list[str]]:
    week = np.full(MINUTES, wish.limits.minimum, dtype=np.int64)
    span = max(1, result.step // 60)
    np.maximum.at(week, _minutes_of_week(result, span), np.repeat(need, span))
    week = np.clip(week, wish.limits.minimum, wish.limits.maximum)
    margin = wish.policy.margin_minutes
    late = ahead_of(week[::-1], margin)[::-1]
    week = np.maximum(ahead_of(week, -(-lead // 60) + margin), late)
    if len(result.times) * result.step >= 7 * DAY - result.step:
        week = merged_days(week)
    required = ramped(week, wish.limits.ramp)
    week = steps(required, wish.limits.dwell, wish.limits.windows)
    kept: list[str] = []
    if former is not None:
        week, kept = settled_with(former, week, required, wish.change_hours)
        week = np.minimum(week, wish.limits.maximum)
    week, notes = clear_of_jumps(week, zone_of(result.zone), datetime.fromtimestamp(result.start, UTC), PROOF_DAYS)
    week, cut = within_budget(week, wish.limits.minimum, wish.limits.budget)
    if cut is not None:
        notes.append(f"cut at {cut} replicas to stay within {wish.limits.budget:g} replica-hours a week")
    if int(need.max(initial=0)) >= wish.limits.maximum:
        notes.append(f"the forecast reaches the maximum of {wish.limits.maximum} replicas")
    return week, [*kept, *notes]


class _Reasons:
    """Says why a window has its floor: the highest load it was made for."""

    def __init__(self, result: Forecast, load: np.ndarray, need: np.ndarray, lead: int, wish: PoolOptions) -> None:
        self.minutes = _minutes_of_week(result)
        self.load, self.need, self.lead, self.wish = load, need, lead, wish

    def of(self, window: WeekWindow) -> str:
        reach = window.length + -(-self.lead // 60)
        covered = np.zeros(len(self.minutes), dtype=bool)
        for day in window.days:
            covered |= (self.minutes - (day * 1440 + window.start)) % MINUTES < reach
        fitting = np.flatnonzero(covered & (self.need <= window.replicas))
        if not len(fitting):
            return "holds the neighbouring level until the change is worth it"
        top = int(fitting[np.argmax(self.load[fitting])])
        reached = Rate(float(self.load[top]), self.wish.capacity.rate.unit)
        return (
            f"{label(self.wish.policy.quantile)} reaches {reached} at "
            f"{clock(int(self.minutes[top]))}: {int(self.need[top])} x {self.wish.capacity.rate.per_second:g} at "
            f"{self.wish.policy.utilisation:.0%}, started {self.lead / 60:.0f} min earlier"
        )


def _policy_row(wish: PoolOptions, lead: int, cap: float | None) -> PolicyRow:
    return PolicyRow(
        name=wish.policy.name,
        quantile=wish.policy.quantile,
        utilisation=wish.policy.utilisation,
        safety_factor=wish.safety,
        capacity=wish.capacity.rate.per_second,
        capacity_unit=wish.capacity.rate.unit.value,
        capacity_source=wish.capacity.source,
        cold_start_seconds=wish.cold_start,
        lead_seconds=lead,
        dwell_seconds=wish.limits.dwell,
        ramp=wish.limits.ramp,
        cap_load=None if cap is None else round(cap, 6),
        budget_hours=wish.limits.budget,
    )


def _forecast_row(result: Forecast) -> ForecastRow:
    return ForecastRow(
        method=result.method,
        skill=None if result.skill is None else round(result.skill, 4),
        folds=result.folds,
        abstained=result.abstained,
        reason=result.reason,
        coverage={label(k): round(v, 4) for k, v in result.coverage.items()},
        history_days=round(result.history_days, 2),
        first_step=datetime.fromtimestamp(int(result.times[0]), UTC),
        last_step=datetime.fromtimestamp(int(result.times[-1]), UTC),
        weights={name: round(share, 4) for name, share in result.weights.items()},
        candidates=[CandidateRow(c.name, number(c.error), c.like, round(c.correlation, 3)) for c in result.candidates],
        arima=result.arima,
    )
