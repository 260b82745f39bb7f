"""Back-tests prewarm policies on history: the cost of each and the overload that it avoids.

The replay covers the last days of the series; every floor comes from forecasts made with what was known at the time.
Protocol: docs/prewarm.md.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line, page
from inferdoc.extras import needed
from inferdoc.forecast.calendar import fold, zone_of
from inferdoc.forecast.engine import HISTORY_DAYS, Request, forecast
from inferdoc.forecast.paths import Folded, fill_gaps, last_week, yesterday
from inferdoc.forecast.series import DAY, Load, LoadSeries, Rate, without_outages
from inferdoc.prewarm.build import load_per_second, unit_of
from inferdoc.prewarm.plan_options import POLICIES, Capacity, Limits, Policy, PoolOptions, replicas_for
from inferdoc.prewarm.replay import (
    TARGET,
    ReplayOutcome,
    Site,
    followed,
    highest_ahead,
    judge,
    oracle,
    per_minute,
    reactive,
    walk,
)

REPLAY_DAYS = 4.0
REFIT = 6 * 3600
MARGIN_MINUTES = 2
PEAK_REPLICAS = 20
PEAK_QUANTILE = 0.995
NAIVE = Policy("naive floor", 0.5, TARGET, False)


@dataclass(frozen=True)
class Trial:
    """Options of a back-test. capacity: load per second one replica can serve (None = such that the 99.5 % load of the
    history needs 20 replicas at 70 %); cold_start: seconds; days: replayed at the end of the series; quantile: instead
    of the balanced policy's own; scheduled: whether the plan as emitted (a weekly schedule, made again each day) is
    replayed too."""

    cold_start: int
    capacity: float | None = None
    zone: str = "UTC"
    minimum: int = 1
    maximum: int = 100_000
    days: float = REPLAY_DAYS
    quantile: float | None = None
    utilisation: float | None = None
    scheduled: bool = True


@dataclass
class Report:
    """outcomes: policy -> outcome; abstained: share of the refits at which the forecast abstained."""

    name: str
    capacity: float
    cold_start: int
    days: float
    abstained: float
    reason: str
    outcomes: dict[str, ReplayOutcome] = field(default_factory=dict)

    def cut(self, policy: str) -> float | None:
        """Share of the reactive scaler's overload that the policy avoids; None when there was none."""
        base = self.outcomes["reactive"].overload
        return None if base <= 0 else 1.0 - self.outcomes[policy].overload / base

    def hours_ratio(self, policy: str) -> float:
        """Replica-hours relative to the oracle's."""
        return self.outcomes[policy].hours / max(self.outcomes["oracle"].hours, 1e-9)


Levels = dict[str, np.ndarray]


def backtest(series: LoadSeries, trial: Trial) -> Report:
    """Replays the end of `series`. InferdocError when it is too short to replay anything."""
    clean = without_outages(series)
    begin = series.end - round(trial.days * DAY / series.step) * series.step
    history = clean.before(begin)
    if history.days < 3:
        needed = f"a back-test of {trial.days:g} days needs at least {trial.days + 3:g}"
        raise InferdocError(f"{series.days:.1f} days of data: {needed}")
    capacity = trial.capacity or default_capacity(history)
    site = Site(capacity * 60, max(1, round(trial.cold_start / 60)), trial.minimum, trial.maximum)
    replayed = per_minute(clean.before(series.end, trial.days + 1.0))
    skip = len(replayed) - round(trial.days * 1440)
    floors, abstained, reason = _floors(clean, begin, Rate(capacity, unit_of(clean)), trial, site)
    report = Report(series.name, capacity, trial.cold_start, trial.days, abstained, reason)
    lead = np.zeros(skip, dtype=np.int64)
    report.outcomes["reactive"] = judge(replayed, reactive(replayed, site), site, skip)
    for name, floor in floors.items():
        paid = reactive(replayed, site, np.concatenate([lead, floor])[: len(replayed)])
        report.outcomes[name] = judge(replayed, paid, site, skip)
    peak = _peak(clean.before(begin, 7.0), capacity, site)
    report.outcomes["static peak"] = judge(replayed, np.full(len(replayed), peak), site, skip)
    report.outcomes["oracle"] = judge(replayed, oracle(replayed, site), site, skip)
    return report


def default_capacity(history: LoadSeries) -> float:
    """Load per second per replica such that the 99.5 % load of the history needs 20 replicas at 70 %."""
    known = history.values[np.isfinite(history.values)]
    share = 1.0 / history.step if history.kind == "amount" else 1.0
    high = float(np.quantile(known, PEAK_QUANTILE)) * share
    if high <= 0:
        raise InferdocError("the history contains no load; there is nothing to replay")
    return high / (PEAK_REPLICAS * TARGET)


def _peak(recent: LoadSeries, capacity: float, site: Site) -> int:
    known = per_minute(recent)
    known = known[np.isfinite(known)]
    top = float(known.max()) if len(known) else 0.0
    return int(np.clip(np.ceil(top / (TARGET * capacity * 60)), site.minimum, site.maximum))


def policies(trial: Trial) -> dict[str, Policy]:
    made = dict(POLICIES)
    if trial.quantile is not None or trial.utilisation is not None:
        base = POLICIES["balanced"]
        quantile, used = trial.quantile or base.quantile, trial.utilisation or base.utilisation
        made["chosen"] = Policy("chosen", quantile, used, base.capped)
    return made


def _floors(clean: LoadSeries, begin: int, capacity: Rate, trial: Trial, site: Site) -> tuple[Levels, float, str]:
    """Floor per minute of each policy, refitted every six hours; and how often the forecast abstained, and why."""
    tested = policies(trial)
    levels = tuple(sorted({0.5, 0.95, *[p.quantile for p in tested.values()]}))
    reach = trial.cold_start + 60 * (MARGIN_MINUTES + max(p.margin_minutes for p in tested.values()))
    parts: dict[str, list[np.ndarray]] = {"naive floor": [], **{name: [] for name in tested}}
    abstentions, refits, reason = 0, 0, ""
    for moment in range(begin, clean.end, REFIT):
        known = clean.before(moment, HISTORY_DAYS)
        minutes = min(REFIT, clean.end - moment) // 60
        horizon = -(-(REFIT + reach) // clean.step) * clean.step
        result = forecast(known, Request(horizon, trial.zone, levels=levels, keep_outages=True))
        refits += 1
        abstentions += result.abstained
        reason = result.reason or reason
        naive = _naive(known, trial.zone, horizon // clean.step)
        share = 1.0 / clean.step if clean.kind == "amount" else 1.0
        by_habit = Load(naive * share, capacity.unit)
        parts["naive floor"].append(_floor(by_habit, capacity, NAIVE, clean.step, site, minutes))
        for name, policy in tested.items():
            if result.abstained:
                parts[name].append(np.full(minutes, site.minimum, dtype=np.int64))
                continue
            load, _ = load_per_second(known, result, policy)
            parts[name].append(_floor(load, capacity, policy, clean.step, site, minutes))
    floors = {name: np.concatenate(found) for name, found in parts.items()}
    if trial.scheduled:
        floors["balanced, scheduled"] = _scheduled(clean, begin, capacity, trial)
    return floors, abstentions / max(refits, 1), reason


def _floor(load: Load, capacity: Rate, policy: Policy, step: int, site: Site, minutes: int) -> np.ndarray:
    need = np.clip(replicas_for(load, capacity, policy.utilisation), site.minimum, site.maximum)
    each = np.repeat(need, max(1, step // 60))
    early = highest_ahead(each, site.cold + MARGIN_MINUTES + policy.margin_minutes)
    late = highest_ahead(each[::-1], policy.margin_minutes)[::-1]
    return np.asarray(np.maximum(early, late)[:minutes])


def _naive(known: LoadSeries, zone: str, steps: int) -> np.ndarray:
    """The load of last week at the same time, else of yesterday: the floor that any cron line could set."""
    rows = fold(known, zone_of(zone), steps)
    folded = Folded(rows, fill_gaps(rows))
    made = last_week(folded, rows.count, rows.ahead)
    if made is None:
        made = yesterday(folded, rows.count, rows.ahead)
    if made is None:
        return np.zeros(steps)
    return np.asarray(made[rows.row, rows.col] ** 2)


def _scheduled(clean: LoadSeries, begin: int, capacity: Rate, trial: Trial) -> np.ndarray:
    """The balanced plan as a weekly schedule, made again each day from what was known then."""
    options = PoolOptions(
        request=Request(7 * DAY, trial.zone),
        policy=POLICIES["balanced"],
        capacity=Capacity(capacity),
        limits=Limits(trial.minimum, trial.maximum, scale_to_zero=trial.minimum == 0),
        cold_start=trial.cold_start,
        name="pool",
    )
    return followed(walk(clean, options, begin, [options.policy.quantile]), options)


SCHEMA = "inferdoc.prewarm.backtest/v1"


def pareto(report: Report) -> set[str]:
    """Policies that no other one beats on both overload and replica-hours (the oracle left out)."""
    found = {name: o for name, o in report.outcomes.items() if name != "oracle"}
    return {
        name
        for name, o in found.items()
        if not any(
            (p.overload <= o.overload and p.hours < o.hours) or (p.overload < o.overload and p.hours <= o.hours)
            for p in found.values()
        )
    }


def to_dict(report: Report, price: float | None = None) -> dict[str, Any]:
    """`inferdoc.prewarm.backtest/v1`. price: of a replica-hour, in the user's currency."""
    front = pareto(report)
    rows = []
    for name, o in report.outcomes.items():
        cut = report.cut(name)
        rows.append(
            {
                "policy": name,
                "overload_share": round(o.overload, 8),
                "overload_requests": round(o.excess, 3),
                "underprovisioned_minutes": o.minutes,
                "cut": None if cut is None else round(cut, 6),
                "replica_hours": round(o.hours, 3),
                "hours_ratio": round(report.hours_ratio(name), 6),
                "cost": None if price is None else round(o.hours * price, 2),
                "max_replicas": o.top,
                "pareto": name in front,
            }
        )
    return {
        "schema": SCHEMA,
        "series": report.name,
        "days": report.days,
        "cold_start_seconds": report.cold_start,
        "capacity_per_second": round(report.capacity, 6),
        "requests": round(report.outcomes["reactive"].requests, 3),
        "abstained_share": round(report.abstained, 4),
        "reason": report.reason,
        "policies": rows,
    }


def to_json(report: Report, price: float | None = None) -> str:
    return json.dumps(to_dict(report, price), indent=1) + "\n"


def to_table(report: Report, price: float | None = None) -> str:
    """One line per policy; `*` marks the Pareto front."""
    found = to_dict(report, price)
    site = f"{report.capacity:.4g} requests/s per replica, cold start {report.cold_start / 60:g} min"
    head = f"{'policy':22s} {'overload':>9s} {'cut':>7s} {'minutes':>8s} {'hours':>9s} {'/oracle':>8s} {'most':>5s}"
    lines = [f"{report.name}: the last {report.days:g} days, {site}"]
    lines.append(head + ("" if price is None else f" {'cost':>10s}"))
    for row in found["policies"]:
        cut = "-" if row["cut"] is None else f"{row['cut']:.1%}"
        line = (
            f"{'*' if row['pareto'] else ' '} {row['policy']:20s} {row['overload_share']:>9.3%} {cut:>7s} "
            f"{row['underprovisioned_minutes']:>8d} {row['replica_hours']:>9.1f} {row['hours_ratio']:>8.2f} "
            f"{row['max_replicas']:>5d}"
        )
        lines.append(line + ("" if price is None else f" {row['cost']:>10,.2f}"))
    lines.append(
        "cut: share of the reactive scaler's overload that is avoided; * no other policy is better on both counts"
    )
    if report.abstained:
        lines.append(f"the forecast abstained at {report.abstained:.0%} of the refits: {report.reason}")
    return page(lines) + "\n"


def to_image(report: Report, kind: str = "png") -> bytes:
    """Overload against replica-hours, one point per policy, the Pareto front joined."""
    with needed("matplotlib", "a plot"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    front = pareto(report)
    points = {n: (report.hours_ratio(n), 100 * o.overload) for n, o in report.outcomes.items() if n != "static peak"}
    line = sorted(points[n] for n in front if n in points)
    axes.plot([x for x, _ in line], [y for _, y in line], color="#1f77b4", linewidth=1, alpha=0.6, zorder=1)
    placed: list[tuple[float, float]] = []
    span = max(y for _, y in points.values()) or 1.0
    for name, (x, y) in sorted(points.items(), key=lambda item: item[1]):
        axes.scatter([x], [y], s=34, color="#1f77b4" if name in front else "#888888", zorder=2)
        near = sum(1 for a, b in placed if abs(a - x) < 0.09 and abs(b - y) < 0.06 * span)
        axes.annotate(name, (x, y), textcoords="offset points", xytext=(6, 5 + 11 * near), fontsize=8)
        placed.append((x, y))
    axes.set_xlabel("replica-hours relative to perfect foresight")
    axes.set_ylabel("requests above capacity, %")
    axes.set_ylim(bottom=-0.04 * span, top=1.18 * span)
    axes.margins(x=0.12)
    title = one_line(f"{report.name}: last {report.days:g} days, cold start {report.cold_start / 60:g} min")
    axes.set_title(title, fontsize=10, loc="left", parse_math=False)
    axes.grid(alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=110)
    return out.getvalue()
