"""The first span of a series that stays outside: long enough, and outside often enough. Many rows at once.

Most rows answer at the first look, from the first outside step to the last: that look is arithmetic on running counts.
The others are looked at one by one, shortened at their longest gap until a time range is dense enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferdoc.judging.clock import Clock, Rule

NONE = -1
SHORT = 2**15 - 1
"""Steps that a number of sixteen bits can count."""


@dataclass(frozen=True)
class Counts:
    """How many steps of a mask lie in a time range. mask: bool[R, T]."""

    mask: np.ndarray

    def between(self, first: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """int32[R]: of each row in [first, stop), cut at its ends. Running counts would answer for any interval, but
        take as long as ten such sums."""
        steps = self.mask.shape[1]
        kind = np.int16 if steps < SHORT else np.int32  # half as wide is twice as fast
        columns = np.arange(steps, dtype=kind)
        inside = columns >= np.minimum(first, steps).astype(kind)[:, np.newaxis]
        inside &= columns < np.minimum(stop, steps).astype(kind)[:, np.newaxis]
        inside &= self.mask
        return np.asarray(inside.view(np.int8).sum(axis=1, dtype=np.int32))

    @property
    def running(self) -> np.ndarray:
        """int32[R, T]: how many lie before a step or at it."""
        return np.cumsum(self.mask, axis=1, dtype=np.int32)


def runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """Begin and stop of each run of True, in order. mask: bool[T]."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def sustained(out: np.ndarray, finite: np.ndarray, rule: Rule, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
    """First and last outside step, int64[R] each, of the first span of each row that stays outside; NONE where there
    is none. out, finite: bool[R, T]; a step before which a row is not looked at is in neither."""
    rows, steps = out.shape
    starts, lasts = np.full(rows, NONE), np.full(rows, NONE)
    some = np.flatnonzero(out.any(axis=1))
    if len(some) < rows:
        if len(some):
            starts[some], lasts[some] = sustained(out[some], finite[some], rule, clock)
        return starts, lasts
    outside, seen = Counts(out), Counts(finite)
    first = out.argmax(axis=1)
    last = steps - 1 - out[:, ::-1].argmax(axis=1)
    need = needed_steps(first, steps, rule, clock)
    inside_seen, inside_out = seen.between(first, last + 1), outside.between(first, last + 1)
    long_enough = last - first + 1 >= need
    often = (inside_out >= rule.share * inside_seen) & (inside_out >= np.minimum(need, inside_seen))
    dense = outside.between(first, first + need) >= rule.share * seen.between(first, first + need)
    at_once = long_enough & often & dense
    starts[at_once], lasts[at_once] = first[at_once], last[at_once]
    # A row that is outside for fewer steps in all than any interval must have, without a gap, needs no second look.
    hopeless = (inside_out < clock.out_steps) & (inside_seen == last - first + 1)
    for row in np.flatnonzero(long_enough & ~at_once & ~hopeless):
        starts[row], lasts[row] = _first_dense(out[row], finite[row], rule, clock)
    return starts, lasts


def needed_steps(start: np.ndarray, steps: int, rule: Rule, clock: Clock) -> np.ndarray:
    """int64[R]: how long a time range that begins at a step must be; what is requested in one piece may be cut to half
    of what is left of the window."""
    need = np.full(len(start), clock.out_steps)
    if rule.hold_seconds is not None:
        required = int(np.ceil(rule.hold_seconds / clock.step_seconds))
        need = np.maximum(need, np.minimum(required, (steps - start) // 2))
    return need


def _first_dense(out: np.ndarray, finite: np.ndarray, rule: Rule, clock: Clock) -> tuple[int, int]:
    """The same of one row, at leisure."""
    indices = np.flatnonzero(out)
    needs = needed_steps(indices, len(out), rule, clock)
    outside, seen = np.cumsum(out), np.cumsum(finite)
    before_out, before_seen = outside[indices] - 1, seen[indices] - finite[indices]
    until = np.minimum(indices + needs, len(out)) - 1
    dense = outside[until] - before_out >= rule.share * (seen[until] - before_seen)
    if not dense.any():
        return NONE, NONE
    gaps, near = np.diff(indices), np.searchsorted(indices, indices + needs - 1).tolist()
    begins_dense, each_gap = dense.tolist(), gaps.tolist()
    place = 0
    while place < len(indices) and near[place] < len(indices):  # else what is left is shorter than a time range must be
        if begins_dense[place]:
            ends = _ends(gaps[place:]) + place
            lasts = indices[ends]
            inside_out, inside_seen = outside[lasts] - before_out[place], seen[lasts] - before_seen[place]
            often = (inside_out >= rule.share * inside_seen) & (inside_out >= np.minimum(needs[place], inside_seen))
            kept = lasts[often & (ends >= near[place])]
            if len(kept):
                return int(indices[place]), int(kept[-1])
        # What is too near for a time range is passed over up to the longest gap in it, else a step at a time.
        ahead = each_gap[place : near[place]]
        longest = max(ahead)
        place += ahead.index(longest) + 1 if longest > 1 else 1
    return NONE, NONE


def _ends(gaps: np.ndarray) -> np.ndarray:
    """Where a time range of outside steps may end, in order: at its last one, and wherever it is shortened to when it
    is cut at its longest gap (the first of equal ones) again and again. gaps: int64[n - 1] between n outside steps."""
    longest = np.maximum.accumulate(gaps)
    cut = np.flatnonzero((gaps > 1) & (gaps > np.concatenate([[0], longest[:-1]])))
    return np.append(cut, len(gaps))


def beginnings(
    out: np.ndarray, finite: np.ndarray, starts: np.ndarray, lasts: np.ndarray, need: int, share: float
) -> np.ndarray:
    """int64[R]: the first step of each episode [start, last] without what only happened before it: a beginning that is
    outside less often than the share that is requested, or less than half as often as the later half, is none of it."""
    rows, steps = np.arange(len(out)), out.shape[1]
    outside, seen = Counts(out), Counts(finite)
    middle = (starts + lasts + 1) // 2
    later_half = outside.between(middle, lasts + 1) / np.maximum(1, seen.between(middle, lasts + 1))
    shares = np.maximum(share, later_half / 2)
    zero = np.zeros_like(starts)
    ahead = (outside.between(zero, starts) - shares * seen.between(zero, starts))[:, np.newaxis]
    balance = np.round(outside.running - shares[:, np.newaxis] * seen.running - ahead, 9)
    columns = np.arange(steps)
    inside = (columns >= starts[:, np.newaxis]) & (columns <= lasts[:, np.newaxis])
    low = np.where(inside, balance, np.inf).argmin(axis=1)
    later = inside & out & (columns > low[:, np.newaxis])
    moved = (balance[rows, low] < 0) & (later.sum(axis=1) >= need)
    return np.where(moved, later.argmax(axis=1), starts)


def holding(mask: np.ndarray, finite: np.ndarray, rule: Rule, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
    """First and last step, int64[R] each, of an absolute condition that holds long or often enough; NONE where it does
    not. mask, finite: bool[R, T]."""
    starts, lasts = sustained(mask, finite, rule, clock)
    rows = np.flatnonzero(starts != NONE)
    if len(rows):
        starts[rows] = beginnings(mask[rows], finite[rows], starts[rows], lasts[rows], clock.out_steps, rule.share)
    return starts, lasts
