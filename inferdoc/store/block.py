"""What the store hands to a reader: the samples of one target in a time range, as a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STALE_BITS = np.uint64(0x7FF0000000000002)
"""Bit pattern of Prometheus' staleness marker (model/value/value.go): "no sample here", unlike an ordinary NaN."""
STALE = float(STALE_BITS.view(np.float64))


@dataclass(frozen=True)
class Block:
    """target: labels shared by every series (job, instance, pod, ...); times_ms: int64[scrapes], ascending;
    names and labels: one per column, without the target's labels; values: float64[scrapes, columns], the values of
    a column together in memory, STALE where the series was not on the page of that scrape."""

    target: dict[str, str]
    times_ms: np.ndarray
    names: list[str]
    labels: list[dict[str, str]]
    values: np.ndarray


def absent(values: np.ndarray) -> np.ndarray:
    """bool, True where there is no sample (compared by bits: an ordinary NaN is a sample)."""
    missing: np.ndarray = np.asarray(values, np.float64).view(np.uint64) == STALE_BITS
    return missing
