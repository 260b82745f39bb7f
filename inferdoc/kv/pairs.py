"""Hits over the life of a block as the pods of a pool showed them, hour by hour: measured, not extrapolated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferdoc.capacity.retention import block_life_seconds
from inferdoc.kv.live import CachedPool

LEAST = 12
"""Pairs for a curve."""
SPAN = 1.5
"""The longest life over the shortest (its middle nine tenths) from which on they give a curve (own choice)."""
DRAWS = 200
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
        picks = generator.integers(0, len(pieces), (DRAWS, len(pieces)))
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
