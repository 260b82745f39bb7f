"""A forecast: numbers per step, how they were made, how far to trust them, and how far they missed."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.escaping import one_line, page
from inferdoc.extras import needed
from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.series import DAY, LoadSeries, stamp

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SCHEMA = "inferdoc.forecast/v1"


@dataclass(frozen=True)
class CandidatePath:
    """A path of the combination on the back-tested days. weight: its share; error: mean absolute error per step, unit
    of the input; like: the path whose errors are most like its own, and correlation: of the two, -1 to 1."""

    name: str
    weight: float
    error: float
    like: str
    correlation: float


@dataclass(frozen=True)
class Forecast:
    """start: Unix seconds of the first step; step: seconds; mean: float64[H]; quantiles: level -> float64[H], ascending
    in level and never negative, in the unit of the input; method: what made the numbers; weights: share of each path on
    the first day; folds: back-tested days; skill: 1 - MSE(method) / MSE(flat level) on them, None if it could not be
    measured; errors: mean absolute error per step of the method and of each rival on the same bins, unit of the input;
    coverage: nominal level -> share of back-tested bins at or below that quantile, each day scored with the residuals
    of the others; missed: share of the last day's bins above the band that was forecast for them, None where that was
    not kept; candidates: the paths of a combination, by weight; arima: the model among them, or why there is none."""

    name: str
    unit: str
    start: int
    step: int
    zone: str
    mean: np.ndarray
    quantiles: dict[float, np.ndarray]
    method: str
    weights: dict[str, float] = field(default_factory=dict)
    folds: int = 0
    skill: float | None = None
    abstained: bool = False
    reason: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    coverage: dict[float, float] = field(default_factory=dict)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    history_days: float = 0.0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    missed: float | None = None
    candidates: tuple[CandidatePath, ...] = ()
    arima: str = ""

    @property
    def times(self) -> np.ndarray:
        """int64[H], Unix seconds."""
        return self.start + self.step * np.arange(len(self.mean), dtype=np.int64)

    @property
    def p50(self) -> np.ndarray:
        return self.quantiles[0.5]

    @property
    def p95(self) -> np.ndarray:
        return self.quantiles[0.95]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form (`inferdoc.forecast/v1`)."""
        levels = {label(q): values for q, values in self.quantiles.items()}
        rows = [
            {"timestamp": stamp(t), "mean": number(self.mean[i]), **{k: number(v[i]) for k, v in levels.items()}}
            for i, t in enumerate(self.times.tolist())
        ]
        return {
            "schema": SCHEMA,
            "series": self.name,
            "unit": self.unit,
            "method": self.method,
            "candidates": [
                {"name": c.name, "error": number(c.error), "like": c.like, "correlation": round(c.correlation, 4)}
                for c in self.candidates
            ],
            "arima": self.arima,
            "weights": {k: round(v, 4) for k, v in self.weights.items()},
            "abstained": self.abstained,
            "reason": self.reason,
            "skill": None if self.skill is None else round(self.skill, 4),
            "folds": self.folds,
            "errors": {k: number(v) for k, v in self.errors.items() if np.isfinite(v)},
            "coverage": {label(k): round(v, 4) for k, v in self.coverage.items()},
            "zone": self.zone,
            "step_seconds": self.step,
            "history_days": round(self.history_days, 3),
            "gaps": [{"from": stamp(a), "until": stamp(b)} for a, b in self.gaps],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
            "forecast": rows,
        }


def label(level: float) -> str:
    """0.95 -> p95; 0.995 -> p99.5."""
    return f"p{level * 100:g}"


def number(value: float) -> float:
    """Seven significant digits: exact enough, and the same text on every machine."""
    return float(f"{value:.7g}")


LEVEL = 0.95
FEWEST = 12
"""Bins below which a share says nothing: at 5 % above the band, one in twelve is chance."""


class ForecastLedger:
    """The past forecasts of one pool: for each bin the 95 % level of the newest forecast before it."""

    def __init__(self) -> None:
        self._levels: dict[int, float] = {}

    def write(self, made: Forecast) -> None:
        """Replaces older forecasts of the bins from its start on."""
        kept = {at: level for at, level in self._levels.items() if made.start - DAY <= at < made.start}
        self._levels = kept | dict(zip(made.times.tolist(), made.quantiles[LEVEL].tolist(), strict=True))

    def missed(self, series: LoadSeries) -> float | None:
        """Share of the last day's bins whose load was above the interval, 0 to 1; None for too few bins."""
        recent = series.before(series.end, 1.0)
        times = recent.start + recent.step * np.arange(len(recent.values))
        levels = np.array([self._levels.get(at, np.nan) for at in times.tolist()])
        known = np.isfinite(levels) & np.isfinite(recent.values)
        return float((recent.values[known] > levels[known]).mean()) if known.sum() >= FEWEST else None


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
