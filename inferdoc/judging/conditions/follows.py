"""follows: moves with another signal, by rank correlation at a lag of at most one window."""

from __future__ import annotations

import numpy as np

from inferdoc.catalogue.conditions import Follow
from inferdoc.judging.conditions.render import Rendering
from inferdoc.judging.context import Context, Outcome, absent
from inferdoc.judging.view import Unit

CORRELATION = 0.6
MIN_WINDOWS = 8


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's correlation of two finite arrays of one length; 0 where one of them does not move."""
    ranks = [_ranks(x) for x in (a, b)]
    spread = ranks[0].std() * ranks[1].std()
    return float(((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean() / spread) if spread else 0.0


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; equal values share the mean of theirs, so that a flat span does not look like a rise."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[place])


def evaluate(condition: Follow, context: Context, unit: Unit) -> Outcome:
    """Whether the signal ranks with the other one, at the best lag of up to a window."""
    signal, leader = condition.signal, condition.leader
    own, other = context.view.get(unit, signal), context.view.get(unit, leader)
    if own is None:
        return absent(signal, unit)
    if other is None:
        return absent(leader, unit)
    best: float | None = None
    for lag in range(context.clock.window_steps + 1):
        a, b = own.values[lag:], other.values[: len(other.values) - lag]
        both = np.isfinite(a) & np.isfinite(b)
        if both.sum() >= MIN_WINDOWS * context.clock.window_steps:
            found = rank_correlation(a[both], b[both])
            best = found if best is None else max(best, found)
    titles = context.signals[signal].title, context.signals[leader].title
    if best is None:
        return Outcome(None, f"{titles[0]}: too short to compare with {titles[1].lower()}", signal, unit.name)
    holds = best >= CORRELATION
    moves = "moves" if holds else "does not move"
    text = f"{titles[0]} {moves} with {titles[1].lower()} (rank correlation {best:.2f})"
    return Outcome(holds, text, signal, unit.name, "", observed=best, threshold=CORRELATION)


def explain(condition: Follow) -> str:
    """The condition in words."""
    return f"`{condition.signal}` moves with `{condition.leader}`"


def promql(condition: Follow, rendering: Rendering) -> str | None:
    """PromQL has no ranks."""
    return None
