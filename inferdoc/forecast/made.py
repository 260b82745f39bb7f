"""What every forecasting method hands over to the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferdoc.forecast.bands import Residuals
from inferdoc.forecast.combine import Combination, Trials


@dataclass
class Made:
    """method: its name for the output; center: float64[F, P], square-root space; past: float64[K, F, P], what the
    method says on the back-tested days of `trials`; residuals: actual minus past; weights: share of each path; notes:
    one line each; near: float64[F, P], what of center the newest errors added (None = nothing)."""

    method: str
    center: np.ndarray
    past: np.ndarray
    trials: Trials
    minutes: float
    weights: dict[str, float]
    notes: tuple[str, ...] = ()
    unproven: np.ndarray | None = None
    near: np.ndarray | None = None
    fitted: str = ""

    @classmethod
    def of(cls, combined: Combination, minutes: float, notes: tuple[str, ...] = ()) -> Made:
        """The combination itself."""
        return cls(
            "combination",
            combined.center,
            combined.past,
            combined.trials,
            minutes,
            combined.weights,
            notes,
            near=combined.near,
            fitted=combined.fitted,
        )

    @property
    def added(self) -> np.ndarray:
        """`near`, zeros where it is nothing."""
        return np.zeros_like(self.center) if self.near is None else self.near

    @property
    def residuals(self) -> Residuals:
        """Errors of the back-tested days; without any, `unproven`: how the newest known day swings about its own level
        (float64[1, F, P]), so that a history too short to test still gets a band."""
        found = self.trials.actual - self.past
        if self.unproven is not None and not np.isfinite(found).any():
            found = self.unproven
        return Residuals(found, self.minutes)
