"""Changes of a schedule between two plans: kept small when planning, listed by `inferdoc prewarm diff`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np

from inferdoc import escaping
from inferdoc.forecast.result import label
from inferdoc.prewarm.plan import (
    CandidateRow,
    ForecastRow,
    PlanRow,
    PoolPlan,
    PoolRow,
    SettingRow,
    TuningRow,
    pool_plan,
)
from inferdoc.prewarm.plan_options import AVOIDED, PRICE, Setting
from inferdoc.prewarm.week import (
    DAYS,
    MINUTES,
    MINUTES_PER_DAY,
    WeekSegment,
    WeekWindow,
    clock,
    differing_segments,
    minute_of_week,
)


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
    setting = Setting(policy.quantile, policy.safety_factor)
    covered = label(setting.quantile) if setting.safety == 1 else str(setting)
    extra = row.hours - row.base_hours
    size = f"floor {row.base} outside windows, at most {row.maximum}"
    capacity = f"{policy.capacity:g} {policy.capacity_unit} per replica ({policy.capacity_source})"
    trust = f"skill {skill} on {made.folds} back-tested day(s), {made.history_days:g} days of history"
    lines = [
        f"{row.name} ({row.role}): {size}; {row.hours:g} replica-hours a week, {extra:g} of them above the base",
        f"  policy {policy.name}: {covered} at {policy.utilisation:.0%} of {capacity}",
        f"  replicas are started {policy.lead_seconds / 60:.0f} min before the load",
        f"  forecast: {made.method}{_shares(made.weights)}, {trust}",
    ]
    lines += _candidates(made)
    if row.tuning is not None:
        lines.append(f"  {tuning_words(row.tuning)}")
    if made.abstained:
        lines.append(f"  abstained: {made.reason}")
    return lines


@dataclass(frozen=True)
class FormerPool:
    """A pool in the previous plan. floor: int64[10080]."""

    plan_id: str
    row: PoolRow
    floor: np.ndarray


def former_pool(plan: PlanRow | None, name: str, zone: str) -> FormerPool | None:
    """The pool in the previous plan; None if it was missing or had another time zone."""
    row = next((row for row in plan.pools if row.name == name), None) if plan is not None else None
    if plan is None or row is None or row.zone != zone or row.forecast.abstained:
        return None
    return FormerPool(plan.plan_id, row, pool_plan(row).floor)


def settled_with(
    former: FormerPool, floor: np.ndarray, required: np.ndarray, price: float
) -> tuple[np.ndarray, list[str]]:
    """The floor with the former one in each time range where that meets `required` and a change would save less than
    `price` replica-hours a week; and a note. required: int64[10080], the minimum of each minute."""
    made, kept = floor.copy(), 0
    differs = np.flatnonzero(floor != former.floor)
    if not len(differs):
        return made, []
    runs = np.split(differs, np.flatnonzero(np.diff(differs) > 1) + 1)
    if len(runs) > 1 and runs[0][0] == 0 and runs[-1][-1] == MINUTES - 1:
        runs = [np.concatenate([runs[-1], runs[0]]), *runs[1:-1]]
    for run in runs:
        saved = float((former.floor[run] - floor[run]).sum()) / 60
        if (former.floor[run] >= required[run]).all() and saved < price:
            made[run] = former.floor[run]
            kept += 1
    note = f"{kept} time range(s) stay as in plan {former.plan_id}: a change would save under {price:g} replica-hours"
    return made, [note] if kept else []


def with_moves(row: PoolRow, former: FormerPool) -> PoolRow:
    """The pool with the value of the previous plan and its reason in the reason of each window."""
    plan = pool_plan(row)
    windows = [
        msgspec.structs.replace(written, reason=f"{written.reason}{_moved(window, former)}")
        for window, written in zip(plan.windows, row.windows, strict=True)
    ]
    return msgspec.structs.replace(row, windows=windows)


def _moved(window: WeekWindow, former: FormerPool) -> str:
    levels_inside = [former.floor[(d * 1440 + window.start + np.arange(window.length)) % MINUTES] for d in window.days]
    around = [
        former.floor[[(d * 1440 + window.start - 1) % MINUTES, (d * 1440 + window.start + window.length) % MINUTES]]
        for d in window.days
    ]
    levels = np.unique(np.concatenate(levels_inside)).tolist()
    same = levels == [window.replicas]
    if same and all((edges != window.replicas).all() for edges in around):
        return ""
    if same:
        return f"; plan {former.plan_id} kept {window.replicas} for longer"
    old = min(former.row.windows, key=lambda w: (abs(w.replicas - max(levels)), w.start), default=None)
    was = f"{levels[0]}" if len(levels) == 1 else f"{levels[0]} to {levels[-1]}"
    why = "" if old is None or levels == [former.row.base] else f" ({old.reason.partition('; plan ')[0]})"
    return f"; plan {former.plan_id} had {was} then{why}"


def span_words(days: tuple[int, ...], segment: WeekSegment) -> str:
    """`mon-fri 07:30-08:15`."""
    names = [DAYS[day] for day in days]
    run = len(days) > 2 and days == tuple(range(days[0], days[0] + len(days)))
    text = f"{names[0]}-{names[-1]}" if run else ",".join(names)
    return f"{text} {clock(segment.start)[4:]}-{clock(segment.end)[4:]}"


SCHEMA = "inferdoc.prewarm.diff/v1"
Price = Callable[[str], float | None]


@dataclass(frozen=True)
class FloorMove:
    """A time range of the week whose floor changes. hours: replica-hours a week more (less: negative)."""

    when: str
    before: int
    after: int
    hours: float
    reason: str


@dataclass(frozen=True)
class PoolDifference:
    """One pool of two plans. hours_before, hours_after: replica-hours of the floor in a week, None where the plan lacks
    the pool; cost: money a week more, None without a price; notes: what else is another."""

    pool: str
    hours_before: float | None
    hours_after: float | None
    cost: float | None
    moves: list[FloorMove]
    notes: list[str]


def difference(old: PlanRow, new: PlanRow, price: Price) -> list[PoolDifference]:
    """One entry per pool of either plan. price: of a replica-hour, by pool."""
    before = {row.name: pool_plan(row) for row in old.pools}
    after = {row.name: pool_plan(row) for row in new.pools}
    return [_pool(name, before.get(name), after.get(name), price(name)) for name in sorted({*before, *after})]


def _pool(name: str, old: PoolPlan | None, new: PoolPlan | None, price: float | None) -> PoolDifference:
    spent = [None if plan is None else round(float(plan.floor.sum()) / 60, 2) for plan in (old, new)]
    more = (spent[1] or 0.0) - (spent[0] or 0.0)
    cost = None if price is None else round(more * price, 2)
    notes = _notes(old, new)
    moves = [] if old is None or new is None else _moves(old, new)
    return PoolDifference(name, spent[0], spent[1], cost, moves, notes)


def _notes(old: PoolPlan | None, new: PoolPlan | None) -> list[str]:
    if new is None:
        return ["is in the plan no more: its floor goes back to the user's base"]
    if old is None:
        return ["is new in the plan"]
    found = []
    for name, word in (("zone", "clock"), ("base", "base floor"), ("maximum", "maximum"), ("role", "role")):
        was, now = getattr(old.row, name), getattr(new.row, name)
        if was != now:
            found.append(f"{word}: {was} -> {now}")
    if old.row.forecast.abstained != new.row.forecast.abstained:
        found.append(
            f"the forecast abstains now: {new.row.forecast.reason}"
            if new.row.forecast.abstained
            else "the forecast no longer abstains"
        )
    if old.row.tuning != new.row.tuning and new.row.tuning is not None:
        found.append(tuning_words(new.row.tuning))
    elif old.row.tuning is not None and new.row.tuning is None:
        found.append("is not tuned by a back-test any more")
    was = _policy(old)
    found += [f"{key}: {was[key]} -> {now}" for key, now in _policy(new).items() if was[key] != now]
    return found


def _policy(plan: PoolPlan) -> dict[str, object]:
    """The chosen settings, without lead time and cap, which follow from the load."""
    policy: dict[str, object] = msgspec.to_builtins(plan.row.policy)
    return {key: value for key, value in policy.items() if key not in ("cap_load", "lead_seconds")}


def _moves(old: PoolPlan, new: PoolPlan) -> list[FloorMove]:
    groups: dict[tuple[int, int, int, int], list[int]] = {}
    for part in differing_segments(old.floor, new.floor):
        day, start = divmod(part.start, MINUTES_PER_DAY)
        key = (start, part.end - part.start, int(old.floor[part.start]), part.replicas)
        groups.setdefault(key, []).append(day)
    found = []
    for (start, length, before, after), days in sorted(groups.items(), key=lambda item: (item[1][0], item[0])):
        hours = round((after - before) * length * len(days) / 60, 2)
        segment = WeekSegment(start, start + length, after)
        covering = (new if after > new.row.base else old).covering(days[0] * MINUTES_PER_DAY + start)
        reason = covering[0][1].reason if covering else ""
        found.append(FloorMove(span_words(tuple(days), segment), before, after, hours, reason))
    return found


def to_json(old: PlanRow, new: PlanRow, found: list[PoolDifference], currency: str) -> str:
    priced = any(pool.cost is not None for pool in found)
    head = {"schema": SCHEMA, "old": old.plan_id, "new": new.plan_id, "currency": currency if priced else None}
    return json.dumps({**head, "pools": [asdict(pool) for pool in found]}, indent=1) + "\n"


def to_text(old: PlanRow, new: PlanRow, found: list[PoolDifference], currency: str) -> str:
    """One block per pool: the sum, then each time range with its replica-hours and its reason."""
    lines = [f"plan {old.plan_id} -> {new.plan_id}, per week"]
    for pool in found:
        was, now = ("none" if h is None else f"{h:g}" for h in (pool.hours_before, pool.hours_after))
        more = (pool.hours_after or 0.0) - (pool.hours_before or 0.0)
        money = "" if pool.cost is None else f", {pool.cost:+,.2f} {currency}"
        lines += ["", f"{pool.pool}: {was} -> {now} replica-hours ({more:+g}{money})"]
        lines += [f"  {note}" for note in pool.notes]
        for move in pool.moves:
            lines.append(f"  {move.when}: {move.before} -> {move.after} ({move.hours:+g} h)")
            if move.reason:
                lines.append(f"    {'because' if move.after > move.before else 'it was because'}: {move.reason}")
        if not pool.moves and not pool.notes:
            lines.append("  nothing changes")
    return escaping.page(lines) + "\n"
