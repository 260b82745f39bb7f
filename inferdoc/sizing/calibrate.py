"""The shares that a live pool reaches, from its own readings, and how well they predict readings they did not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.sizing.build import ENDS, End, sized
from inferdoc.sizing.inputs import MeasuredShares, Parallelism, SizingInputs
from inferdoc.sizing.live import LivePool, LiveReading
from inferdoc.sizing.replica import Replica
from inferdoc.sizing.shares import ShareRange

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
