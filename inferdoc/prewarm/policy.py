"""How much head start to buy: named policies and the arithmetic from load to replicas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.result import label
from inferdoc.forecast.units import Load, Rate
from inferdoc.prewarm.defaults import WINDOWS

MARGIN_SECONDS = 120
CROWD = 10
CROWD_LEAD = 1.5
CAP_QUANTILE, CAP_FACTOR, CAP_DAYS = 0.999, 1.05, 7.0
AVOIDED, PRICE = 0.80, 1.15
"""Criteria of a setting: the minimum share of a reactive scaler's overload that it avoids, and its maximum
replica-hours relative to perfect foresight."""
TRIED_QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95)
TRIED_SAFETIES = (0.8, 0.9, 1.0, 1.1, 1.2)


@dataclass(frozen=True)
class Policy:
    """quantile: of the forecast that the floor covers; utilisation: share of a replica's capacity that load may take
    before the floor adds another; capped: whether the quantile is limited to 1.05 x the 99.9 % load of the last 7 days
    (measured in docs/prewarm.md); margin_minutes: how far the load may come early or stay late, beside how high."""

    name: str
    quantile: float
    utilisation: float
    capped: bool
    margin_minutes: int = 0


POLICIES = {
    "economy": Policy("economy", 0.5, 0.70, False),
    "balanced": Policy("balanced", 0.9, 0.85, True),
    "safe": Policy("safe", 0.9, 0.75, True, 15),
}


@dataclass(frozen=True)
class Setting:
    """quantile: of the forecast; safety: factor on it."""

    quantile: float
    safety: float

    def __str__(self) -> str:
        return f"{label(self.quantile)} x {self.safety:g}"

    def is_at_least(self, other: Setting) -> bool:
        """Whether its floor is at no moment lower than the other's."""
        return self.quantile >= other.quantile and self.safety >= other.safety


def settings_of(quantile: float | None, safety: float | None) -> tuple[Setting, ...]:
    """The grid of settings; a value that the user gave is not varied."""
    quantiles = TRIED_QUANTILES if quantile is None else (quantile,)
    safeties = TRIED_SAFETIES if safety is None else (safety,)
    return tuple(Setting(q, s) for q in quantiles for s in safeties)


@dataclass(frozen=True)
class Limits:
    """minimum, maximum: replicas; ramp: replicas that may start within five minutes (None = any number); dwell: minimum
    seconds of a level; budget: replica-hours in a week (None = any); windows: maximum that may start on one day."""

    minimum: int = 1
    maximum: int = 100
    ramp: int | None = None
    dwell: int = 1800
    budget: float | None = None
    scale_to_zero: bool = False
    windows: int = WINDOWS

    def __post_init__(self) -> None:
        if self.minimum < 0 or self.maximum < 1 or self.minimum > self.maximum:
            raise InferdocError(f"--min {self.minimum} --max {self.maximum}: need 0 <= min <= max and max >= 1")
        if self.minimum == 0 and not self.scale_to_zero:
            raise InferdocError("--min 0 makes the first user wait for a cold start; add --scale-to-zero to allow it")
        if self.ramp is not None and self.ramp < 1:
            raise InferdocError("--ramp must be at least 1")
        if self.windows < 1:
            raise InferdocError("--max-windows must be at least 1")
        if self.dwell < 300:
            raise InferdocError("--dwell below 5 minutes makes replicas come and go; give at least 5m")


def replicas_for(load: Load, capacity: Rate, utilisation: float, safety: float = 1.0) -> np.ndarray:
    """int64[n]: replicas that carry a load when each may use `utilisation` of its capacity, of the same kind."""
    return np.ceil(np.round(load.over(capacity) * safety / utilisation, 9)).astype(np.int64)


def lead_seconds(cold_start: int, largest_step: int) -> int:
    """Seconds before the demand at which replicas are started: the cold start (half as much again when more than ten
    start together, since image pulls and weight loads compete) plus two minutes for polling and the scaler's sync."""
    return round(cold_start * (CROWD_LEAD if largest_step > CROWD else 1.0)) + MARGIN_SECONDS
