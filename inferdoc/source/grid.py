"""Choosing the grid: interval, windows and steps follow from how often the targets are scraped."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from inferdoc.source.base import Scrapes
from inferdoc.source.reads import Grid

MIN_RATE_MS, MAX_RATE_MS = 10_000, 300_000
DEFAULT_INTERVAL_MS = 15_000
LOOK_MS = 600_000
"""The scrape interval is taken from the last ten minutes of the window."""


def scrape_interval_ms(scrapes: Iterable[Scrapes]) -> int:
    """Median over the targets of their median scrape spacing, in whole milliseconds; 15 s if unknown."""
    medians = [_median(np.diff(s.times_ms)) for s in scrapes if len(s.times_ms) > 2]
    if not medians:
        return DEFAULT_INTERVAL_MS
    spacing = float(np.median(medians))
    return max(1, round(spacing / 100) * 100 if spacing >= 1000 else round(spacing))


def _median(spacings: np.ndarray) -> float:
    """np.median of int64[n], n > 0, in a fifth of its time: it is computed for every ten minutes of every target."""
    ranked, half = np.sort(spacings), len(spacings) // 2
    return float(ranked[half]) if len(ranked) % 2 else float(ranked[half - 1] + ranked[half]) / 2


def make_grid(from_ms: int, until_ms: int, interval_ms: int, newest_ms: int | None = None) -> Grid:
    """The grid over [from, until]. It ends 1 ms after the newest sample, or 1 ms after a whole step before `until`, so
    that closed ranges (Prometheus 2) and left-open ones (Prometheus 3) hold the same samples."""
    rate_ms = int(min(max(5 * interval_ms, MIN_RATE_MS), MAX_RATE_MS))
    step_ms = int(max(interval_ms, -(-(until_ms - from_ms) // 1000)))
    if step_ms > interval_ms:
        step_ms = -(-step_ms // 1000) * 1000
    end_ms = newest_ms + 1 if newest_ms is not None and newest_ms <= until_ms else until_ms // step_ms * step_ms + 1
    count = int(max(1, (end_ms - from_ms) // step_ms + 1))
    return Grid(end_ms - (count - 1) * step_ms, step_ms, count, interval_ms, rate_ms, int(2.5 * interval_ms))
