"""A forecast: numbers per step, how they were made, how far to trust them, and how far they missed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inferdoc.forecast.series import DAY, LoadSeries, stamp

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
