"""Prometheus' range functions on a whole matrix of series at once.

Every function takes the samples of one target (rows: scrapes, columns: series), the windows of all grid steps, and
returns float64[steps, columns] with bool[steps, columns] telling where there is a value. Rules and the order of the
operations are those of promql/functions.go, release 2.42, so that results agree to the last bits. Later releases
differ in one corner (since 2.53 the half interval added beyond the extrapolation threshold is clipped at the zero
point too) and from 3.0 on windows are open on the left; a grid that ends 1 ms after a sample sees neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from inferdoc.store.block import absent

THRESHOLD = 1.1
"""A sample nearer to the edge of the window than this many average spacings reaches to it (extrapolatedRate)."""
SLACK = 1e-9
"""Relative; far more than products and quotients are rounded by."""


@dataclass(frozen=True)
class Windows:
    """The closed windows [end - length, end] of all steps. ends_ms: int64[steps]; rows lo:hi of a table lie inside."""

    ends_ms: np.ndarray
    length_ms: int
    lo: np.ndarray
    hi: np.ndarray

    @classmethod
    def over(cls, times_ms: np.ndarray, ends_ms: np.ndarray, length_ms: int) -> Windows:
        """The windows of length_ms that end at ends_ms, over times_ms (int64[scrapes], ascending)."""
        lo = np.searchsorted(times_ms, ends_ms - length_ms, side="left")
        return cls(ends_ms, length_ms, lo, np.searchsorted(times_ms, ends_ms, side="right"))


@dataclass
class Samples:
    """times_ms: int64[scrapes], ascending, no time twice; values: float64[scrapes, series], STALE where none, those of
    a series together in memory (as in `Block`): so are the answers, and what is worked out along a series is quick."""

    times_ms: np.ndarray
    values: np.ndarray

    @cached_property
    def gaps(self) -> np.ndarray:
        """bool[scrapes, series], True where there is no sample."""
        return absent(self.values)

    @cached_property
    def whole(self) -> np.ndarray:
        """bool[series], True where every scrape has a sample."""
        return np.logical_not(self.gaps.any(axis=0))

    @cached_property
    def at_or_before(self) -> np.ndarray:
        """int64[scrapes, series]: row of the newest sample up to this scrape, -1 for none."""
        rows = np.arange(len(self.times_ms))[:, None]
        return np.maximum.accumulate(np.where(self.gaps, -1, rows), axis=0)

    @cached_property
    def at_or_after(self) -> np.ndarray:
        """int64[scrapes, series]: row of the oldest sample from this scrape on, `scrapes` for none."""
        rows = np.arange(len(self.times_ms))[:, None]
        first = np.where(self.gaps, len(self.times_ms), rows)
        return np.minimum.accumulate(first[::-1], axis=0)[::-1]

    @cached_property
    def seen(self) -> np.ndarray:
        """int64[scrapes + 1, series]: number of samples before this scrape."""
        start = np.zeros((1, self.values.shape[1]), dtype=np.int64)
        return np.concatenate([start, np.cumsum(~self.gaps, axis=0)])

    def take(self, columns: np.ndarray) -> Samples:
        """Some of the series; what is already known about them is carried over."""
        part = Samples(self.times_ms, self.values[:, columns])
        part.whole = self.whole[columns]
        if not part.whole.all():
            part.gaps = self.gaps[:, columns]
        return part


@dataclass(frozen=True)
class Span:
    """What of each series lies in each window. first, last: rows, valid only where count > 0; count: number of samples.
    All int64[steps, series], or int64[steps, 1] where no series has gaps."""

    first: np.ndarray
    last: np.ndarray
    count: np.ndarray


def span_of(samples: Samples, windows: Windows) -> Span:
    """The span of series without gaps (one column for all) or with gaps (one per series)."""
    lo, hi = windows.lo, windows.hi
    end = len(samples.times_ms) - 1
    if samples.whole.all():
        return Span(np.minimum(lo, end)[:, None], np.maximum(hi - 1, 0)[:, None], (hi - lo)[:, None])
    count = samples.seen[hi] - samples.seen[lo]
    first = samples.at_or_after[np.minimum(lo, end)]
    last = samples.at_or_before[np.maximum(hi - 1, 0)]
    return Span(np.where(count > 0, first, 0), np.where(count > 0, last, 0), count)


def pick(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """values[rows] column by column: float64[steps, series]."""
    if rows.shape[1] == 1:  # along each series: a ninth of the time that rows across all of them take
        return np.take(values.T, rows[:, 0], axis=1).T
    return np.take_along_axis(values, rows, axis=0)


def last_over_time(samples: Samples, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """The newest sample of the window."""
    span = span_of(samples, windows)
    values = pick(samples.values, span.last)
    return values, np.broadcast_to(span.count > 0, values.shape)


def _reduce(samples: Samples, windows: Windows, fold: np.ufunc, blank: float) -> np.ndarray:
    """fold over the samples of each window; gaps count as `blank`."""
    padded = add_blank(samples.values.T, blank)
    if not samples.whole.all():
        padded[:, :-1][samples.gaps.T] = blank
    return over_windows(padded, windows, fold).T


def add_blank(values: np.ndarray, blank: float) -> np.ndarray:
    """values, float64[..., scrapes], and a blank after them: the end of a window may be theirs."""
    return np.concatenate([values, np.full((*values.shape[:-1], 1), blank)], axis=-1)


def over_windows(padded: np.ndarray, windows: Windows, fold: np.ufunc) -> np.ndarray:
    """fold over the samples of each window: float64[..., steps]. padded: float64[..., scrapes + 1] (`add_blank`)."""
    edges = np.stack([windows.lo, windows.hi], axis=1).ravel()
    result: np.ndarray = fold.reduceat(padded, edges, axis=-1)[..., ::2]
    return result


def _over_time(samples: Samples, windows: Windows, fold: np.ufunc, blank: float) -> tuple[np.ndarray, np.ndarray]:
    span = span_of(samples, windows)
    values = _reduce(samples, windows, fold, blank)
    return values, np.broadcast_to(span.count > 0, values.shape)


def max_over_time(samples: Samples, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """The largest sample; an ordinary NaN counts only where there is nothing else."""
    return _over_time(samples, windows, np.fmax, np.nan)


def min_over_time(samples: Samples, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """The smallest sample; an ordinary NaN counts only where there is nothing else."""
    return _over_time(samples, windows, np.fmin, np.nan)


def avg_over_time(samples: Samples, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the samples; an ordinary NaN makes it NaN, an infinity infinite."""
    span = span_of(samples, windows)
    total = _reduce(samples, windows, np.add, 0.0)
    return total / np.maximum(span.count, 1), np.broadcast_to(span.count > 0, total.shape)


def _add_resets(increase: np.ndarray, samples: Samples, windows: Windows) -> None:
    """Add what a counter had reached before each reset inside a window, oldest first as Prometheus does."""
    values = samples.values
    if samples.whole.all():
        before = np.arange(-1, len(values) - 1)[:, None]
        previous = values[:-1]
        fell = values[1:] < previous
        if not fell.any():
            return
        fell, previous = (np.concatenate([each[:1], each]) for each in (fell, previous))
        fell[0] = False
    else:
        before = np.concatenate([np.full((1, values.shape[1]), -1), samples.at_or_before[:-1]])
        previous = pick(values, np.maximum(before, 0))
        fell = (values < previous) & (before >= 0) & ~samples.gaps
    for row in np.flatnonzero(fell.any(axis=1)):
        begin = int(np.searchsorted(windows.hi, row, side="right"))
        end = int(np.searchsorted(windows.lo, row, side="left"))
        columns = np.flatnonzero(fell[row])
        rows_before = before[row][columns] if before.shape[1] > 1 else before[row]
        inside = rows_before[None, :] >= windows.lo[begin:end, None]
        increase[begin:end, columns] += np.where(inside, previous[row, columns], 0.0)


def _may_reach_zero(oldest: np.ndarray, increase: np.ndarray, sampled: np.ndarray, to_start: np.ndarray) -> np.ndarray:
    """bool[steps, series]: where a counter, followed back, may be at zero within the window, and few besides: products
    take a fifth of the time of the quotient that decides."""
    beyond = oldest * sampled > increase * (to_start * (1 + SLACK))
    return np.asarray((increase > 0) & (oldest >= 0) & ~beyond)


def _extrapolated(samples: Samples, windows: Windows, per_second: bool) -> tuple[np.ndarray, np.ndarray]:
    """extrapolatedRate for a counter; fewer than two samples in the window: nothing."""
    span = span_of(samples, windows)
    enough = span.count > 1
    oldest = pick(samples.values, span.first)
    increase = pick(samples.values, span.last) - oldest
    _add_resets(increase, samples, windows)

    reach = (samples.times_ms[span.first].T, samples.times_ms[span.last].T, span.count.T)
    values = extrapolated(oldest.T, increase.T, reach, windows, per_second)
    return values.T, np.broadcast_to(enough, increase.shape)


def extrapolated(
    oldest: np.ndarray,
    increase: np.ndarray,
    reach: tuple[np.ndarray, np.ndarray, np.ndarray],
    windows: Windows,
    per_second: bool,
) -> np.ndarray:
    """The increase of counters stretched to their windows. oldest: the first sample of each window; increase: up to
    the last one, resets made good; reach: times of the first and of the last one in ms, and how many there are. All
    [..., series, steps], or with one series for all of a target where none has gaps."""
    first_ms, last_ms, count = reach
    ends = windows.ends_ms
    to_start = (first_ms - (ends - windows.length_ms)) / 1000.0
    to_end = (ends - last_ms) / 1000.0
    sampled = np.where(count > 1, (last_ms - first_ms) / 1000.0, 1.0)
    spacing = sampled / np.maximum(count - 1, 1)
    near = spacing * THRESHOLD

    def scaled(increase: np.ndarray, *lengths: np.ndarray) -> np.ndarray:
        to_start, to_end, sampled, spacing, near = lengths
        stretched = sampled + np.where(to_start < near, to_start, spacing / 2)
        stretched = stretched + np.where(to_end < near, to_end, spacing / 2)
        factor = stretched / sampled
        return np.asarray(increase * (factor / (windows.length_ms / 1000.0) if per_second else factor))

    # Series without gaps share what they are stretched by, but for the few windows in which a new one would reach zero.
    values = scaled(increase, to_start, to_end, sampled, spacing, near)
    young = np.nonzero(_may_reach_zero(oldest, increase, sampled, to_start))
    if len(young[0]):
        lengths = [np.broadcast_to(each, values.shape)[young] for each in (to_start, to_end, sampled, spacing, near)]
        rose = increase[young]
        to_zero = lengths[2] * (oldest[young] / rose)
        clipped = to_zero < lengths[0]
        own = (each[clipped] for each in (to_zero, *lengths[1:]))
        values[tuple(each[clipped] for each in young)] = scaled(rose[clipped], *own)
    return values


def rate(samples: Samples, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Increase of a counter per second, extrapolated to the whole window."""
    return _extrapolated(samples, windows, per_second=True)


def increase(samples: Samples, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Increase of a counter, extrapolated to the whole window."""
    return _extrapolated(samples, windows, per_second=False)


FUNCTIONS: dict[str, Callable[[Samples, Windows], tuple[np.ndarray, np.ndarray]]] = {
    "rate": rate,
    "increase": increase,
    "last": last_over_time,
    "max": max_over_time,
    "min": min_over_time,
    "mean": avg_over_time,
}


def apply(fn: str, samples: Samples, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """One function on all series: those without gaps share their windows' rows, those with gaps have their own."""
    shape = (len(windows.ends_ms), samples.values.shape[1])
    if 0 in shape or not len(samples.times_ms):
        return np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    function = FUNCTIONS[fn]
    whole = samples.whole
    with np.errstate(all="ignore"):
        if whole.all() or not whole.any():
            return function(samples, windows)
        values, found = np.empty(shape), np.empty(shape, dtype=bool)
        for columns in (np.flatnonzero(whole), np.flatnonzero(~whole)):
            values[:, columns], found[:, columns] = function(samples.take(columns), windows)
    return values, found
