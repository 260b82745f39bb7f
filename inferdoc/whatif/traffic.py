"""The traffic of a live pool, for the simulator: arrivals over time, lengths, shared beginnings of prompts."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from inferdoc.simulate.scenario import Length, Prefixes, Stream
from inferdoc.whatif.live import COMPUTED, HITS, LOOKED, OUTPUT, PROMPT, STEP, ObservedPool, Spread

PLACES = np.linspace(0.0, 1.0, 201)
OUTERMOST = 5e-4
"""Share of the lengths beyond each end of those that are drawn."""
SMOOTHED = 5
"""Intervals over which the rate is taken for even, unless requests come in heaps."""
FURTHEST = -NormalDist().inv_cdf(OUTERMOST)
APART = 1e-9
LEAST_HITS = 0.01
"""Share of the prompt tokens that hit; with less there is no shared beginning worth drawing."""
MOST_PREFIXES, PREFIX_ROOM = 16, 0.2
"""Shared beginnings, and the share of the KV cache that they take, where nothing shows how many there are: so few that
all of them stay cached (own choice)."""


def traffic_of(pool: ObservedPool, kv_tokens: float) -> Stream:
    """One stream with what the pool counted; its `rate` of 1 stands for the traffic as it was. kv_tokens: of a pod."""
    prefixes = prefixes_of(pool, kv_tokens)
    prompt, computed, output = (_lengths(pool, name) for name in (PROMPT, COMPUTED, OUTPUT))
    if prefixes.count:
        shape = np.array(computed)
        own = pool.mean(PROMPT) - prefixes.tokens * prefixes.share
        prompt = tuple((shape * own / _mean(shape)).tolist())
    return Stream(
        prompt=_drawn(prompt),
        output=_drawn(output),
        rate=1.0,
        pattern="measured",
        rates=tuple(rates_of(pool).tolist()),
        burst_every=float(STEP),
        prefixes=prefixes,
    )


def answers_of(pool: ObservedPool) -> Length:
    """Lengths of what a pool writes."""
    return _drawn(_lengths(pool, OUTPUT))


def rates_of(pool: ObservedPool) -> np.ndarray:
    """float64[intervals]: requests/s, without what chance alone adds: of counts that vary D times as much as those of
    independent requests, sqrt(1 - 1/D) of their distance from the smooth course is real."""
    came = pool.arrivals
    window = min(SMOOTHED, len(came))
    smooth = _smooth(came, window)
    apart = came - smooth
    # The mean of n values takes a part of the variance of each with it.
    spread = float((apart**2).mean() / max(float(came.mean()), 1e-9)) * window / max(1, window - 1)
    real = np.sqrt(max(0.0, 1.0 - 1.0 / spread)) if spread > 1.0 else 0.0
    found: np.ndarray = np.maximum(smooth + real * apart, 0.0) / STEP
    return found


def _smooth(came: np.ndarray, window: int) -> np.ndarray:
    weights = np.ones(window)
    whole: np.ndarray = np.convolve(came, weights, "same") / np.convolve(np.ones(len(came)), weights, "same")
    return whole


def prefixes_of(pool: ObservedPool, kv_tokens: float) -> Prefixes:
    """Hits m per request, and the variance of prompts less that of computed tokens, determine the share s of
    requests with a shared beginning of T tokens: m = s T and s (1 - s) T^2 are known."""
    looked, hits = pool.total(LOOKED), pool.total(HITS)
    if looked <= 0 or hits / looked < LEAST_HITS:
        return Prefixes()
    of_each = pool.mean(PROMPT) * hits / looked
    prompt, computed = (np.array(_lengths(pool, name)) for name in (PROMPT, COMPUTED))
    more = max(0.0, float(prompt.var() - computed.var()))
    share = min(1.0, max(0.05, of_each**2 / (of_each**2 + more)))
    tokens = round(of_each / share)
    return Prefixes(count=max(1, min(MOST_PREFIXES, int(PREFIX_ROOM * kv_tokens / tokens))), tokens=tokens, share=share)


def _lengths(pool: ObservedPool, name: str) -> tuple[float, ...]:
    return quantiles_behind(pool.spreads[name], pool.mean(name))


def quantiles_behind(spread: Spread, mean: float) -> tuple[float, ...]:
    """Lengths (tokens) at the shares PLACES of the distribution that the buckets show: lognormal between two bounds and
    beyond the last ones, with this mean."""
    bounds, counts = spread.bounds, spread.counts
    below = np.cumsum(counts)[:-1] / max(float(counts.sum()), 1.0)
    filled = counts > OUTERMOST * counts.sum()
    # Of empty buckets between two kinds of lengths both ends count.
    inside = np.flatnonzero((below > OUTERMOST) & (below < 1.0 - OUTERMOST) & (filled[:-1] | filled[1:]))
    z = np.array([_normal(float(share)) for share in below[inside]]) + APART * np.arange(len(inside))
    logs = np.log(bounds[inside])
    around = np.flatnonzero(filled)
    least, most = (bounds[around[0] - 1] if around[0] else 1.0), bounds[min(around[-1], len(bounds) - 1)]
    ends = ((-FURTHEST, math.log(least)), (FURTHEST, math.log(max(most, 2.0))))
    if not len(inside):
        z, logs = np.array([place for place, _ in ends]), np.array([length for _, length in ends])
    at = np.array([_normal(min(max(float(share), OUTERMOST), 1.0 - OUTERMOST)) for share in PLACES])
    found = np.interp(at, z, logs)
    for beyond, near, far, (place, length) in ((at < z[0], 0, 1, ends[0]), (at > z[-1], -1, -2, ends[1])):
        slopes = [(logs[near] - length) / (z[near] - place)] if z[near] != place else []
        slopes += [(logs[near] - logs[far]) / (z[near] - z[far])] if len(z) > 1 else []
        found[beyond] = logs[near] + min(slopes) * (at[beyond] - z[near])
    lengths = np.exp(found)
    return tuple((lengths * mean / _mean(lengths)).tolist())


def _normal(share: float) -> float:
    return NormalDist().inv_cdf(share)


def _mean(quantiles: np.ndarray) -> float:
    return float((quantiles.sum() - (quantiles[0] + quantiles[-1]) / 2) / (len(quantiles) - 1))


def _drawn(quantiles: tuple[float, ...]) -> Length:
    return Length(median=quantiles[len(quantiles) // 2], quantiles=quantiles)
