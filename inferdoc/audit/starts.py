"""How long processes take to start, and at what age they end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from inferdoc.audit.quantities import Amount, Quantity
from inferdoc.audit.window_data import Watched
from inferdoc.judging.view import Unit

STARTED = "process_start_time"
LEAST_AGES = 3
"""Two ages that agree may do so by chance."""
ANSWERS = "running"
"""What an engine shows from when it has loaded its model."""


def starts_of(watched: Watched, unit: Unit) -> list[tuple[float, float]]:
    """(start, first page) of every process that started in the window, Unix seconds."""
    starts, answers = watched.values(unit, STARTED), watched.values(unit, ANSWERS)
    if starts is None or answers is None:
        return []
    times = watched.view.frame.grid.times_ms / 1000
    seen = np.flatnonzero(np.isfinite(starts) & np.isfinite(answers))
    _, first = np.unique(starts[seen], return_index=True)
    steps = seen[np.sort(first)]
    pages = zip(starts[steps].tolist(), times[steps].tolist(), strict=True)
    return [(start, page) for start, page in pages if start > times[0]]


def cold_start(watched: Watched, unit: Unit) -> Amount:
    """From the start of a process to its first page, seconds, less the half step by which a page is late on average;
    0 without a start."""
    half = watched.view.step_seconds / 2
    seconds = [page - start - half for start, page in starts_of(watched, unit)]
    return float(np.median(seconds)) if seconds else 0.0


def same_ages(watched: Watched, unit: Unit) -> Amount:
    """1 - (longest - shortest) / mean age at which the processes of a unit were replaced; 0 of fewer than three."""
    starts = watched.values(unit, STARTED)
    if starts is None:
        return None
    ages = np.diff(np.unique(starts[np.isfinite(starts)]))
    if len(ages) < LEAST_AGES:
        return 0.0
    return float(1 - (ages.max() - ages.min()) / ages.mean())


QUANTITIES: Mapping[str, Quantity] = {
    "cold_start": Quantity(
        "Time from the start of a process to its first page", "s", (), cold_start, optional=(STARTED,)
    ),
    "ages_alike": Quantity("Evenness of the ages at which processes end", "ratio", (STARTED,), same_ages),
}
