"""Writes a forecast: table, CSV, JSON, plot, Prometheus textfile."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.escaping import one_line, page
from inferdoc.extras import needed
from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.result import Forecast, label, number
from inferdoc.forecast.series import DAY, LoadSeries, stamp

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE_ROWS = 24


def to_csv(result: Forecast) -> str:
    """`timestamp,mean,p50,p95` and further quantiles, UTC, one row per step."""
    first = [0.5, 0.95]
    levels = first + [q for q in sorted(result.quantiles) if q not in first]
    lines = [",".join(["timestamp", "mean", *[label(q) for q in levels]])]
    columns = [result.mean, *[result.quantiles[q] for q in levels]]
    for i, moment in enumerate(result.times.tolist()):
        lines.append(",".join([stamp(moment), *[f"{number(column[i]):.7g}" for column in columns]]))
    return "\n".join(lines) + "\n"


def to_json(result: Forecast) -> str:
    return json.dumps(result.to_dict(), indent=1) + "\n"


def to_table(result: Forecast) -> str:
    """At most about a day's worth of lines: each sums up (mean of p50, highest p95) a time range of the horizon, local
    time."""
    zone = zone_of(result.zone)
    count = len(result.mean)
    size = max(1, -(-count // TABLE_ROWS))
    nice = [s for s in (300, 600, 900, 1800, 3600, 7200, 10800, 21600, DAY) if s >= size * result.step]
    size = max(1, (nice[0] if nice else size * result.step) // result.step)
    lines = [f"{result.name}: {result.method}, {result.unit}, {result.zone}"]
    head = f"{'from (local)':22s} {'mean':>11s} {'p50':>11s} {'p95, highest':>13s}"
    lines += [head, "-" * len(head)]
    for a in range(0, count, size):
        part = slice(a, min(a + size, count))
        there = datetime.fromtimestamp(int(result.times[a]), UTC).astimezone(zone)
        lines.append(
            f"{there:%a %Y-%m-%d %H:%M}    {_short(result.mean[part].mean()):>11s} "
            f"{_short(result.p50[part].mean()):>11s} {_short(result.p95[part].max()):>13s}"
        )
    return page([*lines, "", *trust(result)]) + "\n"


def trust(result: Forecast) -> list[str]:
    """How far the numbers can be trusted, in a few plain lines."""
    lines = []
    if result.abstained:
        lines.append(f"abstained: {result.reason}; the numbers are the {result.method}")
    if result.skill is not None:
        lines.append(f"skill {result.skill:.2f} over the flat level, measured on {result.folds} back-tested day(s)")
    known = {k: v for k, v in result.errors.items() if np.isfinite(v)}
    if known:
        lines.append("mean absolute error per step: " + ", ".join(f"{k} {_short(v)}" for k, v in known.items()))
    if result.coverage:
        lines.append("coverage there: " + ", ".join(f"{label(k)} {v:.1%}" for k, v in result.coverage.items()))
    return lines


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def forecast_rows(results: Sequence[Forecast], generated: float) -> dict[str, list[Row]]:
    """Values by metric name, one set per pool: the first step's quantiles, the highest over the horizon, and what an
    alert on staleness or trust needs. generated: Unix seconds."""
    rows: dict[str, list[Row]] = {}

    def add(name: str, result: Forecast, value: float, **labels: str) -> None:
        rows.setdefault(f"inferdoc_forecast_{name}", []).append(({"pool": result.name, **labels}, value))

    for result in results:
        for q, values in sorted(result.quantiles.items()):
            add("load", result, number(values[0]), quantile=f"{q:g}")
            add("load_max", result, number(float(values.max())), quantile=f"{q:g}")
        add("step_timestamp_seconds", result, float(result.start))
        add("generated_timestamp_seconds", result, float(round(generated)))
        add("horizon_seconds", result, float(result.step * len(result.mean)))
        add("abstained", result, float(result.abstained))
        if result.skill is not None:
            add("skill_ratio", result, number(result.skill))
        if result.missed is not None:
            add("missed_ratio", result, number(result.missed))
    return rows


def to_textfile(results: Sequence[Forecast], generated: float) -> str:
    """Prometheus text for a textfile collector. generated: Unix seconds."""
    return Families(load_catalogue().exporters["inferdoc"]).text(forecast_rows(results, generated))


def to_image(series: LoadSeries, result: Forecast, kind: str = "png") -> bytes:
    """The last days and the forecast with its band, on the local clock, as `png` or `svg`."""
    out = io.BytesIO()
    _figure(series, result).savefig(out, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()


def _figure(series: LoadSeries, result: Forecast) -> Figure:
    with needed("matplotlib", "a plot"):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
        from matplotlib.figure import Figure
    zone = zone_of(result.zone)
    shown = series.before(result.start, max(3.0, min(7.0, 3.0 * len(result.mean) * result.step / DAY)))

    def clock(times: np.ndarray) -> list[datetime]:
        return [datetime.fromtimestamp(t, UTC).astimezone(zone) for t in times.tolist()]

    seen: Any = clock(shown.times)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(seen, shown.values, color="#444444", linewidth=0.9, label="observed")
    ahead: Any = clock(result.times)
    axes.fill_between(ahead, result.p50, result.p95, color="#1f77b4", alpha=0.25, linewidth=0, label="p50 to p95")
    axes.plot(ahead, result.p50, color="#1f77b4", linewidth=1.4, label="p50")
    axes.axvline(ahead[0], color="#999999", linewidth=0.8, linestyle=":")
    axes.set_ylim(bottom=0)
    axes.set_ylabel(result.unit)
    locator = AutoDateLocator(tz=zone)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]
    axes.set_xlabel(f"time in {result.zone}")
    state = (
        f"abstained: {result.reason}"
        if result.abstained
        else f"skill {result.skill:.2f}"
        if result.skill is not None
        else ""
    )
    title = one_line(f"{result.name}: {result.method}   {state}")
    axes.set_title(title, fontsize=10, loc="left", parse_math=False)
    axes.legend(loc="upper left", fontsize=8, frameon=False, ncols=3)
    axes.grid(alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure
