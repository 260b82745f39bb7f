"""Hits of a pool with another amount of KV cache, from gaps between uses or as its pods showed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from inferdoc.capacity.reuse import block_life_seconds, hit_curve, life_gain
from inferdoc.json_document import JsonDocument
from inferdoc.kv.live import CachedPool
from inferdoc.sizing.model import SizedPart

KV_SCHEMA_ID = "inferdoc.kv/v1"
SIZES_TITLE = "prompt tokens that would hit"
"""Heading of the hits of other sizes."""


class CurvePoint(msgspec.Struct):
    """Hits (share of the prompt tokens) with so many times the KV cache of now, and their range; life: seconds that an
    unused block lives there."""

    memory: float
    hits: float
    low: float
    high: float
    life: float


class MeasuredHits(msgspec.Struct):
    """One pod over one interval. life: seconds that an unused block lived; hits: share of the prompt tokens."""

    life: float
    hits: float


class KvAnswer(JsonDocument, rename={"undetermined": "cannot_tell"}):
    """What the prefix cache of a pool gives, and what another would. curve: empty where nothing shows it; undetermined:
    one line each, with what to do; notes: what to know before using the numbers."""

    schema: str
    inferdoc_version: str
    pool: str
    model: str
    tier: str
    pods: int
    hours: float
    summary: str
    parts: list[SizedPart]
    curve: list[CurvePoint]
    measured: list[MeasuredHits]
    undetermined: list[str]
    notes: list[str]

    @property
    def other_sizes(self) -> bool:
        """Whether hits of any other size are known."""
        return any(part.title == SIZES_TITLE for part in self.parts)


LEAST = 12
"""Pairs for a curve."""
SPAN = 1.5
"""The longest life over the shortest (its middle nine tenths) from which on they give a curve (own choice)."""
PAIR_DRAWS = 200
BAND = (0.05, 0.95)


@dataclass(frozen=True)
class LifeHits:
    """Pods by interval. life: s; hits: share of the prompt tokens; looked: prompt tokens; draw: the piece of time that
    each belongs to; all float64[n] but draw int64[n]."""

    life: np.ndarray
    hits: np.ndarray
    looked: np.ndarray
    draw: np.ndarray

    @property
    def span(self) -> tuple[float, float]:
        """The middle nine tenths of the lives, s."""
        low, high = (float(each) for each in np.quantile(self.life, BAND))
        return low, high

    @property
    def differ(self) -> bool:
        """Whether there are enough of them, at lives that differ."""
        low, high = self.span
        return len(self.life) >= LEAST and high >= SPAN * low

    def rises(self) -> bool:
        """Whether hits rise with the life beyond chance. Where they do not, a cache of another size may still change
        them: gaps between uses that shrink as traffic grows leave hits as they are, whatever the life."""
        if not self.differ:
            return False
        slopes = [_slope(np.log(self.life[row]), self.hits[row], self.looked[row]) for row in self._drawn()]
        return bool(np.quantile(slopes, BAND[0]) > 0)

    def seen(self, factor: float) -> float:
        """Share of the prompt tokens whose life, so many times as long, lies within the span."""
        low, high = self.span
        there = self.life * factor
        return float(self.looked[(low <= there) & (there <= high)].sum() / self.looked.sum())

    def with_lives(self, factor: float) -> tuple[float, float, float]:
        """Low, middle and high of the hits where every life is so many times as long: isotonic fit, drawn by pieces of
        time. Lives beyond those that were seen gain nothing, half, or all of what the last doubling gained."""
        low = float(np.quantile([self._fit(row, factor, 0.0) for row in self._drawn()], BAND[0]))
        high = float(np.quantile([self._fit(row, factor, 1.0) for row in self._drawn()], BAND[1]))
        return low, self.middle_with_lives(factor), high

    def middle_with_lives(self, factor: float) -> float:
        """The middle alone."""
        return self._fit(np.arange(len(self.life)), factor, 0.5)

    def _fit(self, row: np.ndarray, factor: float, onward: float) -> float:
        """Of the pieces of a row: the mean over all pairs, since hits at the mean life are more than the mean of
        hits."""
        order = row[np.argsort(self.life[row], kind="stable")]
        lives, risen = self.life[order], isotonic(self.hits[order], self.looked[order])
        there = self.life * factor
        last = risen[-1] - np.interp(lives[-1] / 2.0, lives, risen)
        beyond = onward * last * np.log2(np.maximum(there / lives[-1], 1.0))
        return float(np.average(np.minimum(1.0, np.interp(there, lives, risen) + beyond), weights=self.looked))

    def _drawn(self) -> list[np.ndarray]:
        generator = np.random.default_rng(0)
        pieces = [np.flatnonzero(self.draw == piece) for piece in np.unique(self.draw)]
        picks = generator.integers(0, len(pieces), (PAIR_DRAWS, len(pieces)))
        return [np.concatenate([pieces[pick] for pick in pick_of_draw]) for pick_of_draw in picks]


def life_hits(pool: CachedPool) -> LifeHits:
    """The pairs of a pool, by piece of time and pod."""
    lives, hits, looked, draws = [], [], [], []
    for number, where in enumerate(pool.draws):
        seconds = float(len(where) * pool.step)
        for pod in range(pool.pods):
            lookups, hit = pool.looked[pod, where].sum(), pool.hits[pod, where].sum()
            used = pool.usage[pod, where]
            written = (lookups - hit + pool.generated[pod, where].sum()) / seconds
            if lookups <= 0 or written <= 0 or not np.isfinite(used).any():
                continue
            lives.append(block_life_seconds(pool.capacity, min(0.99, float(np.nanmean(used))), written))
            hits.append(hit / lookups)
            looked.append(lookups)
            draws.append(number)
    return LifeHits(np.array(lives), np.array(hits), np.array(looked), np.array(draws, dtype=np.int64))


def isotonic(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The rising float64[n] nearest to values by weighted squares: neighbours that fall are pooled until none does."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (high, heavy, many), (low, light, few) = blocks[-2], blocks[-1]
            pooled = (high * heavy + low * light) / (heavy + light)
            blocks[-2:] = [(pooled, heavy + light, many + few)]
    return np.repeat([value for value, _, _ in blocks], [count for _, _, count in blocks])


def _slope(across: np.ndarray, values: np.ndarray, weights: np.ndarray) -> float:
    centred = across - np.average(across, weights=weights)
    spread = float((weights * centred**2).sum())
    return float((weights * centred * values).sum()) / spread if spread > 0 else 0.0


DRAWS = 100
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
