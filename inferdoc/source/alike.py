"""Range functions on many targets at once, with the numbers of `inferdoc.source.window` to the last bit.

Targets of a fleet have the same series and, but for the moment at which each is scraped, the same rows in every window:
what has no gaps and no counter that was reset is worked out for dozens of them in one piece of arithmetic, since for a
single target the calls take longer than the arithmetic does. Any other target is worked out by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from inferdoc.source import window
from inferdoc.source.window import Samples, Windows, add_blank, extrapolated, over_windows

MOST_VALUES = 1 << 17
"""Values of one step of arithmetic (1 MB): they stay in the cache of a core, which saves a third of the time."""
_FOLDS: dict[str, tuple[np.ufunc, float]] = {
    "max": (np.fmax, np.nan),
    "min": (np.fmin, np.nan),
    "mean": (np.add, 0.0),
}


class SeriesRequest(NamedTuple):
    """Some series of one target, and the windows to look at."""

    samples: Samples
    columns: np.ndarray
    windows: Windows

    @property
    def kind(self) -> object:
        """What targets have in common that are worked out together, None for one that is worked out by itself."""
        lo, hi = self.windows.lo, self.windows.hi
        shape = len(self.samples.times_ms), len(self.columns), len(lo)
        if 0 in shape or not self.samples.whole[self.columns].all():
            return None
        return shape, lo.tobytes(), hi.tobytes()


class SeriesResult(NamedTuple):
    """values: float64[series, steps]; found: bool[series, steps], whether there is a value."""

    values: np.ndarray
    found: np.ndarray


def apply_all(fn: str, requested: Sequence[SeriesRequest]) -> list[SeriesResult]:
    """One function on series of many targets: of each what `window.apply` returns."""
    outcome: dict[int, SeriesResult] = {}
    groups: dict[object, list[int]] = {}
    for number, one in enumerate(requested):
        kind = one.kind
        if kind is not None:
            groups.setdefault(kind, []).append(number)
    for members in groups.values():
        first = requested[members[0]]
        size = len(first.columns) * max(len(first.samples.times_ms), len(first.windows.lo))
        at_once = max(1, MOST_VALUES // size)
        for begin in range(0, len(members), at_once):
            some = members[begin : begin + at_once]
            if len(some) > 1:
                outcome |= _together(fn, {number: requested[number] for number in some})
    return [outcome[number] if number in outcome else _alone(fn, one) for number, one in enumerate(requested)]


def _alone(fn: str, requested: SeriesRequest) -> SeriesResult:
    values, found = window.apply(fn, requested.samples.take(requested.columns), requested.windows)
    return SeriesResult(values.T, found.T)


def _together(fn: str, requested: dict[int, SeriesRequest]) -> dict[int, SeriesResult]:
    """By number, of those among whose counters none was reset."""
    windows = next(iter(requested.values())).windows
    values = np.stack([one.samples.values.T[one.columns] for one in requested.values()])
    numbers = list(requested)
    if fn in ("rate", "increase"):
        steady = np.logical_not((values[..., 1:] < values[..., :-1]).any(axis=(1, 2)))
        if not steady.all():
            numbers = [number for number, kept in zip(numbers, steady.tolist(), strict=True) if kept]
            values = values[steady]
    if not numbers:
        return {}
    count = windows.hi - windows.lo
    last = np.maximum(windows.hi - 1, 0)
    with np.errstate(all="ignore"):
        if fn == "last":
            answer, there = values[..., last], count > 0
        elif fn in _FOLDS:
            fold, blank = _FOLDS[fn]
            answer, there = over_windows(add_blank(values, blank), windows, fold), count > 0
            if fn == "mean":
                answer = answer / np.maximum(count, 1)
        else:
            times_ms = np.stack([requested[number].samples.times_ms for number in numbers])[:, np.newaxis]
            first = np.minimum(windows.lo, values.shape[2] - 1)
            oldest = values[..., first]
            reach = times_ms[..., first], times_ms[..., last], count
            answer = extrapolated(oldest, values[..., last] - oldest, reach, windows, per_second=fn == "rate")
            there = count > 1
    found = np.broadcast_to(there, answer.shape[1:])
    return {number: SeriesResult(own, found) for number, own in zip(numbers, answer, strict=True)}
