"""Keeps past forecasts, so that a load above its prediction interval is noticed within a day."""

from __future__ import annotations

import numpy as np

from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import DAY, LoadSeries

LEVEL = 0.95
FEWEST = 12
"""Bins below which a share says nothing: at 5 % above the band, one in twelve is chance."""


class ForecastLedger:
    """Of one pool: for each bin the 95 % level of the newest forecast that was made before it."""

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
