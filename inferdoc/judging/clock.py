"""How long is long enough: the steps of a grid in scrapes and rate windows, and what a deviation must be like."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

MIN_BASELINE_SECONDS, MIN_BASELINE_SCRAPES = 45.0, 15
ENOUGH_BASELINE_SECONDS, FEWEST_BASELINE_SCRAPES = 480.0, 8
"""A median and its spread need eight values at the least. Eight minutes of them do where the next come a minute later:
with 15 of them the first quarter of an hour after a restart of the source would show nothing at all."""
MIN_OUT_SECONDS, MIN_OUT_SCRAPES = 20.0, 5
DEFAULT_SHARE = 0.5


@dataclass(frozen=True)
class Rule:
    """ratio: > 1 rises, < 1 falls; by: at least this far from the baseline median; share: of the windows between the
    first and the last outside one that must be outside; hold_seconds: in one piece instead, where set."""

    ratio: float
    by: float = 0.0
    share: float = DEFAULT_SHARE
    hold_seconds: float | None = None

    @property
    def up(self) -> bool:
        """Whether it looks for a rise."""
        return self.ratio >= 1.0


@dataclass(frozen=True)
class Clock:
    """step_seconds: grid step; scrape_seconds: scrape interval; window_steps: steps per rate window; lead: steps of a
    chosen baseline, which is baseline as a whole; begin: the step at which the window begins, after its history."""

    step_seconds: float
    scrape_seconds: float
    window_steps: int
    lead: int = 0
    begin: int = 0

    def steps(self, seconds: float, scrapes: int) -> int:
        """The number of steps that spans both at least `seconds` and at least `scrapes` scrapes."""
        return max(1, int(np.ceil(max(seconds, scrapes * self.scrape_seconds) / self.step_seconds)))

    @cached_property
    def baseline_steps(self) -> int:
        """Steps that must belong to the baseline before a deviation can be distinguished from the baseline: a chosen
        baseline is, as a whole."""
        return max(self.lead, self.least_baseline)

    @cached_property
    def least_baseline(self) -> int:
        """Steps that any baseline must have."""
        return min(self._full_baseline, self.steps(ENOUGH_BASELINE_SECONDS, FEWEST_BASELINE_SCRAPES))

    @cached_property
    def rarely_scraped(self) -> bool:
        """Whether scrapes are so rare that a baseline has fewer of them than it should."""
        return self.least_baseline < self._full_baseline

    @cached_property
    def _full_baseline(self) -> int:
        return self.steps(MIN_BASELINE_SECONDS, MIN_BASELINE_SCRAPES)

    @cached_property
    def out_steps(self) -> int:
        """Steps that must be outside before it is more than a spike."""
        return self.steps(MIN_OUT_SECONDS, MIN_OUT_SCRAPES)
