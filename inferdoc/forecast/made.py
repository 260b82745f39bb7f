"""What every forecasting method hands over to the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferdoc.forecast.bands import Residuals
from inferdoc.forecast.combine import Trials


@dataclass
class Made:
    """method: its name for the output; center: float64[F, P], square-root space; past: float64[K, F, P], what the
    method says on the back-tested days of `trials`; residuals: actual minus past; weights: share of each path; notes:
    one line each."""

    method: str
    center: np.ndarray
    past: np.ndarray
    trials: Trials
    minutes: float
    weights: dict[str, float]
    notes: tuple[str, ...] = ()
    unproven: np.ndarray | None = None

    @property
    def residuals(self) -> Residuals:
        """Errors of the back-tested days; without any, `unproven`: how the newest known day swings about its own level
        (float64[1, F, P]), so that a history too short to test still gets a band."""
        found = self.trials.actual - self.past
        if self.unproven is not None and not np.isfinite(found).any():
            found = self.unproven
        return Residuals(found, self.minutes)
