"""Prefix hits as a function of the life of an unused block, from the gaps between uses.

vLLM reports gaps of a sample of blocks, when a block is evicted: those between its last four hits. A block with such
gaps also had a first hit, whose gap is taken to be like them. All other hits (those of hot blocks before the last four)
are known by their number and by their mean gap: the blocks lived for so long between birth and last hit.

Sizes follow from hits by the law of working sets (Denning and Schwartz 1972): a cache that keeps blocks for a moment
longer is larger by what was written in that moment."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class PrefixCache:
    """tokens: KV tokens of an engine; usage: share that running requests hold; computed, generated: tokens/s that are
    written into it."""

    tokens: float
    usage: float
    computed: float
    generated: float

    @property
    def life(self) -> float:
        """Seconds that a block lives unused."""
        return block_life_seconds(self.tokens, self.usage, self.computed + self.generated)


def block_life_seconds(tokens: float, usage: float, written: float) -> float:
    """Seconds that an unused block lives: C (1 - u) / tokens written per second."""
    return tokens * (1.0 - usage) / written


def life_gain(memory: float, usage: float) -> float:
    """Life of a block with so many times the memory over that of now: (m - u) / (1 - u), as running requests take no
    more of it."""
    return (memory - usage) / (1.0 - usage)


BELOW, BEYOND, FARTHEST = 400, 600, 1e3
"""Lives at which a curve is worked out: below that of now, beyond it, and up to how many times."""

GAPS_REPORTED = 3
"""Most gaps that are reported of one block (vLLM, v1/core/kv_cache_metrics.py)."""

Placing = Literal["low", "middle", "high"]
"""How much of what is not known hits in a smaller cache."""
Kept = Callable[[np.ndarray], np.ndarray]
"""Seconds -> share of the hits whose gap is at most that."""


@dataclass(frozen=True)
class ReuseCounts:
    """What engines counted in an interval. looked, hits: prompt tokens looked up and found; generated: tokens; lives:
    evicted blocks that were followed; lived, idle: seconds of their lives, and of these after the last use; bounds:
    float64[n], seconds; gaps: float64[n + 1], gaps between hits by bucket, the last above all bounds; gap_seconds:
    their sum."""

    looked: float
    hits: float
    generated: float
    lives: float
    lived: float
    idle: float
    bounds: np.ndarray
    gaps: np.ndarray
    gap_seconds: float

    @property
    def share(self) -> float:
        """Share of the prompt tokens that hit."""
        return self.hits / self.looked

    @property
    def life(self) -> float:
        """Seconds from the last use of a block to its eviction, mean."""
        return self.idle / self.lives

    @property
    def followed(self) -> float:
        """Hits of the blocks that were followed: as many blocks are evicted as are written."""
        return self.lives * self.hits / (self.looked - self.hits + self.generated)

    @property
    def reported(self) -> float:
        """Share of the hits whose gap is reported, or is like those reported."""
        like_them = float(self.gaps.sum()) * (1.0 + 1.0 / GAPS_REPORTED)
        return min(1.0, like_them / self.followed) if self.followed > 0 else 0.0

    @property
    def unreported_gap(self) -> float:
        """Mean seconds before any other hit."""
        seconds = self.lived - self.idle - self.gap_seconds * (1.0 + 1.0 / GAPS_REPORTED)
        number = self.followed * (1.0 - self.reported)
        return max(0.0, seconds) / number if number > 0 else 0.0


@dataclass(frozen=True)
class HitCurve:
    """Hits over the life of an unused block. life: of now, s; hits: share of now; generated: tokens per prompt token
    looked up; kept: of the hits of now; endings: share beyond the life of now of gaps that end as an exponential,
    and its rate, 1/s; gain: share that every doubling of the life adds. Both are working assumptions."""

    life: float
    hits: float
    generated: float
    kept: Kept
    gain: float
    endings: tuple[tuple[float, float], ...] = ()

    def at(self, lives: np.ndarray) -> np.ndarray:
        """Share of the prompt tokens that hits, float64 like `lives` (s)."""
        below = self.hits * self.kept(np.minimum(lives, self.life))
        beyond = np.maximum(lives - self.life, 0.0)
        grown = self.gain * np.log2(1.0 + beyond / self.life)
        for more, rate in self.endings:
            grown -= more * np.expm1(-rate * beyond)
        return np.asarray(np.minimum(1.0, below + grown))

    def with_memory(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hits, and seconds that an unused block lives, with so many times the memory of now."""
        beyond = self.life * np.geomspace(1.0, FARTHEST, BEYOND)[1:]
        lives = np.concatenate([np.linspace(0.0, self.life, BELOW), beyond])
        written = 1.0 - self.at(lives) + self.generated
        size = np.concatenate([[0.0], np.cumsum(np.diff(lives) * (written[1:] + written[:-1]) / 2.0)])
        there = np.interp(memory * size[BELOW - 1], size, lives)
        return self.at(there), there


def hit_curve(counts: ReuseCounts, placing: Placing = "middle", steady: float | None = None) -> HitCurve:
    """The curve that counts show. placing: how gaps lie in their buckets, and the others about their mean. Beyond
    the life of now gaps end as they begin to before it, as exponentials; of those that do not begin to, every doubling
    of the life adds as much as the last one did. steady: instead every doubling adds so many times that, of all."""
    reported, life, unreported = counts.reported, counts.life, min(counts.unreported_gap, counts.life)

    def kept(lives: np.ndarray) -> np.ndarray:
        of_unreported = unreported_kept(lives, unreported, life, placing)
        return reported * _reported_kept(lives, counts, placing) + (1.0 - reported) * of_unreported

    early, half = (float(each) for each in _reported_kept(np.array([life / 4.0, life / 2.0]), counts, placing))
    unreported_half = float(unreported_kept(np.array([life / 2.0]), unreported, life, placing)[0])
    parts = (
        (reported, half, exponential_end(half - early, 1.0 - half, life)),
        (1.0 - reported, unreported_half, _unreported_end(unreported, life)),
    )
    alike = [share * (1.0 - at_half) for share, at_half, (_, rate) in parts if rate <= 0 or steady is not None]
    gain = counts.share * sum(alike) * (1.0 if steady is None else steady)
    ends = () if steady is not None else tuple((counts.share * share * more, rate) for share, _, (more, rate) in parts)
    return HitCurve(life, counts.share, counts.generated / counts.looked, kept, gain, ends)


def exponential_end(before: float, last: float, life: float) -> tuple[float, float]:
    """What lies beyond a life of gaps that end as an exponential, and its rate, 1/s, from what lies between a quarter
    and half of the life, and beyond half; (0, 0) where the gaps do not come to an end yet."""
    if last <= 0:
        return 0.0, 1.0 / life
    step = (math.sqrt(1.0 + 4.0 * last / before) - 1.0) / 2.0 if before > 0 else 1.0
    if step >= 1.0:
        return 0.0, 0.0
    return last * step**2 / (1.0 - step**2), -4.0 * math.log(step) / life


def _reported_kept(lives: np.ndarray, counts: ReuseCounts, placing: Placing) -> np.ndarray:
    """Of the gaps that are reported. Above the life of now there is none: what lies there came of quieter hours."""
    life = counts.life
    inside = counts.bounds < life
    edges = np.concatenate([[0.0], counts.bounds[inside], [life]])
    total = float(counts.gaps.sum())
    if total <= 0:
        return np.ones_like(lives)
    shares = np.concatenate([[0.0], np.cumsum(counts.gaps[:-1])[inside] / total, [1.0]])
    if placing == "middle":
        return np.asarray(np.interp(lives, edges, shares))
    if placing == "low":
        return np.asarray(shares[np.searchsorted(edges, lives, side="right") - 1])
    return np.asarray(shares[np.minimum(np.searchsorted(edges, lives, side="left"), len(edges) - 1)])


def unreported_kept(lives: np.ndarray, mean: float, life: float, placing: Placing) -> np.ndarray:
    """Of gaps of which only the mean is known, and that none is above the life of now: an exponential cut off there;
    low and high are what any distribution of that mean can do (Markov's inequality, from either side)."""
    if mean <= 0:
        return np.ones_like(lives)
    inside = np.clip(lives, 1e-12, life * (1 - 1e-12))
    if placing == "low":
        share = 1.0 - np.minimum(1.0, mean / inside)
    elif placing == "high":
        share = 1.0 - np.maximum(0.0, (mean - inside) / (life - inside))
    elif mean >= life / 2.0:
        share = inside / life
    else:
        rate = _cut_rate(mean, life)
        share = np.expm1(-rate * inside) / math.expm1(-rate * life)
    return np.asarray(np.where(lives >= life, 1.0, share))


def _unreported_end(mean: float, life: float) -> tuple[float, float]:
    """The same of gaps of which the mean is known; (0, 0) where it lies so high that they do not come to an end."""
    if mean <= 0:
        return 0.0, 1.0 / life
    if mean >= life / 2.0:
        return 0.0, 0.0
    rate = _cut_rate(mean, life)
    return (1.0 / math.expm1(rate * life) if rate * life < 700 else 0.0), rate


def _cut_rate(mean: float, life: float) -> float:
    """Rate of the exponential that has this mean where it is cut off at `life`."""
    low, high = 0.0, 1.0 / mean
    for _ in range(60):
        rate = (low + high) / 2.0
        reach = rate * life
        tail = life / math.expm1(reach) if reach < 700 else 0.0
        low, high = (rate, high) if 1.0 / rate - tail > mean else (low, rate)
    return high
