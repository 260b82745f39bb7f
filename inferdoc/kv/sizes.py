"""Hits of a pool with another amount of KV cache, with their range and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.capacity.retention import block_life_seconds, life_gain
from inferdoc.capacity.reuse import hit_curve
from inferdoc.kv.live import CachedPool
from inferdoc.kv.pairs import LifeHits

DRAWS = 100
BAND = (0.05, 0.95)
FROM_GAPS, GROWN, FROM_PAIRS = "gaps between uses", "extrapolated", "measured over hours and pods"
MOST_USED = 0.95
"""Where running requests hold more of a cache, it preempts and keeps no prefix."""
MOSTLY = 0.5
"""Of the prompt tokens, at lives that were seen."""


@dataclass(frozen=True)
class HitsAt:
    """memory: times the KV cache of now; low, hits, high: shares of the prompt tokens; life: s that an unused block
    lives; ground: what it rests on."""

    memory: float
    low: float
    hits: float
    high: float
    life: float
    ground: str


def used_share(pool: CachedPool) -> float:
    """Share of the KV cache that running requests hold, mean of the busy intervals."""
    used = pool.usage[:, pool.busy]
    return min(0.99, float(np.nanmean(used))) if np.isfinite(used).any() else 0.0


def followed(pool: CachedPool) -> bool:
    """Whether gaps between uses are known."""
    return pool.blocks is not None and bool(len(pool.busy)) and float(pool.blocks.gaps[:, pool.busy].sum()) > 0


def by_gaps(pool: CachedPool, sizes: Sequence[float]) -> list[HitsAt]:
    """From the gaps between uses: below the size of now, what they show; above it, what they let expect, from no gain
    to twice that of the last doubling. The pieces of time are drawn again for the range."""
    memory = np.array(sizes)
    counts = pool.counts(pool.busy)
    middle, lives = hit_curve(counts).with_memory(memory)
    generator = np.random.default_rng(0)
    pieces = pool.draws
    low_rows, high_rows = [], []
    for picks in generator.integers(0, len(pieces), (DRAWS, len(pieces))):
        drawn = pool.counts(np.concatenate([pieces[pick] for pick in picks]))
        if drawn.gaps.sum() <= 0 or drawn.hits <= 0:
            continue
        least, _ = hit_curve(drawn, "low").with_memory(memory)
        most, _ = hit_curve(drawn, "high").with_memory(memory)
        twice, _ = hit_curve(drawn, steady=2.0).with_memory(memory)
        low_rows.append(np.where(memory < 1.0, least - drawn.share, 0.0))
        high_rows.append(np.where(memory < 1.0, most, twice) - drawn.share)
    low = np.maximum(0.0, counts.share + np.quantile(low_rows, BAND[0], axis=0))
    high = np.minimum(1.0, counts.share + np.quantile(high_rows, BAND[1], axis=0))
    return [
        HitsAt(
            float(memory[at]),
            float(min(low[at], middle[at])),
            float(middle[at]),
            float(max(high[at], middle[at])),
            float(lives[at]),
            GROWN if memory[at] > 1.0 else FROM_GAPS,
        )
        for at in range(len(memory))
    ]


def by_pairs(pool: CachedPool, pairs: LifeHits, memory: float) -> HitsAt | None:
    """From what pods showed at other lives; None where less than half of it would lie within what they showed."""
    used = used_share(pool)
    if used >= MOST_USED * memory:
        return None
    looked, generated = pool.total(pool.looked), pool.total(pool.generated)
    written = looked - pool.total(pool.hits) + generated
    factor = life_gain(memory, used)
    for _ in range(30):  # tokens that hit are not written again
        hits = pairs.middle_with_lives(factor)
        factor = life_gain(memory, used) * written / (looked * (1.0 - hits) + generated)
    if pairs.seen(factor) < MOSTLY:
        return None
    low, hits, high = pairs.with_lives(factor)
    life = block_life_seconds(pool.capacity, used, written / (pool.seconds * pool.pods)) * factor
    return HitsAt(memory, min(low, hits), hits, max(high, hits), life, FROM_PAIRS)
