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
    below, above: the nearest bucket bounds of a histogram."""

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
    """The events of one histogram at or below a limit, at each step by the bounds that are there then. cells: bound ->
    float64[T], cumulative events of each step, NaN where there is no such bound; None without a bucket for all events.
    """
    every = cells.get(np.inf)
    if every is None:
        return None
    slack, count = SLACK * limit, len(every)
    bounds = np.array(sorted(cells))
    rows = np.array([cells[bound] for bound in bounds])
    there, all_of_them = np.isfinite(rows), np.nan_to_num(every)
    steps = np.arange(count)
    lower, upper = bounds <= limit + slack, bounds >= limit - slack
    known, some = there & lower[:, np.newaxis], there & upper[:, np.newaxis]
    below = np.where(known.any(axis=0), len(bounds) - 1 - known[::-1].argmax(axis=0), -1)
    above = np.where(some.any(axis=0), some.argmax(axis=0), len(bounds) - 1)
    least = np.where(below >= 0, np.nan_to_num(rows[below, steps]), 0.0)
    most = np.where(_changes(there), all_of_them, np.nan_to_num(rows[above, steps]))
    seen = there.any(axis=0)
    if not seen.any():
        return Counted(all_of_them, all_of_them, all_of_them)
    lowest, highest = int(below[seen].min()), int(above[seen].max())
    ends = None if lowest < 0 else float(bounds[lowest]), float(bounds[highest])
    return Counted(np.minimum(least, all_of_them), np.minimum(most, all_of_them), all_of_them, *ends)


def _changes(there: np.ndarray) -> np.ndarray:
    """bool[T]: steps beside a change of bounds, where those of one side miss some events. there: bool[B, T]."""
    found = np.zeros(there.shape[1], bool)
    steps = np.flatnonzero(there.any(axis=0))
    at = np.flatnonzero((there[:, steps[1:]] != there[:, steps[:-1]]).any(axis=0))
    found[steps[at]] = found[steps[at + 1]] = True
    return found


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
