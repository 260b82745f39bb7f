"""Builds a plan: forecast, replicas, lead time, shape, windows with the reason for each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.agenda import PlannedEvent, factors
from inferdoc.forecast.calendar import local_seconds, zone_of
from inferdoc.forecast.engine import forecast
from inferdoc.forecast.result import Forecast, label, number
from inferdoc.forecast.series import DAY, Load, LoadSeries, LoadUnit, Rate
from inferdoc.prewarm.difference import FormerPool, former_pool, settled_with, with_moves
from inferdoc.prewarm.plan import (
    SCHEMA,
    CandidateRow,
    ForecastRow,
    PlanRequest,
    PlanRow,
    PolicyRow,
    PoolRow,
    WithoutRow,
    pool_plan,
    stamped,
    window_row,
)
from inferdoc.prewarm.plan_options import (
    CAP_DAYS,
    CAP_FACTOR,
    CAP_QUANTILE,
    Policy,
    PoolOptions,
    lead_seconds,
    replicas_for,
)
from inferdoc.prewarm.week import (
    MINUTES,
    WeekWindow,
    ahead_of,
    clear_of_jumps,
    clock,
    floor_of,
    grouped,
    merged_days,
    ramped,
    segments,
    steps,
    within_budget,
)

PROOF_DAYS = 400
LONGEST = 14 * DAY
SILENCE = 0.5  # load units per step: a count below one half is no load


@dataclass(frozen=True)
class Outlook:
    """The load that a pool is planned for. load: the quantile of the policy at each step of the forecast; cap: its
    upper limit, per second; without: the same without ARIMA, if ARIMA has a share."""

    result: Forecast
    load: Load
    cap: float | None
    without: Outlook | None = None


def outlook(series: LoadSeries, options: PoolOptions) -> Outlook:
    """The forecast load at the quantile of the options."""
    if options.request.horizon > LONGEST:
        raise InferdocError("a plan covers two weeks at most; shorten --horizon to 14d")
    levels = tuple(sorted({0.5, 0.95, options.policy.quantile, *(setting.quantile for setting in options.grid)}))
    request = replace(options.request, levels=levels)
    ahead = ahead_at(series, forecast(series, request), options)
    if "arima" not in ahead.result.weights:
        return ahead
    bare = forecast(series, replace(request, arima_seconds=0.0))
    return replace(ahead, without=ahead_at(series, bare, options))


def ahead_at(series: LoadSeries, result: Forecast, options: PoolOptions) -> Outlook:
    """The outlook of a forecast that contains the quantile of the options."""
    return Outlook(result, *load_per_second(series, result, options.policy, options.request.events))


def shaped(ahead: Outlook, options: PoolOptions) -> PoolRow:
    """The windows that serve a load."""
    result = ahead.result
    unlimited = replicas_for(ahead.load, options.capacity.rate, options.policy.utilisation, options.safety)
    need = np.clip(unlimited, 0, options.limits.maximum)
    largest = int(np.diff(need).max()) if len(need) > 1 else 0
    lead = lead_seconds(options.cold_start, largest)
    notes = list(result.notes)
    former = former_pool(options.previous, options.name or result.name, result.zone)
    if result.abstained:
        notes.append(
            f"no schedule: {result.reason}. Headroom is a decision of its own: see the static floor in backtest"
        )
        floor = np.full(MINUTES, options.limits.minimum, dtype=np.int64)
    else:
        floor, floor_notes = _floor(result, need, lead, options, former)
        _refuse_full(result, ahead.load, unlimited, floor, options)
        notes += floor_notes
    base = max(options.limits.minimum, int(floor.min()))
    windows = grouped(segments(floor, base))
    row = PoolRow(
        name=options.name or result.name,
        role=options.role,
        zone=result.zone,
        base=base,
        maximum=options.limits.maximum,
        scale_to_zero=options.limits.scale_to_zero,
        windows=[window_row(w, _reason(w, result, ahead.load.values, need, lead, options)) for w in windows],
        policy=_policy_row(options, lead, ahead.cap),
        forecast=_forecast_row(result),
        hours=round(float(floor_of(windows, base).sum()) / 60, 2),
        base_hours=round(base * MINUTES / 60, 2),
        notes=notes,
        tuning=options.tuning,
    )
    if ahead.without is not None:
        row.forecast.without_arima = _without_row(ahead.without, result, floor_of(windows, base), options)
    return row if former is None else with_moves(row, former)


def _without_row(bare: Outlook, result: Forecast, floor: np.ndarray, options: PoolOptions) -> WithoutRow:
    row = shaped(bare, options)
    other = pool_plan(row).floor
    return WithoutRow(
        skill=None if bare.result.skill is None else round(bare.result.skill, 4),
        error=number(bare.result.errors.get(bare.result.method, float("nan"))),
        error_with=number(result.errors.get(result.method, float("nan"))),
        hours=row.hours,
        minutes=int((other != floor).sum()),
    )


def _refuse_full(result: Forecast, load: Load, unlimited: np.ndarray, floor: np.ndarray, options: PoolOptions) -> None:
    """Refuses a floor at the maximum at every minute: capacity, load or maximum is wrong."""
    most = options.limits.maximum
    covered = _minutes_of_week(result, result.step // 60)
    if unlimited.max(initial=0) <= most or (floor[covered] < most).any():
        return
    low, high = (Rate(float(bound(load.values)), load.unit) for bound in (np.min, np.max))
    raise InferdocError(
        f"the floor would stay at the maximum of {most} all week: {label(options.policy.quantile)} of {low} to {high}"
        f"{'' if options.safety == 1 else f' x {options.safety:g}'} / ({options.policy.utilisation:.0%} of "
        f"{options.capacity.rate} per replica) = {int(unlimited.min())} to {int(unlimited.max())} replicas; "
        "correct the capacity, or raise --max"
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
    request: PlanRequest | None = None,
    notes: Sequence[str] = (),
) -> PlanRow:
    """The plan of all pools. generated: Unix seconds; horizon: seconds from then on for which the plan is valid, since
    nothing was forecast beyond; request: its options, from which a nightly job makes the next plan; notes: such as the
    pools that are not in it."""
    made = datetime.fromtimestamp(generated, UTC)
    request = request or PlanRequest()
    valid_until = made + timedelta(seconds=horizon)
    plan = PlanRow(SCHEMA, "", made, valid_until, pools, list(notes), request.words, request.files)
    return stamped(plan)


def unit_of(series: LoadSeries) -> LoadUnit:
    """The load unit of a series; a file does not state one."""
    return next((unit for unit in LoadUnit if unit.value == series.unit), LoadUnit.OF_FILE)


def load_per_second(
    series: LoadSeries, result: Forecast, policy: Policy, events: Collection[PlannedEvent] = ()
) -> tuple[Load, float | None]:
    """The forecast quantile as load per second, and its cap (load per second); the cap does not cut the effect of a
    planned event."""
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
    result: Forecast, need: np.ndarray, lead: int, options: PoolOptions, former: FormerPool | None
) -> tuple[np.ndarray, list[str]]:
    week = np.full(MINUTES, options.limits.minimum, dtype=np.int64)
    span = max(1, result.step // 60)
    np.maximum.at(week, _minutes_of_week(result, span), np.repeat(need, span))
    week = np.clip(week, options.limits.minimum, options.limits.maximum)
    margin = options.policy.margin_minutes
    late = ahead_of(week[::-1], margin)[::-1]
    week = np.maximum(ahead_of(week, -(-lead // 60) + margin), late)
    if len(result.times) * result.step >= 7 * DAY - result.step:
        week = merged_days(week)
    required = ramped(week, options.limits.ramp)
    week = steps(required, options.limits.dwell, options.limits.windows)
    kept: list[str] = []
    if former is not None:
        week, kept = settled_with(former, week, required, options.change_hours)
        week = np.minimum(week, options.limits.maximum)
    week, notes = clear_of_jumps(week, zone_of(result.zone), datetime.fromtimestamp(result.start, UTC), PROOF_DAYS)
    week, cut = within_budget(week, options.limits.minimum, options.limits.budget)
    if cut is not None:
        notes.append(f"cut at {cut} replicas to stay within {options.limits.budget:g} replica-hours a week")
    if int(need.max(initial=0)) >= options.limits.maximum:
        notes.append(f"the forecast reaches the maximum of {options.limits.maximum} replicas")
    return week, [*kept, *notes]


def _reason(
    window: WeekWindow, result: Forecast, load: np.ndarray, need: np.ndarray, lead: int, options: PoolOptions
) -> str:
    """Explains the floor of a window by the highest load it was made for."""
    minutes, reach = _minutes_of_week(result), window.length + -(-lead // 60)
    covered = np.zeros(len(minutes), dtype=bool)
    for day in window.days:
        covered |= (minutes - (day * 1440 + window.start)) % MINUTES < reach
    fitting = np.flatnonzero(covered & (need <= window.replicas))
    if not len(fitting):
        return "keeps the neighbouring level: a change would save too little"
    top, rate = int(fitting[np.argmax(load[fitting])]), options.capacity.rate
    return (
        f"{label(options.policy.quantile)} reaches {Rate(float(load[top]), rate.unit)} at {clock(int(minutes[top]))}: "
        f"{int(need[top])} x {rate.per_second:g} at {options.policy.utilisation:.0%}, "
        f"started {lead / 60:.0f} min earlier"
    )


def _policy_row(options: PoolOptions, lead: int, cap: float | None) -> PolicyRow:
    return PolicyRow(
        name=options.policy.name,
        quantile=options.policy.quantile,
        utilisation=options.policy.utilisation,
        safety_factor=options.safety,
        capacity=options.capacity.rate.per_second,
        capacity_unit=options.capacity.rate.unit.value,
        capacity_source=options.capacity.source,
        cold_start_seconds=options.cold_start,
        lead_seconds=lead,
        dwell_seconds=options.limits.dwell,
        ramp=options.limits.ramp,
        cap_load=None if cap is None else round(cap, 6),
        budget_hours=options.limits.budget,
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
