"""How both sources report when targets were scraped, without reading every scrape of a month.

A time range of up to six hours is reported scrape by scrape. Of a longer one only the last hour is: it gives the scrape
interval. Before it one entry stands for each step (a minute or more) that holds a scrape, with the smallest `up` of the
step: enough to see gaps and outages. The rule is the same for both sources, so that intervals and gaps are too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.source.base import Scrapes
from inferdoc.source.processes import TOGETHER_STEPS

WHOLE_MS = 6 * 3_600_000
TAIL_MS = 3_600_000
SMALLEST_STEP_MS = 60_000
MOST_STEPS = 2000


@dataclass(frozen=True)
class Thinned:
    """The older part of a long time range: `count` steps of step_ms, the first of which ends at first_ms. A step looks
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
    """The thinned older part, if any, and where the part that is reported scrape by scrape begins."""
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


def one_target(labels: dict[str, str], group: Sequence[Scrapes], replica: Collection[str]) -> Scrapes:
    """The scrapes of the target that has most; others fill only its gaps, and follow it under another address. One that
    fails beside one that succeeds is of an address that the pod has no more. What else is scraped beside it is of one
    scraped twice. replica: labels by which another server's scrapes of the same target are reported."""
    first, *others = sorted(group, key=lambda one: -len(one.times_ms))
    times, up = first.times_ms, first.up
    reach = 1.5 * float(np.median(np.diff(times))) if len(times) > 2 else 0.0
    again: dict[frozenset[tuple[str, str]], np.ndarray] = {}
    for other in others:
        left = (up == 0) & _near(times, other.times_ms[other.up > 0], reach)
        times, up = times[~left], up[~left]
        beside = _near(other.times_ms, times, reach)
        together = beside & (other.up > 0)
        if together.sum() >= TOGETHER_STEPS:
            again[_without(other.labels, replica)] = other.times_ms[together]
        times, up = np.concatenate([times, other.times_ms[~beside]]), np.concatenate([up, other.up[~beside]])
        order = np.argsort(times, kind="stable")
        times, up = times[order], up[order]
    again.pop(_without(first.labels, replica), None)
    return Scrapes(labels, times, up, tuple(again.values()))


def _near(times: np.ndarray, others: np.ndarray, reach: float) -> np.ndarray:
    """bool[n]: whether one of the others, in order, is within reach."""
    if not len(others):
        return np.zeros(len(times), bool)
    after = np.searchsorted(others, times)
    since = np.where(after > 0, times - others[np.maximum(after - 1, 0)], np.inf)
    until = np.where(after < len(others), others[np.minimum(after, len(others) - 1)] - times, np.inf)
    return np.fmin(since, until) <= reach


def _without(labels: Mapping[str, str], left_out: Collection[str]) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in labels.items() if name not in left_out)
