"""How both sources tell when targets were scraped, without reading every scrape of a month.

A stretch of up to six hours is told scrape by scrape. Of a longer one only the last hour is: it tells the scrape
interval. Before it one entry stands for each step (a minute or more) that holds a scrape, with the smallest `up` of the
step: enough to see gaps and outages. The rule is the same for both sources, so that intervals and gaps are too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from inferdoc.source.base import Scrapes

WHOLE_MS = 6 * 3_600_000
TAIL_MS = 3_600_000
SMALLEST_STEP_MS = 60_000
MOST_STEPS = 2000


@dataclass(frozen=True)
class Thinned:
    """The older part of a long stretch: `count` steps of step_ms, the first of which ends at first_ms. A step looks
    back over length_ms, which leaves out its first millisecond: closed windows then share no scrape."""

    first_ms: int
    step_ms: int
    count: int

    @property
    def length_ms(self) -> int:
        """How far a step looks back, milliseconds."""
        return self.step_ms - 1

    @property
    def ends_ms(self) -> np.ndarray:
        """int64[count]"""
        return self.first_ms + self.step_ms * np.arange(self.count, dtype=np.int64)


def divide(start_ms: int, end_ms: int) -> tuple[Thinned | None, int]:
    """The thinned older part, if any, and where the part that is told scrape by scrape begins."""
    if end_ms - start_ms <= WHOLE_MS:
        return None, start_ms
    whole_from = end_ms - TAIL_MS
    older = whole_from - start_ms
    step = max(SMALLEST_STEP_MS, -(-older // (MOST_STEPS * 1000)) * 1000)
    count = older // step
    return Thinned(whole_from - 1 - (count - 1) * step, step, count), whole_from


def gather(parts: Iterable[Scrapes]) -> list[Scrapes]:
    """One entry per target: its parts in the order of time, no time twice; targets sorted by their labels."""
    groups: dict[tuple[tuple[str, str], ...], list[Scrapes]] = {}
    for part in parts:
        if len(part.times_ms):
            groups.setdefault(tuple(sorted(part.labels.items())), []).append(part)
    found = []
    for labels, group in sorted(groups.items()):
        times = np.concatenate([part.times_ms for part in group])
        times, first = np.unique(times, return_index=True)
        found.append(Scrapes(dict(labels), times, np.concatenate([part.up for part in group])[first]))
    return found
