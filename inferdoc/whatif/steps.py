"""Step times of a live pool: the parts of a step at which a play of the measured traffic counts what the pool counted.

Time between tokens weighs steps by streams and mixes steps with and without prompts, and a prompt's own time holds
waits for steps under way; so the parts are not regressed on these means: they are moved until plays show the same ones
(the simulated method of moments). What a history does not distinguish, reading weights from a fixed part on a pool of
one load, stays near what published figures of the tier give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from msgspec.structs import replace

from inferdoc.capacity.memory import SPARSE_LAYER_BYTES, WEIGHT_DTYPES, kv_bytes_per_token
from inferdoc.capacity.model_shape import ModelShape
from inferdoc.catalogue.signal import Tier
from inferdoc.simulate.scenario import Length, Prefixes, StepParts, Stream
from inferdoc.whatif.live import (
    COMPUTED,
    HITS,
    ITL,
    LOOKED,
    OUTPUT,
    PREFILL,
    PROMPT,
    STEP,
    STEPS,
    TTFT,
    ObservedPool,
    Spread,
)
from inferdoc.whatif.run_simulation import PlayedPool, played
from inferdoc.whatif.setting import PlayedSetting

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


BANDWIDTH_REACHED, FLOPS_REACHED = 0.65, 0.5
"""Shares of published figures that steps reach (the middle of capacity.md's whole-step shares)."""
FIXED = 1.5e-3
"""Seconds of a step that no GPU work hides (1 to 2 ms)."""
KV_OF_WEIGHTS = 4e-6
"""Bytes of a KV token over those of the weights, where the model is not known: 2e-6 of 70B, 8e-6 of 8B."""
GROUPS = 3
"""Groups of intervals by load, of which each shows its means."""
EXACT = 0.02
"""What a mean of a group is worth, as a share of it."""
FITTED = ("weights", "kv_token", "token", "fixed", "front")
KNOWN = np.array([0.3, 0.35, 0.3, 0.4, 1.0])
UNKNOWN = np.array([1.0, 0.8, 1.0, 0.5, 1.0])
"""How far the parts lie from what is published, of a known model on a known tier and of others (logs)."""
LEAST_PLAYED = 6
"""Intervals of a play for the fit, where there are so many."""
NOTHING = -20.0
"""The log of a mean of which a play counted nothing."""
SEED, OTHER_SEEDS = 1, (2, 3)
ROUNDS, WIDTH, LONGEST_STEP = 3, 0.1, 0.7
FEW_PODS = 4
MOST_REQUESTS = 3000
"""Of a play for the fit; of larger pools some of the pods are played."""


@dataclass(frozen=True)
class StepBasis:
    """What is known of the machine before anything is measured. parts: as published figures give them; spread:
    float64[5], how far off each part may be."""

    parts: StepParts
    spread: np.ndarray


def basis_of(pool: ObservedPool, shape: ModelShape | None, tier: Tier | None, gpus: int, kv_dtype: str) -> StepBasis:
    """From the shape of the model and the figures of its tier; where one is not known, from the quickest steps."""
    if shape is None or tier is None:
        weights = _shortest_step(pool)
        token = pool.mean(PREFILL) / max(1.0, pool.mean("vllm:request_prefill_kv_computed_tokens"))
        return StepBasis(StepParts(weights, weights * KV_OF_WEIGHTS, token, fixed=FIXED), UNKNOWN)
    width = WEIGHT_DTYPES.get(shape.dtype or "bf16", 2.0)
    read = gpus * tier.memory_gbps.value * 1e9 * BANDWIDTH_REACHED
    token = 2.0 * shape.active / (gpus * tier.bf16_tflops.value * 1e12 * FLOPS_REACHED)
    kv_bytes = kv_token_bytes(shape, kv_dtype, gpus)
    chosen = shape.chosen / shape.experts if shape.experts else 1.0
    parts = StepParts(
        weights=shape.parameters * width / read,
        kv_token=kv_bytes / read,
        token=token,
        # Causal attention, 4 L (heads x head size) FLOP for each pair of tokens, against 2 Pa of a token.
        token_distance=token * 2.0 * shape.layers * shape.attention_width / shape.active,
        fixed=FIXED,
        routed=shape.routed / shape.parameters,
        routed_token=shape.routed * chosen / shape.active if shape.experts else 0.0,
        chosen=chosen,
        kv_bytes=int(kv_bytes),
    )
    return StepBasis(parts, KNOWN)


def _shortest_step(pool: ObservedPool) -> float:
    """Seconds of the quickest steps without a prompt; of prefill pods, which have none, half of the quickest prompt."""
    gaps, prompts = _means(pool, ITL), _means(pool, PREFILL)
    return 0.8 * float(np.nanmin(gaps)) if np.isfinite(gaps).any() else 0.5 * float(np.nanmin(prompts))


def kv_token_bytes(shape: ModelShape, kv_dtype: str, gpus: int) -> float:
    """Bytes of a token on all GPUs of a pod."""
    known = next(iter(SPARSE_LAYER_BYTES)) if shape.kv.sparse else kv_dtype
    return kv_bytes_per_token(shape.kv, known, gpus) * gpus


def _means(pool: ObservedPool, name: str) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        whole: np.ndarray = pool.counters[f"{name}_sum"].sum(axis=0) / pool.counters[f"{name}_count"].sum(axis=0)
    return whole


@dataclass(frozen=True)
class StepFit:
    """logs: float64[5] of the parts FITTED; covariance: float64[5, 5] of them, from the moments and from what was
    known before."""

    basis: StepParts
    logs: np.ndarray
    covariance: np.ndarray

    @property
    def parts(self) -> StepParts:
        """The likeliest parts."""
        return _parts(self.basis, self.logs)

    def drawn(self, seed: int) -> StepParts:
        """Parts that the history allows just as well."""
        normal = np.random.default_rng([seed, 5]).standard_normal(len(self.logs))
        return _parts(self.basis, self.logs + np.linalg.cholesky(self.covariance) @ normal)


def fitted(pool: ObservedPool, setting: PlayedSetting, basis: StepBasis, start: StepFit | None = None) -> StepFit:
    """The parts of a step at which plays of the setting count what the pool counted. start: where the search begins."""
    pods = pods_played(setting, float(pool.arrivals.sum()))
    every = _every(pool, pods / setting.replicas)
    of_play = _groups(pool, every)
    target = np.log(_of_pool(pool, _groups(pool)))
    known = np.isfinite(target)
    chosen = replace(setting.traffic, rates=setting.traffic.rates[::every])

    def shown(logs: np.ndarray, seed: int) -> np.ndarray:
        playing = setting.with_traffic(chosen).with_steps(_parts(basis.parts, logs))
        moments = np.log(_of_play(played(playing.scenario(seed, pods)), of_play, setting.replicas / pods))
        found: np.ndarray = np.nan_to_num(moments[known], nan=NOTHING, neginf=NOTHING)
        return found

    prior = _logs(basis.parts)
    begin = prior if start is None else start.logs
    return StepFit(basis.parts, *_nearest(shown, target[known], prior, basis.spread, begin))


def pods_played(setting: PlayedSetting, requests: float) -> int:
    """Of a large pool some of the pods are played, with their share of the requests. Fewer that share a queue wait
    longer, and of prefill pods, which do nothing but queue and compute, the fit would take that for quicker steps: of
    these at least a few are played. Their plays are short, since each request is one token."""
    share = int(setting.replicas * MOST_REQUESTS / max(requests, 1.0))
    least = min(FEW_PODS, setting.replicas) if setting.role == "prefill" else 1
    return max(least, min(setting.replicas, share))


def _every(pool: ObservedPool, share: float) -> int:
    """Of how many intervals one is played for the fit."""
    most = max(1, pool.intervals // LEAST_PLAYED)
    return max(1, min(most, round(float(pool.arrivals.sum()) * share / MOST_REQUESTS)))


def _nearest(
    shown: Callable[[np.ndarray, int], np.ndarray],
    target: np.ndarray,
    prior: np.ndarray,
    spread: np.ndarray,
    at: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Newton with a normal prior; a step that does not come nearer is halved once. shown: of logs and a seed. The
    logs, and their covariance: where means are off by more than they are worth, by as much more."""

    def off(logs: np.ndarray, here: np.ndarray, worth: np.ndarray) -> float:
        return float((((target - here) / worth) ** 2).sum() + (((logs - prior) / spread) ** 2).sum())

    here = shown(at, SEED)
    for _ in range(ROUNDS):
        worth = _worth(here, [shown(at, seed) for seed in OTHER_SEEDS])
        slopes = np.stack([(shown(at + WIDTH * unit, SEED) - here) / WIDTH for unit in np.eye(len(at))], axis=1)
        weighed = slopes / worth[:, None]
        step = np.linalg.solve(
            weighed.T @ weighed + np.diag(1.0 / spread**2),
            weighed.T @ ((target - here) / worth) + (prior - at) / spread**2,
        )
        step = np.clip(step, -LONGEST_STEP, LONGEST_STEP)
        nearer = False
        for part in (1.0, 0.5):
            there = shown(at + part * step, SEED)
            if off(at + part * step, there, worth) < off(at, here, worth):
                at, here, nearer = at + part * step, there, True
                break
        if not nearer or np.abs(step).max() < WIDTH / 5:
            break
    miss = float((((target - here) / worth) ** 2).mean())
    return at, np.linalg.inv(weighed.T @ weighed / max(1.0, miss) + np.diag(1.0 / spread**2))


def _worth(here: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """float64[means]: how far off a mean may be (logs): what chance moves it between plays, of the history as of the
    play. The wait of a full pool shows little of its steps."""
    moved = np.std([here, *others], axis=0, ddof=1)
    worth: np.ndarray = np.hypot(EXACT, math.sqrt(2.0) * moved)
    return worth


def _logs(parts: StepParts) -> np.ndarray:
    return np.log([getattr(parts, name) for name in FITTED])


def _parts(basis: StepParts, logs: np.ndarray) -> StepParts:
    """The attention of a prompt goes with the arithmetic of its tokens."""
    found = dict(zip(FITTED, np.exp(logs).tolist(), strict=True))
    return replace(basis, **found, token_distance=basis.token_distance * found["token"] / basis.token)


def _groups(pool: ObservedPool, every: int = 1) -> Sequence[np.ndarray]:
    """Intervals with low, middle and high load, by the smooth course of the rate; every: of how many one is counted."""
    return np.array_split(np.argsort(rates_of(pool)[::every], kind="stable"), GROUPS)


def _of_pool(pool: ObservedPool, groups: Sequence[np.ndarray]) -> np.ndarray:
    sums = {
        f"{short}_{part}": pool.counters[f"{name}_{part}"].sum(axis=0)
        for short, name in (("itl", ITL), ("prefill", PREFILL), ("ttft", TTFT))
        for part in ("sum", "count")
    }
    return _moments({**sums, "steps": pool.counters[f"{STEPS}_count"].sum(axis=0)}, groups)


def _of_play(play: PlayedPool, groups: Sequence[np.ndarray], pods: float) -> np.ndarray:
    """pods: those of the pool over those that were played."""
    return _moments({**play.minutes, "steps": play.minutes["steps"] * pods}, groups)


def _moments(sums: dict[str, np.ndarray], groups: Sequence[np.ndarray]) -> np.ndarray:
    """float64[4 x groups]: mean seconds between tokens, of a prompt, to the first token, and steps of an interval."""
    with np.errstate(invalid="ignore", divide="ignore"):
        means = [
            sums[f"{name}_sum"][group].sum() / sums[f"{name}_count"][group].sum()
            for name in ("itl", "prefill", "ttft")
            for group in groups
        ]
    return np.array([*means, *(sums["steps"][group].mean() for group in groups)])
