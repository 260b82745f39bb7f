"""Quantiles of many histograms from the buckets of one read.

Bounds are numbers: `le="1"` and `le="1.0"` are one bucket, spelt by two releases. A release may also cut its buckets
otherwise, under the same labels where pods keep their names (a StatefulSet). For one rate window after bounds appear or
vanish beside others the rates of some buckets cover less time than those of the rest, and there is no quantile;
before and after it each time has the bounds that are there then, never those of both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inferdoc.source.reads import Grid, Read, ReadResult

TIE = 1e-9
"""Relative slack of the rank comparison, so that the last bit of a sum cannot move a quantile into another bucket."""


def bucket_quantile(q: float, bounds: np.ndarray, cumulative: np.ndarray) -> np.ndarray:
    """histogram_quantile (promql/quantile.go, bucketQuantile) over many points at once.

    bounds: float64[B] ascending, the last +Inf; cumulative: float64[B, ...] rates or counts per bucket, NaN as 0.
    Returns float64[...]: NaN without observations; the upper bound of the last finite bucket where the rank falls
    into the +Inf bucket; linear inside a bucket, the first of which starts at 0 when its bound is positive.
    """
    counts = np.array(cumulative, order="C")
    return ranked_quantile(q, bounds, ascending(counts, np.isfinite(counts)))


def ranked_quantile(q: float, bounds: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The same of counts that are `ascending`."""
    total = counts[-1]
    rank = q * total
    # Counts ascend, so as many buckets lie below the first that reaches the rank as do not reach it.
    short = (counts < rank * (1.0 - TIE)).sum(axis=0, dtype=np.uint8 if len(bounds) < 256 else np.int64)
    index = np.minimum(short.astype(np.int64), len(bounds) - 1)
    last_finite = len(bounds) - 2
    inner = np.minimum(index, max(last_finite, 0))
    upper = bounds[inner]
    lower = np.concatenate([[0.0], bounds[:-1]])[inner]
    points = inner * total.size + np.arange(total.size).reshape(total.shape)
    here = counts.reshape(-1)[points]
    below = np.where(inner > 0, counts.reshape(-1)[np.maximum(points - total.size, 0)], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = lower + (upper - lower) * np.clip((rank - below) / (here - below), 0.0, 1.0)
    inside = np.where((inner == 0) & (bounds[0] <= 0), bounds[0], inside)
    result = np.where(index > last_finite, bounds[last_finite] if last_finite >= 0 else np.nan, inside)
    return np.where(total > 0, result, np.nan)


def ascending(counts: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """The very float64[B, ...], C-contiguous, changed in place: NaN as 0, and no bucket below the one before it. Most
    are so already. finite: bool[B, ...]."""
    if not finite.all():
        odd = ~finite
        counts[odd] = np.nan_to_num(counts[odd], nan=0.0)
    if (counts[1:] < counts[:-1]).any():
        for below, bucket in itertools.pairwise(counts):  # a fifth of the time of np.maximum.accumulate
            np.maximum(below, bucket, out=bucket)
    return counts


Key = tuple[str, ...]
AT_ONCE = 32
"""Histograms whose quantiles are computed in one go: what they need stays in the cache of a core."""


class QuantileRequest(NamedTuple):
    """A quantile of the histograms whose bucket rates a read holds; `le` is the last of its labels."""

    read: Read
    q: float


@dataclass(frozen=True)
class Quantiles:
    """keys: labels of each histogram, without `le`; values: float64[keys, T]; bounds: the finite bounds of the one with
    the fewest at any time, ascending: what they all resolve."""

    keys: list[Key]
    values: np.ndarray
    bounds: np.ndarray


def settling(grid: Grid, width: int) -> int:
    """Steps of a rate window and one: so long some buckets cover less time than others after bounds change."""
    return -(-grid.rate_ms * width // grid.step_ms) + 1


def quantiles(result: ReadResult, q: float, settle: int) -> Quantiles | None:
    """The quantile of each histogram; None where none is whole. result: buckets by labels, `le` the last; settle: steps
    of a rate window."""
    rows, values = _by_bound(result)
    alike: dict[tuple[float, ...], list[Key]] = {}
    for key, cells in rows.items():
        bounds = tuple(sorted(cells))
        if len(bounds) >= 2 and np.isinf(bounds[-1]):
            alike.setdefault(bounds, []).append(key)
    if not alike:
        return None
    whole = {key for keys in alike.values() for key in keys}
    kept = [key for key in rows if key in whole]
    place = {key: row for row, key in enumerate(kept)}
    answer, fewest = np.empty((len(kept), values.shape[1])), min(alike, key=len)
    for bounds, members in alike.items():
        for begin in range(0, len(members), AT_ONCE):
            some = members[begin : begin + AT_ONCE]
            cumulative = values[[[rows[key][bound] for key in some] for bound in bounds]]
            (answer[[place[key] for key in some]],), resolved = outcome([q], np.array(bounds), cumulative, settle)
            fewest = min(fewest, resolved, key=len)
    return Quantiles(kept, answer, np.array(fewest[:-1]))


def _by_bound(result: ReadResult) -> tuple[dict[Key, dict[float, int]], np.ndarray]:
    """The row of each bound of each histogram, and the rows: those of one bound that is spelt in two ways added up."""
    spelt: dict[Key, dict[float, list[int]]] = {}
    for row, key in enumerate(result.keys):
        try:
            bound = float(key[-1])
        except ValueError:
            continue
        spelt.setdefault(key[:-1], {}).setdefault(bound, []).append(row)
    values = result.values
    several = [rows for cells in spelt.values() for rows in cells.values() if len(rows) > 1]
    if several:
        values = values.copy()
        for rows in several:
            nothing = np.isnan(values[rows]).all(axis=0)
            values[rows[0]] = np.where(nothing, np.nan, np.nansum(values[rows], axis=0))
    return {key: {bound: rows[0] for bound, rows in cells.items()} for key, cells in spelt.items()}, values


def outcome(
    shares: Sequence[float], bounds: np.ndarray, cumulative: np.ndarray, settle: int
) -> tuple[list[np.ndarray], tuple[float, ...]]:
    """float64[n, T] of each share, of cumulative float64[B, n, T] (which may be changed): at each time by the bounds
    that are there; and the bounds where they are fewest."""
    there = np.isfinite(cumulative)
    own: dict[int, np.ndarray] = {}
    if not there.all():
        changing = (there.any(axis=0) & ~there.all(axis=0)).any(axis=1)
        own = {row: cumulative[:, row].copy() for row in np.flatnonzero(changing).tolist()}
    counts = ascending(cumulative, there)
    answers, fewest = [ranked_quantile(q, bounds, counts) for q in shares], tuple(bounds.tolist())
    for row, cells in own.items():
        for q, answer in zip(shares, answers, strict=True):
            answer[row] = _of_changing(q, bounds, cells, there[:, row], settle)
        sets = np.unique(there[:, row, there[:, row].any(axis=0)], axis=1).T
        fewest = min((fewest, *(tuple(bounds[loaded].tolist()) for loaded in sets if _is_whole(loaded))), key=len)
    return answers, fewest


def _is_whole(loaded: np.ndarray) -> bool:
    """Whether bounds, ascending, end with that of all observations and have another."""
    return bool(loaded.sum() >= 2 and loaded[-1])


def _of_changing(q: float, bounds: np.ndarray, cumulative: np.ndarray, there: np.ndarray, settle: int) -> np.ndarray:
    """float64[T] of one histogram whose bounds change. cumulative, there: [B, T]."""
    steps = np.flatnonzero(there.any(axis=0))
    sets, which = np.unique(there[:, steps], axis=1, return_inverse=True)
    which = which.ravel()
    answer = np.full(there.shape[1], np.nan)
    for number in range(sets.shape[1]):
        loaded, at = sets[:, number], steps[which == number]
        if _is_whole(loaded):
            answer[at] = bucket_quantile(q, bounds[loaded], cumulative[loaded][:, at])
    starts = np.flatnonzero(np.diff(which, prepend=-1))
    for begin, end in zip(starts, [*starts[1:], len(which)], strict=True):
        own = sets[:, which[begin]]
        if begin > 0 and (own & ~sets[:, which[begin - 1]]).any():
            answer[steps[begin : begin + settle]] = np.nan
        if end < len(which) and (own & ~sets[:, which[end]]).any():  # a window reaches back to the last of them
            answer[steps[max(0, end - settle + 1) : end]] = np.nan
    return answer


def common_bounds(histograms: Iterable[Mapping[float, np.ndarray]]) -> list[float]:
    """The bounds, ascending, that each of several histograms has whenever it has any. histograms: bound -> float64[T],
    NaN where it is not there."""
    found: set[float] | None = None
    for cells in histograms:
        there = {bound: np.isfinite(values) for bound, values in cells.items()}
        any_ = np.logical_or.reduce(list(there.values())) if there else np.empty(0, bool)
        own = {bound for bound, at in there.items() if at[any_].all() and any_.any()}
        found = own if found is None else found & own
    return sorted(found or ())
