"""What a live pool shows for a sizing: its lengths, its rate, its hits, the size of its KV cache, and readings of the
time between tokens and of prefill over its load."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import erf, exp, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from inferdoc.capacity.latency import Z90, lognormal_p95
from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import assignments_of
from inferdoc.forecast.fromsource import Gathered, HistorySource, Key, gather, pool_name
from inferdoc.forecast.series import DAY
from inferdoc.sizing.inputs import TokenLength
from inferdoc.times import seconds_of

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.catalogue.signal import Tiers
    from inferdoc.config import Config
    from inferdoc.fleet.members import Assignment, Pool


READ = (
    "running_mean",
    "request_rate",
    "itl_mean",
    "ttft_mean",
    "prefill_time_mean",
    "prefix_hit_ratio",
    "kv_capacity_tokens",
)
LENGTHS = ("request_rate", "prompt_len_mean", "prompt_len_p90", "output_len_mean", "output_len_p90")
STEP = 60
"""Seconds of a reading: four scrapes of 15 s."""
LENGTHS_STEP = 3600
"""The same of lengths, whose 90th percentile takes some tens of requests."""
LEAST = 30
"""Readings with traffic that a calibration and its back-test need."""
MOST = 120
"""Readings that are worked with, evenly out of all."""
PEAK = 0.95
"""Quantile of the rate that is planned for."""


@dataclass(frozen=True)
class LiveReading:
    """One pod over one step. at: Unix seconds; rate: requests/s; the rest in requests and seconds."""

    at: int
    rate: float
    running: float
    itl: float
    ttft: float
    prefill: float


@dataclass(frozen=True)
class LivePool:
    """pods: how many; rate: requests/s of all at their busiest twentieth; kv_tokens: of one pod, None if
    unknown."""

    name: str
    model: str
    tier: str
    role: str
    pods: int
    prompt: TokenLength
    output: TokenLength
    rate: float
    prefix_share: float
    kv_tokens: float | None
    readings: tuple[LiveReading, ...]

    def halves(self) -> tuple[list[LiveReading], list[LiveReading]]:
        """The readings of the first half of the time, and those of the second."""
        begin, end = self.readings[0].at, self.readings[-1].at
        early = [reading for reading in self.readings if reading.at <= (begin + end) / 2]
        return early, list(self.readings[len(early) :])


def live_for_request(
    source: HistorySource, config: Config, catalogue: Catalogue, options: Mapping[str, Any]
) -> LivePool:
    """The pool that --like names. Raises InferdocError."""
    days = max(1, math.ceil(seconds_of(options["history"], "--history") / DAY))
    return live_pool(source, catalogue.tiers, options["like"], days, assignments_of(config.pods))


def live_pool(
    source: HistorySource, tiers: Tiers, name: str, days: int, assignments: Sequence[Assignment] = ()
) -> LivePool:
    """A pool of a source by its name. Raises InferdocError where there is none, or too little of it."""
    made = gather(source, READ, tiers, assignments, days=days, step=STEP, window=STEP)
    pools = {pool_name(pool): (pool, keys) for pool, keys in made.pools().items()}
    if name not in pools:
        raise InferdocError(f'--like: no pool "{name}"{nearest(name, pools)}; pools: {", ".join(sorted(pools))}')
    pool, keys = pools[name]
    long = gather(source, LENGTHS, tiers, assignments, days=days, step=LENGTHS_STEP, window=LENGTHS_STEP)
    return _shown(made, long, name, pool, keys)


def _shown(made: Gathered, long: Gathered, name: str, pool: Pool, keys: Sequence[Key]) -> LivePool:
    rows = {signal: np.stack([made.row(signal, key) for key in keys]) for signal in READ}
    lengths = {signal: np.stack([long.row(signal, key) for key in keys]) for signal in LENGTHS}
    readings = _readings(made, rows)
    if len(readings) < LEAST:
        raise InferdocError(
            f"--like {name}: {len(readings)} minutes with running requests and latencies of a pod, {LEAST} are needed: "
            "a longer --history, or wait"
        )
    rates = np.nansum(rows["request_rate"], axis=0)
    hits = _weighted(rows["prefix_hit_ratio"], rows["request_rate"])
    capacity = rows["kv_capacity_tokens"]
    return LivePool(
        name,
        pool.model,
        pool.tier,
        pool.role,
        len(keys),
        _length(name, lengths, "prompt_len"),
        _length(name, lengths, "output_len"),
        float(np.quantile(rates[rates > 0], PEAK)),
        0.0 if hits is None else min(hits, 0.99),
        float(np.nanmedian(capacity)) if np.isfinite(capacity).any() else None,
        readings,
    )


def _readings(made: Gathered, rows: dict[str, np.ndarray]) -> tuple[LiveReading, ...]:
    columns = ("request_rate", "running_mean", "itl_mean", "ttft_mean", "prefill_time_mean")
    values = np.stack([rows[name] for name in columns])
    whole = np.isfinite(values).all(axis=0) & (values[0] > 0) & (values[1] > 0)
    found = [
        LiveReading(made.start + int(step) * made.step, *(float(each) for each in values[:, pod, step]))
        for step, pod in zip(*np.nonzero(whole.T), strict=True)
    ]
    every = max(1, -(-len(found) // MOST))
    return tuple(found[::every])


def _weighted(values: np.ndarray, weights: np.ndarray) -> float | None:
    known = np.isfinite(values) & np.isfinite(weights) & (weights > 0)
    return float(np.average(values[known], weights=weights[known])) if known.any() else None


def _length(name: str, rows: dict[str, np.ndarray], signal: str) -> TokenLength:
    """Of the requests that ended, by the rate at which they did."""
    mean = _weighted(rows[f"{signal}_mean"], rows["request_rate"])
    tail = _weighted(rows[f"{signal}_p90"], rows["request_rate"])
    if mean is None or tail is None:
        raise InferdocError(f"--like {name}: no lengths of {signal.removesuffix('_len')}s are visible: see doctor")
    return TokenLength(mean, lognormal_p95(mean, variation_behind(mean, tail)))


STEPS = 40


def variation_behind(mean: float, p90: float) -> float:
    """Standard deviation over mean of the lognormal of this mean that shows this 90th percentile; where none does, that
    with the longest tail. mean, p90: tokens."""
    low, high = 0.01, Z90
    for _ in range(STEPS):
        sigma = (low + high) / 2.0
        low, high = (sigma, high) if _shown_p90(mean, sigma) < p90 else (low, sigma)
    return sqrt(exp(high**2) - 1.0)


def _shown_p90(mean: float, sigma: float) -> float:
    """The 90th percentile that the buckets show of a lognormal."""

    def below(bound: float) -> float:
        return (1.0 + erf((log(bound / mean) + sigma**2 / 2.0) / sigma / sqrt(2.0))) / 2.0

    lower, upper = 0.0, 1.0
    while below(upper) < 0.9:
        lower, upper = upper, _next(upper)
    least = below(lower) if lower else 0.0
    return lower + (upper - lower) * (0.9 - least) / (below(upper) - least)


def _next(bound: float) -> float:
    """The bound after this one: 1, 2, 5, 10, 20, .."""
    return bound * (2.5 if f"{bound:g}".startswith("2") else 2.0)
