"""Explains a plan: the next changes in local time and UTC, with the reason for each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from inferdoc import escaping
from inferdoc.forecast.result import label
from inferdoc.prewarm.plan import (
    CandidateRow,
    ForecastRow,
    PlanRow,
    PolicyRow,
    PoolPlan,
    SettingRow,
    TuningRow,
    pool_plan,
)
from inferdoc.prewarm.plan_options import AVOIDED, PRICE, Setting
from inferdoc.prewarm.week import MINUTES_PER_DAY, minute_of_week


def tuning_words(row: TuningRow) -> str:
    """`tuned on the last 7 days: p70 x 0.9 avoids 86 % of a reactive scaler's overload at 1.05 x the replica-hours of
    perfect foresight; ...`, with what it is measured against."""
    best = row.chosen
    surely = f" (surely {best.surely:.0%})" if best.surely < best.avoided else ""
    found = (
        f"tuned on the last {row.days} days: {_named(best)} avoids {best.avoided:.0%}{surely} of a reactive scaler's "
        f"overload at {best.price:.2f} x the replica-hours of perfect foresight, best of {row.tried}"
    )
    if row.usual is not None and _named(row.usual) != _named(best):
        found += f"; the policy's {_named(row.usual)} would avoid {_avoiding(row.usual)}"
    if not row.met:
        found += f"; no setting surely avoids {AVOIDED:.0%} for at most {PRICE:g} x"
        if row.enough is not None:
            found += f", {_named(row.enough)} would avoid {_avoiding(row.enough)}"
    return found


def _avoiding(row: SettingRow) -> str:
    return f"{row.avoided:.0%} at {row.price:.2f}"


def _named(row: SettingRow) -> str:
    return str(Setting(row.quantile, row.safety_factor))


@dataclass(frozen=True)
class FloorEvent:
    """A change of the floor. at: UTC."""

    at: datetime
    pool: str
    before: int
    after: int
    reason: str


def events(plan: PoolPlan, begin: datetime, days: float) -> list[FloorEvent]:
    """The changes of the floor from `begin` on, in order."""
    found = []
    here = begin.astimezone(UTC).replace(second=0, microsecond=0)
    level = plan.at(here.timestamp())
    for _ in range(round(days * MINUTES_PER_DAY)):
        here += timedelta(minutes=1)
        now = plan.at(here.timestamp())
        if now != level:
            found.append(FloorEvent(here, plan.row.name, level, now, _why(plan, here, now)))
            level = now
    return found


def _why(plan: PoolPlan, at: datetime, level: int) -> str:
    covering = plan.covering(minute_of_week(at.timestamp(), plan.zone))
    outside = "no window: back to the base floor; the autoscaler decides when pods leave"
    return next((row.reason for window, row in covering if window.replicas == level), outside)


def explain(plan: PlanRow, begin: datetime, days: float) -> str:
    """Plain text, one block per pool."""
    lines = [
        f"plan {plan.plan_id}, made {plan.generated_at:%Y-%m-%d %H:%M}Z, valid until {plan.valid_until:%Y-%m-%d %H:%M}Z"
    ]
    if begin > plan.valid_until:
        lines.append("this plan is stale: make a new one before anything is applied")
    for row in plan.pools:
        pool = pool_plan(row)
        lines += ["", *_head(pool)]
        coming = events(pool, begin, days)
        for event in coming:
            there = event.at.astimezone(pool.zone)
            when = f"{there:%a %Y-%m-%d %H:%M} {row.zone} ({event.at:%a %H:%M}Z)"
            lines.append(f"  {when}  {event.before:>3d} -> {event.after:<3d}  {event.reason}")
        if not coming:
            lines.append(f"  no change of the floor within {days:g} day(s)")
        lines += [f"  note: {note}" for note in row.notes]
    lines += [f"note: {note}" for note in plan.notes]
    return escaping.page(lines) + "\n"


def _quantile_text(policy: PolicyRow) -> str:
    return label(policy.quantile) if policy.safety_factor == 1 else str(Setting(policy.quantile, policy.safety_factor))


SHOWN_SHARE = 0.05
ALIKE = 0.8
"""Correlation of errors from which two paths share a weight."""


def _candidates(made: ForecastRow) -> list[str]:
    """The paths with their weight and error on the back-tested days, and what ARIMA changes."""
    if not made.candidates:
        return []
    lines = [f"  {'candidate':<12s} {'weight':>6s} {'error per step':>15s}  most alike"]
    for one in made.candidates:
        share = made.weights.get(one.name, 0.0)
        alike = f"{one.like} (correlation {one.correlation:.2f})" if one.like else "-"
        lines.append(f"  {one.name:<12s} {share:>6.1%} {one.error:>15.4g}  {alike}")
    arima = next((one for one in made.candidates if one.name == "arima"), None)
    if arima is None:
        return [*lines, f"  arima: {made.arima}"] if made.arima else lines
    lines.append(f"  arima: {made.arima}, weight {made.weights['arima']:.1%}: {_why_weight(arima, made)}")
    without = made.without_arima
    if without is not None:
        skill = "not measured" if without.skill is None else f"{without.skill:.2f}"
        lines.append(
            f"  plan without arima: {without.hours:g} replica-hours a week, floor differs for {without.minutes} min; "
            f"skill {skill}, error per step {without.error:.4g} (with arima {without.error_with:.4g})"
        )
    return lines


def _why_weight(arima: CandidateRow, made: ForecastRow) -> str:
    """Weights follow the error of the mixture: a path counts by its own error and by whose errors it evens out."""
    better = [one for one in made.candidates if one.error < arima.error]
    rank = f"error rank {len(better) + 1} of {len(made.candidates)}"
    if not arima.like:
        return rank
    if arima.correlation >= ALIKE:
        return f"{rank}; shares its weight with {arima.like}, which errs alike (correlation {arima.correlation:.2f})"
    return (
        f"{rank}; its errors differ from those of every other path (at most {arima.correlation:.2f} with {arima.like})"
    )


def _shares(weights: dict[str, float]) -> str:
    """The parts of the forecast: ` (week 40 %, day 35 %)`; empty if there is only one."""
    largest = sorted(weights.items(), key=lambda item: -item[1])
    parts = [f"{name} {share:.0%}" for name, share in largest if share >= SHOWN_SHARE]
    return f" ({', '.join(parts)})" if len(weights) > 1 else ""


def _head(pool: PoolPlan) -> list[str]:
    row, policy, made = pool.row, pool.row.policy, pool.row.forecast
    skill = "not measured" if made.skill is None else f"{made.skill:.2f}"
    extra = row.hours - row.base_hours
    size = f"floor {row.base} outside windows, at most {row.maximum}"
    capacity = f"{policy.capacity:g} {policy.capacity_unit} per replica ({policy.capacity_source})"
    trust = f"skill {skill} on {made.folds} back-tested day(s), {made.history_days:g} days of history"
    lines = [
        f"{row.name} ({row.role}): {size}; {row.hours:g} replica-hours a week, {extra:g} of them above the base",
        f"  policy {policy.name}: {_quantile_text(policy)} at {policy.utilisation:.0%} of {capacity}",
        f"  replicas are started {policy.lead_seconds / 60:.0f} min before the load",
        f"  forecast: {made.method}{_shares(made.weights)}, {trust}",
    ]
    lines += _candidates(made)
    if row.tuning is not None:
        lines.append(f"  {tuning_words(row.tuning)}")
    if made.abstained:
        lines.append(f"  abstained: {made.reason}")
    return lines
