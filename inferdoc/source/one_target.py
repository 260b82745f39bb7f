"""The scrapes of one process that was scraped under several label sets: by two servers, in two jobs, under another
address."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from inferdoc.source.base import Scrapes
from inferdoc.source.processes import TOGETHER_STEPS


def one_target(labels: dict[str, str], group: Sequence[Scrapes], replica: Collection[str]) -> Scrapes:
    """The scrapes of the target that has most; others fill only its gaps, and follow it under another address. One that
    fails beside one that succeeds is of an address that the pod has no more. What else is scraped beside it is of one
    scraped twice. replica: labels by which another server's scrapes of the same target are told."""
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
