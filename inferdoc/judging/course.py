"""How a quantity left its baseline: at once or by degrees, and how often.

A release, a broken card or another client makes a step; a leak, a queue or a growing load makes a drift; what comes and
goes is neither (judging: shape and recurrence).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from inferdoc.judging.words import lasting

BEGUN, ARRIVED = 0.2, 0.8
"""Shares of the way from the baseline to what was observed between which its pace is measured."""
SEVERAL = 3
"""Two stretches may be one with a gap in it."""


@dataclass(frozen=True)
class Departure:
    """shape: step where the way was made within two rate windows (one blurs a step, another is its doubt), else drift;
    seconds: how long it took; times: stretches beyond half of the way, apart by a rate window or more."""

    shape: Literal["step", "drift"]
    seconds: float
    times: int

    @property
    def words(self) -> str:
        """What a reader should know besides the numbers: ", over 12 min", ", 4 times"; of a plain step nothing."""
        if self.times >= SEVERAL:
            return f", {self.times} times"
        return f", over {lasting(self.seconds)}" if self.shape == "drift" else ""


def course_of(
    values: np.ndarray, way: tuple[float, float], first: int, window_steps: int, step_seconds: float
) -> Departure | None:
    """values: float64[T]; way: baseline and observed value; first: the step at which it left the baseline. None where
    it did not move, or never came as far as what was observed of it."""
    baseline, observed = way
    if baseline == observed or not np.isfinite([baseline, observed]).all():
        return None
    with np.errstate(invalid="ignore"):
        share = (values - baseline) / (observed - baseline)
        arrived = np.flatnonzero(share[first:] >= ARRIVED)
        if not len(arrived):
            return None
        arrival = first + int(arrived[0])
        before = np.flatnonzero(share[: arrival + 1] < BEGUN)
        beyond = np.flatnonzero(share[first:] >= (BEGUN + ARRIVED) / 2)
    begin = int(before[-1]) if len(before) else 0
    steps = arrival - begin
    shape: Literal["step", "drift"] = "step" if steps <= 2 * window_steps else "drift"
    times = 1 + int((np.diff(beyond) > window_steps).sum())
    return Departure(shape, steps * step_seconds, times)
