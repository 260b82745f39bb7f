"""follows: moves with another signal, by rank correlation at a lag of at most one window."""

from __future__ import annotations

import numpy as np

from inferdoc.catalogue.recipe import Condition
from inferdoc.diagnose.conditions.render import Rendering
from inferdoc.diagnose.context import Context, Outcome, absent
from inferdoc.diagnose.view import Unit

CORRELATION = 0.6
MIN_WINDOWS = 8


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's correlation of two finite arrays of one length."""
    ranks = [np.argsort(np.argsort(x, kind="stable"), kind="stable").astype(float) for x in (a, b)]
    spread = ranks[0].std() * ranks[1].std()
    return float(((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean() / spread) if spread else 0.0


def evaluate(condition: Condition, context: Context, unit: Unit) -> Outcome:
    signal, leader = str(condition.signal), str(condition.follows)
    own, other = context.view.get(unit, signal), context.view.get(unit, leader)
    if own is None:
        return absent(signal, unit)
    if other is None:
        return absent(leader, unit)
    best = -1.0
    for lag in range(context.clock.window_steps + 1):
        a, b = own.values[lag:], other.values[: len(other.values) - lag]
        both = np.isfinite(a) & np.isfinite(b)
        if both.sum() >= MIN_WINDOWS * context.clock.window_steps:
            best = max(best, rank_correlation(a[both], b[both]))
    titles = context.signals[signal].title, context.signals[leader].title
    holds = best >= CORRELATION
    moves = "moves" if holds else "does not move"
    text = f"{titles[0]} {moves} with {titles[1].lower()} (rank correlation {best:.2f})"
    return Outcome(holds, text, signal, unit.name, "", observed=best, threshold=CORRELATION)


def explain(condition: Condition) -> str:
    return f"`{condition.signal}` moves with `{condition.follows}`"


def promql(condition: Condition, rendering: Rendering) -> str | None:
    return None
