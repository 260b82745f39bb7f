"""What the buckets of a histogram prove about a limit: between two bounds nothing is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

SLACK = 1e-9
"""A limit and a bound that differ by less are the same number, written twice."""


@dataclass(frozen=True)
class Counted:
    """Events at every step. low, high: float64[T], at least and at most so many were good; every: float64[T], all;
    below, above: the bounds that tell, where it is a histogram."""

    low: np.ndarray
    high: np.ndarray
    every: np.ndarray
    below: float | None = None
    above: float | None = None

    def last(self, steps: int) -> Counted:
        """The same, of the last steps alone."""
        return Counted(self.low[-steps:], self.high[-steps:], self.every[-steps:], self.below, self.above)

    @property
    def events(self) -> float:
        """All events."""
        return float(self.every.sum())

    @property
    def share(self) -> tuple[float, float] | None:
        """The share of good ones, at least and at most; None without events."""
        if self.events <= 0:
            return None
        return float(self.low.sum()) / self.events, min(1.0, float(self.high.sum()) / self.events)


def within(cells: Mapping[float, np.ndarray], limit: float) -> Counted | None:
    """The events of one histogram at or below a limit. cells: bound -> float64[T], cumulative events of each step; None
    without a bucket for all events."""
    every = cells.get(np.inf)
    if every is None:
        return None
    slack = SLACK * limit
    lower = [bound for bound in cells if bound <= limit + slack]
    upper = [bound for bound in cells if bound >= limit - slack]
    below, above = max(lower, default=None), min(upper)
    low = np.zeros_like(every) if below is None else cells[below]
    return Counted(np.minimum(low, every), np.minimum(cells[above], every), every, below, above)


def added(parts: Iterable[Counted]) -> Counted | None:
    """Several together, with the widest of their bounds; None without any."""
    known = list(parts)
    if not known:
        return None
    low, high, every = (np.sum([getattr(one, name) for one in known], axis=0) for name in ("low", "high", "every"))
    below = [one.below for one in known]
    above = [one.above for one in known if one.above is not None]
    lowest = None if any(bound is None for bound in below) else min(bound for bound in below if bound is not None)
    return Counted(low, high, every, lowest, max(above, default=None))
