"""Builds a plan: forecast, replicas, lead time, shape, windows with the reason for each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.calendar import local_seconds, zone_of
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.result import Forecast, label
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.prewarm.plan import SCHEMA, ForecastRow, PlanRow, PolicyRow, PoolRow, stamped, window_row
from inferdoc.prewarm.policy import CAP_DAYS, CAP_FACTOR, CAP_QUANTILE, Limits, Policy, lead_seconds, replicas_for
from inferdoc.prewarm.shape import ahead_of, merged_days, ramped, steps, within_budget
from inferdoc.prewarm.week import MINUTES, WeekWindow, clear_of_jumps, clock, floor_of, grouped, segments

PROOF_DAYS = 400
VALID_DAYS = 8
SILENCE = 0.5  # load units per step: a count below one half is nobody


@dataclass(frozen=True)
class Capacity:
    """What one replica serves at its SLO, per second, in `unit`, and where the number comes from."""

    per_second: float
    unit: str = "requests/s"
    source: str = "given"


@dataclass(frozen=True)
class Wish:
    """What a plan is made from. cold_start: seconds from creation to ready; safety: factor on the load."""

    request: Request
    policy: Policy
    capacity: Capacity
    limits: Limits
    cold_start: int
    safety: float = 1.0
    role: str = "both"
    name: str = ""


def build_pool(series: LoadSeries, wish: Wish) -> PoolRow:
    """The plan of one pool. An abstention yields a pool without windows and the reason."""
    if wish.request.horizon > 7 * DAY:
        raise InferdocError("a plan covers one week at most; shorten --horizon to 7d")
    levels = tuple(sorted({0.5, 0.95, wish.policy.quantile}))
    request = Request(**{**wish.request.__dict__, "levels": levels})
    result = forecast(series, request)
    load, cap = load_per_second(series, result, wish.policy)
    need = np.clip(
        replicas_for(load, wish.capacity.per_second, wish.policy.utilisation, wish.safety), 0, wish.limits.maximum
    )
    largest = int(np.diff(need).max()) if len(need) > 1 else 0
    lead = lead_seconds(wish.cold_start, largest)
    notes = list(result.notes)
    if result.abstained:
        notes.append(
            f"no schedule: {result.reason}. Headroom is a decision of its own: see the static floor in backtest"
        )
        floor = np.full(MINUTES, wish.limits.minimum, dtype=np.int64)
    else:
        floor, said = _floor(result, need, lead, wish)
        notes += said
    base = max(wish.limits.minimum, int(floor.min()))
    windows = grouped(segments(floor, base))
    reasons = _Reasons(result, load, need, lead, wish)
    return PoolRow(
        name=wish.name or series.name,
        role=wish.role,
        zone=result.zone,
        base=base,
        maximum=wish.limits.maximum,
        scale_to_zero=wish.limits.scale_to_zero,
        windows=[window_row(w, reasons.of(w)) for w in windows],
        policy=_policy_row(wish, lead, cap),
        forecast=_forecast_row(result),
        hours=round(float(floor_of(windows, base).sum()) / 60, 2),
        base_hours=round(base * MINUTES / 60, 2),
        notes=notes,
    )


def build_plan(pools: list[PoolRow], generated: int) -> PlanRow:
    """The plan of all pools. generated: Unix seconds; it is valid for eight days, so that a daily job may fail for a
    while."""
    made = datetime.fromtimestamp(generated, UTC)
    plan = PlanRow(SCHEMA, "", made, made + timedelta(days=VALID_DAYS), pools)
    return stamped(plan)


def load_per_second(series: LoadSeries, result: Forecast, policy: Policy) -> tuple[np.ndarray, float | None]:
    """float64[H]: the forecast quantile as load per second, and the cap it was held under (load per second)."""
    share = 1.0 / series.step if series.kind == "amount" else 1.0
    load = result.quantiles[policy.quantile] * share
    load = np.where(load * series.step < SILENCE, 0.0, load)
    if not policy.capped:
        return load, None
    recent = series.before(result.start, CAP_DAYS).values
    recent = recent[np.isfinite(recent)]
    if not len(recent):
        return load, None
    cap = CAP_FACTOR * float(np.quantile(recent, CAP_QUANTILE)) * share
    return np.minimum(load, cap), cap


def _floor(result: Forecast, need: np.ndarray, lead: int, wish: Wish) -> tuple[np.ndarray, list[str]]:
    zone = zone_of(result.zone)
    week = np.full(MINUTES, wish.limits.minimum, dtype=np.int64)
    span = max(1, result.step // 60)
    starts = local_seconds(result.times, zone) // 60
    for i in range(span):
        at = (starts + i + 3 * 1440) % MINUTES  # minute 0 of 1970-01-01 was a Thursday, three days after Monday
        np.maximum.at(week, at, need)
    week = np.clip(week, wish.limits.minimum, wish.limits.maximum)
    margin = wish.policy.margin_minutes
    late = ahead_of(week[::-1], margin)[::-1]
    week = np.maximum(ahead_of(week, -(-lead // 60) + margin), late)
    if len(result.times) * result.step >= 7 * DAY - result.step:
        week = merged_days(week)
    week = steps(ramped(week, wish.limits.ramp), wish.limits.dwell)
    week, notes = clear_of_jumps(week, zone, datetime.fromtimestamp(result.start, UTC), PROOF_DAYS)
    week, cut = within_budget(week, wish.limits.minimum, wish.limits.budget)
    if cut is not None:
        notes.append(f"cut at {cut} replicas to stay within {wish.limits.budget:g} replica-hours a week")
    if int(need.max(initial=0)) >= wish.limits.maximum:
        notes.append(f"the forecast reaches the maximum of {wish.limits.maximum} replicas")
    return week, notes


class _Reasons:
    """Says why a window has its floor: the highest load it was made for."""

    def __init__(self, result: Forecast, load: np.ndarray, need: np.ndarray, lead: int, wish: Wish) -> None:
        self.minutes = (local_seconds(result.times, zone_of(result.zone)) // 60 + 3 * 1440) % MINUTES
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
        return (
            f"{label(self.wish.policy.quantile)} reaches {self.load[top]:.4g} {self.wish.capacity.unit} at "
            f"{clock(int(self.minutes[top]))}: {int(self.need[top])} x {self.wish.capacity.per_second:g} at "
            f"{self.wish.policy.utilisation:.0%}, started {self.lead / 60:.0f} min earlier"
        )


def _policy_row(wish: Wish, lead: int, cap: float | None) -> PolicyRow:
    return PolicyRow(
        name=wish.policy.name,
        quantile=wish.policy.quantile,
        utilisation=wish.policy.utilisation,
        safety_factor=wish.safety,
        capacity=wish.capacity.per_second,
        capacity_unit=wish.capacity.unit,
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
    )
