"""A prewarm plan as one HTML file: load, forecast, floor and cost of each pool; no network, no script."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from inferdoc.escaping import html as escape
from inferdoc.escaping import one_line
from inferdoc.forecast.series import LoadSeries
from inferdoc.prewarm.build import Outlook
from inferdoc.prewarm.difference import explain
from inferdoc.prewarm.plan import PlanRow, PoolRow, pool_plan
from inferdoc.report.html_finding import pairs, titled
from inferdoc.report.html_page import document, drawn_svg, inline_svg
from inferdoc.version import __version__

SIZES = (10.4, 6.6)
HISTORY_DAYS = 7.0
HOUR = 3600


def prewarm_html(plan: PlanRow, seen: Mapping[str, tuple[LoadSeries, Outlook]], price: float | None = None) -> str:
    """A whole HTML document. seen: by pool, its load and the outlook that was planned for; price: of a replica-hour, in
    the user's currency."""
    facts = pairs(
        (
            ("plan", f"<code>{escape(plan.plan_id)}</code>"),
            ("made", f"{plan.generated_at:%Y-%m-%d %H:%M} UTC"),
            ("valid until", f"{plan.valid_until:%Y-%m-%d %H:%M} UTC"),
        )
    )
    body = [f"<header><h1>Prewarm plan</h1>{facts}</header>"]
    for at, row in enumerate(plan.pools):
        drawn = f"<figure>{plan_svg(row, *seen[row.name], price, f'p{at}')}</figure>" if row.name in seen else ""
        body.append(titled(f"pool{at}", row.name, f"<p>{escape(cost_words(row, price))}</p>{drawn}"))
    reasons = "\n".join(map(escape, explain(plan, plan.generated_at, 2).splitlines()))
    body.append(titled("why", "Explanation", f"<pre>{reasons}</pre>"))
    body.append(f"<footer>inferdoc {escape(__version__)}, {escape(plan.schema)}</footer>")
    return document("Prewarm plan", "\n".join(body), __version__)


def cost_words(row: PoolRow, price: float | None) -> str:
    """What the floor takes in a week."""
    hours = f"Floor of {row.hours:g} replica-hours a week, {row.hours - row.base_hours:g} above the base of {row.base}."
    return hours if price is None else f"{hours} Cost {row.hours * price:,.2f} a week at {price:g} per replica-hour."


def plan_svg(row: PoolRow, series: LoadSeries, ahead: Outlook, price: float | None, key: str) -> str:
    """Inline SVG: above, load per second of the last days and the forecast with its bands; below, the floor, the
    replicas that the median load needs at the plan's utilisation, and the cost so far. key: unique in the page."""
    plan, result = pool_plan(row), ahead.result
    past = series.before(result.start, HISTORY_DAYS)
    share = 1.0 / series.step if series.kind == "amount" else 1.0
    at, known = _clock(result.times, plan.zone), _clock(past.times, plan.zone)
    floor = np.array([plan.at(moment) for moment in result.times.tolist()])
    need = np.ceil(result.p50 * share / (row.policy.capacity * row.policy.utilisation))
    spent = np.cumsum(floor) * result.step / HOUR * (1.0 if price is None else price)
    with drawn_svg(key):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
        from matplotlib.figure import Figure

        drawing = Figure(figsize=SIZES, layout="constrained")
        load, replicas = drawing.subplots(2, 1)
        load.plot(known, past.values * share, color="#57606a", linewidth=0.8, label="load")
        load.fill_between(at, result.p50 * share, result.p95 * share, color="#0550ae", alpha=0.2, label="p50 to p95")
        load.plot(at, result.p50 * share, color="#0550ae", linewidth=1, label="forecast p50")
        load.plot(at, ahead.load.values, color="#bc4c00", linewidth=0.9, label="planned quantile")
        load.set_ylabel(one_line(row.policy.capacity_unit), parse_math=False)
        replicas.step(at, floor, where="post", color="#bc4c00", linewidth=1.2, label="floor")
        replicas.step(at, need, where="post", color="#0550ae", linewidth=0.8, label="replicas for p50")
        replicas.set_ylabel("replicas")
        cost = replicas.twinx()
        unit = "replica-hours" if price is None else "cost"
        cost.plot(at, spent, color="#1a7f37", linewidth=0.9, linestyle="--", label=f"{unit} of the floor (right)")
        cost.set_ylabel(unit)
        drawn = [line for axes in (replicas, cost) for line in axes.get_lines()]
        replicas.legend(handles=drawn, loc="upper left", fontsize=8, ncols=3, frameon=False)
        load.legend(loc="upper left", fontsize=8, ncols=4, frameon=False)
        for axes in (load, replicas):
            axes.xaxis.set_major_locator(locator := AutoDateLocator())  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
            axes.set_ylim(bottom=0, top=1.2 * axes.get_ylim()[1])
            axes.grid(alpha=0.25, linewidth=0.6)
            axes.spines["top"].set_visible(False)
        cost.set_ylim(bottom=0, top=1.2 * float(spent[-1]))
        replicas.set_xlabel(one_line(f"local time, {row.zone}"), parse_math=False)
        title = f"Load, forecast and floor of {row.name}"
        return inline_svg(drawing, key, title, 'style="max-width:100%;height:auto" ')


def _clock(times: np.ndarray, zone: Any) -> list[datetime]:
    """Local wall clock without a zone, which the axis then shows as it is."""
    return [datetime.fromtimestamp(t, UTC).astimezone(zone).replace(tzinfo=None) for t in times.tolist()]
