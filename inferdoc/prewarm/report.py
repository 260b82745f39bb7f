"""A back-test as text, JSON and plot."""

from __future__ import annotations

import io
import json
from typing import Any

from inferdoc.escaping import one_line, page
from inferdoc.extras import needed
from inferdoc.prewarm.backtest import Report

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
