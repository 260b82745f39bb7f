"""Read a live pool for a sizing, and calibrate the shares that its GPUs reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import erf, exp, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from inferdoc.capacity.service_level import Z90, lognormal_p95
from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import assignments_of
from inferdoc.forecast.fromsource import Gathered, HistorySource, Key, gather, pool_name
from inferdoc.forecast.series import DAY
from inferdoc.sizing.build import ENDS, End, sized
from inferdoc.sizing.inputs import MeasuredShares, Parallelism, ShareRange, SizingInputs, TokenLength
from inferdoc.sizing.replica import Replica
from inferdoc.times import seconds_of

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.catalogue.signal import Tiers
    from inferdoc.config import Config
    from inferdoc.fleet.members import Assignment, Pool


LOW_LOAD = 1 / 3
"""Prefill is read where the fewest requests run: there it waits for nothing."""
RANGE = (0.1, 0.5, 0.9)
"""Quantiles of the shares that the readings ask for: low, middle and high."""
LEAST_SHARE, MOST_SHARE = 0.02, 1.0
OTHER_LAYOUT = 0.4
"""A KV cache that is off by more belongs to other flags: twice the GPUs hold more than twice the tokens (own
choice)."""
ROUNDS = 2
"""Prefill depends little on the share of decode, and decode little on that of prefill."""


@dataclass(frozen=True)
class BackTest:
    """Of readings of the second half, predicted from the first. itl, ttft: median of the error over what was measured;
    itl_within, ttft_within: share of the readings inside the predicted range; kv_tokens: error of the prediction by
    itself, None if the pool does not show it; readings: how many."""

    itl: float
    ttft: float
    itl_within: float
    ttft_within: float
    kv_tokens: float | None
    readings: int


def calibrated(sizing: SizingInputs, pool: LivePool, layout: Parallelism) -> tuple[SizingInputs, BackTest]:
    """The request with the shares that the whole history shows, and the back-test of those of its first half. Raises
    InferdocError where the pool cannot be what was described."""
    before = sized(sizing, layout)
    if before.replicas is None:
        raise InferdocError(f"--like {pool.name}: {sizing.shape.name} does not fit {layout} of {sizing.tier_name}")
    error = None if pool.kv_tokens is None else before.replicas["middle"].kv.tokens / pool.kv_tokens - 1.0
    if error is not None and abs(error) > OTHER_LAYOUT:
        raise InferdocError(
            f"--like {pool.name}: its engine says {pool.kv_tokens:,.0f} KV tokens, {layout} of {sizing.tier_name} "
            f"would hold {before.replicas['middle'].kv.tokens:,.0f}: check --tp, --dtype, --kv-dtype and "
            "--gpu-memory-utilization"
        )
    known = replace(sizing, traffic=replace(sizing.traffic, prompt=pool.prompt, output=pool.output))
    known = replace(known, traffic=replace(known.traffic, prefix_share=pool.prefix_share))
    early, late = pool.halves()
    test = _tested(replace(known, measured=_measured(known, layout, early, pool)), layout, late)
    whole = _measured(known, layout, pool.readings, pool)
    return replace(sizing, measured=whole), replace(test, kv_tokens=error)


def _measured(
    sizing: SizingInputs, layout: Parallelism, readings: Sequence[LiveReading], pool: LivePool
) -> MeasuredShares:
    """Prefill from the quietest readings, decode from all, each so that the replica answers what was read; what it then
    lacks to the first token is spent outside of the engine."""
    least = float(np.quantile([reading.running for reading in readings], LOW_LOAD))
    quiet = [reading for reading in readings if reading.running <= least]
    replicas = sized(sizing, layout).replicas
    assert replicas is not None
    mfu = np.full(len(RANGE), replicas["middle"].decode.mfu)
    mbu = np.full(len(RANGE), replicas["middle"].decode.mbu)
    for _ in range(ROUNDS):
        now = _replica(sizing, layout, float(mfu[1]), float(mbu[1]), pool)
        mfu = np.quantile([_prefill_share(now, reading) for reading in quiet], RANGE)
        now = _replica(sizing, layout, float(mfu[1]), float(mbu[1]), pool)
        mbu = np.quantile([_decode_share(now, reading) for reading in readings], RANGE)
    now = _replica(sizing, layout, float(mfu[1]), float(mbu[1]), pool)
    outside = [max(0.0, reading.ttft - _predicted({"middle": now}, reading)["middle"][1]) for reading in readings]
    least_front, front, most_front = (float(each) for each in np.quantile(outside, RANGE))
    source = f"measured on {pool.name}"
    return MeasuredShares(
        _range(mfu, f"{source}, {len(quiet)} readings at low load"),
        _range(mbu, f"{source}, {len(readings)} readings"),
        pool.kv_tokens,
        layout,
        (most_front, front, least_front),
    )


def _range(shares: np.ndarray, source: str) -> ShareRange:
    low, middle, high = (float(share) for share in shares)
    return ShareRange(low, middle, high, source, assumed=False)


def _replica(sizing: SizingInputs, layout: Parallelism, mfu: float, mbu: float, pool: LivePool) -> Replica:
    def one(share: float) -> ShareRange:
        return ShareRange(share, share, share, "", False)

    shares = MeasuredShares(one(mfu), one(mbu), pool.kv_tokens, layout)
    replicas = sized(replace(sizing, measured=shares), layout).replicas
    assert replicas is not None
    return replicas["middle"]


def _prefill_share(replica: Replica, reading: LiveReading) -> float:
    mbu = replica.decode.mbu
    return _share_at(lambda mfu: replica.with_shares(mfu, mbu).computing(reading.running), reading.prefill)


def _decode_share(replica: Replica, reading: LiveReading) -> float:
    mfu = replica.decode.mfu
    return _share_at(lambda mbu: replica.with_shares(mfu, mbu).itl(reading.running), reading.itl)


def _share_at(seconds: Callable[[float], float], sizing: float) -> float:
    """The share at which so many seconds are taken, by bisection; the nearest possible where none gives them."""
    low, high = LEAST_SHARE, MOST_SHARE
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds(middle) > sizing else (low, middle)
    return (low + high) / 2


def _tested(sizing: SizingInputs, layout: Parallelism, readings: Sequence[LiveReading]) -> BackTest:
    """From the request rate of each reading alone."""
    replicas = sized(sizing, layout).replicas
    assert replicas is not None
    rows = [_predicted(replicas, reading) for reading in readings]
    itl = np.array([[row[end][0] for end in ENDS] for row in rows])
    ttft = np.array([[row[end][1] for end in ENDS] for row in rows])
    read_itl, read_ttft = (np.array([getattr(reading, name) for reading in readings]) for name in ("itl", "ttft"))
    return BackTest(
        _off(itl[:, 1], read_itl),
        _off(ttft[:, 1], read_ttft),
        _inside(itl, read_itl),
        _inside(ttft, read_ttft),
        None,
        len(readings),
    )


def _predicted(replicas: dict[End, Replica], reading: LiveReading) -> dict[End, tuple[float, float]]:
    found = {}
    for end, replica in replicas.items():
        most = min(replica.room, replica.limits.sequences)
        streams = replica.streams_at(reading.rate, most)
        running = most if streams is None else streams
        found[end] = replica.itl(running), replica.ttft(running)
    return found


def _off(predicted: np.ndarray, read: np.ndarray) -> float:
    return float(np.median(np.abs(predicted / read - 1.0)))


def _inside(predicted: np.ndarray, read: np.ndarray) -> float:
    return float(np.mean((predicted.min(axis=1) <= read) & (read <= predicted.max(axis=1))))


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
