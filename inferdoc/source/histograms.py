"""Quantiles of many histograms from the buckets of one read.

Bounds are numbers: `le="1"` and `le="1.0"` are one bucket, spelt by two releases. A release may also cut its buckets
otherwise. For one rate window after bounds appear beside others the rates of some buckets cover less time than those of
the rest, and no quantile can be told; before and after it each time has the bounds that are there then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inferdoc.source.quantile import ascending, bucket_quantile, ranked_quantile
from inferdoc.source.reads import Grid, Read, ReadResult

Key = tuple[str, ...]
AT_ONCE = 32
"""Histograms whose quantiles are computed in one go: what they need stays in the cache of a core."""


class QuantileAsked(NamedTuple):
    """A quantile of the histograms whose bucket rates a read holds; `le` is the last of its labels."""

    read: Read
    q: float


@dataclass(frozen=True)
class Quantiles:
    """keys: labels of each histogram, without `le`; values: float64[keys, T]; bounds: the finite bounds of the one with
    the fewest, ascending: what they all resolve."""

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
    answer = np.empty((len(kept), values.shape[1]))
    for bounds, members in alike.items():
        for begin in range(0, len(members), AT_ONCE):
            some = members[begin : begin + AT_ONCE]
            cumulative = values[[[rows[key][bound] for key in some] for bound in bounds]]
            (answer[[place[key] for key in some]],) = told([q], np.array(bounds), cumulative, settle)
    return Quantiles(kept, answer, np.array(min(alike, key=len)[:-1]))


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


def told(shares: Sequence[float], bounds: np.ndarray, cumulative: np.ndarray, settle: int) -> list[np.ndarray]:
    """float64[n, T] of each share, of cumulative float64[B, n, T] (which may be changed): at each time by the bounds
    that are there."""
    there = np.isfinite(cumulative)
    own: dict[int, np.ndarray] = {}
    if not there.all():
        changing = (there.any(axis=0) & ~there.all(axis=0)).any(axis=1)
        own = {row: cumulative[:, row].copy() for row in np.flatnonzero(changing).tolist()}
    counts = ascending(cumulative, there)
    answers = [ranked_quantile(q, bounds, counts) for q in shares]
    for row, cells in own.items():
        for q, answer in zip(shares, answers, strict=True):
            answer[row] = _of_changing(q, bounds, cells, there[:, row], settle)
    return answers


def _of_changing(q: float, bounds: np.ndarray, cumulative: np.ndarray, there: np.ndarray, settle: int) -> np.ndarray:
    """float64[T] of one histogram whose bounds change. cumulative, there: [B, T]."""
    steps = np.flatnonzero(there.any(axis=0))
    sets, which = np.unique(there[:, steps], axis=1, return_inverse=True)
    which = which.ravel()
    answer = np.full(there.shape[1], np.nan)
    for number in range(sets.shape[1]):
        held, at = sets[:, number], steps[which == number]
        if held.sum() >= 2 and held[-1]:
            answer[at] = bucket_quantile(q, bounds[held], cumulative[held][:, at])
    starts = np.flatnonzero(np.diff(which, prepend=-1))
    for begin, end in zip(starts, [*starts[1:], len(which)], strict=True):
        own = sets[:, which[begin]]
        appeared = begin > 0 and (own & ~sets[:, which[begin - 1]]).any()
        vanish = begin == 0 and end < len(which) and (own & ~sets[:, which[end]]).any()
        if appeared or (vanish and end - begin <= settle):
            answer[steps[begin : min(end, begin + settle)]] = np.nan
    return answer
