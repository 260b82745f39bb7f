"""Prefill and decode apart: GPU-seconds of each phase, the ratio of the pools, and what parting them saves."""

from __future__ import annotations

import math
from dataclasses import dataclass

COLOCATED_USE = 0.6
"""Use at which a colocated pool still meets both objectives (own choice, to be measured)."""
APART_USE = 0.75
"""The same of pools that do one thing (own choice, to be measured)."""


@dataclass(frozen=True)
class PhaseSeconds:
    """GPU-seconds of one request: prefill and decode."""

    prefill: float
    decode: float

    @property
    def ratio(self) -> float:
        """Prefill GPUs per decode GPU."""
        return self.prefill / self.decode


@dataclass(frozen=True)
class Payoff:
    """GPUs of one pool, of the two pools, each whole replicas; saved: share of the GPUs (of the money where prices
    differ), negative where parting costs more."""

    together: int
    prefill: int
    decode: int
    saved: float


def phase_seconds(
    computed_tokens: float, prefill_rate: float, output_tokens: float, decode_rate: float
) -> PhaseSeconds:
    """From tokens per second and GPU: S / prefill rate and O / decode rate. S: prompt tokens net of prefix hits."""
    return PhaseSeconds(computed_tokens / prefill_rate, output_tokens / decode_rate)


def payoff(
    rate: float,
    seconds: PhaseSeconds,
    gpus: int,
    *,
    together_use: float = COLOCATED_USE,
    apart_use: float = APART_USE,
    prices: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> Payoff:
    """What two pools save against one at a rate (requests/s), each pool in replicas of so many GPUs, one at least.
    prices: of a GPU-hour in the one pool, the prefill pool, the decode pool."""

    def whole(need: float) -> int:
        return max(1, math.ceil(round(need / gpus, 9))) * gpus

    together = whole(rate * (seconds.prefill + seconds.decode) / together_use)
    prefill, decode = whole(rate * seconds.prefill / apart_use), whole(rate * seconds.decode / apart_use)
    saved = 1.0 - (prefill * prices[1] + decode * prices[2]) / (together * prices[0])
    return Payoff(together, prefill, decode, saved)


def prefill_pods(requests_per_second: float, computed_tokens: float, seconds_per_token: float) -> float:
    """Prefill pods kept busy: arrivals x uncached prompt tokens x seconds per computed token of one pod."""
    return requests_per_second * computed_tokens * seconds_per_token


def decode_pods(requests_per_second: float, output_tokens: float, tokens_per_second: float) -> float:
    """Decode pods kept busy: arrivals x answer tokens over the tokens/s that one pod reaches."""
    return requests_per_second * output_tokens / tokens_per_second


LEAST_NVLINK = 100.0
"""GB/s one way: PCIe Gen5 x16 is 64, the slowest NVLink 300."""


def transfer_seconds(size_bytes: float, link_gigabits: float, efficiency: float) -> float:
    """Time of a transfer on a link: bytes over gigabits/8 (a 400 Gb/s card moves 50 GB/s) times its efficiency."""
    return size_bytes / (link_gigabits / 8 * 1e9 * efficiency)


def reload_seconds_per_token(kv_bytes: float, bandwidth: float) -> float:
    """Seconds to bring a token's KV back at so many bytes/s; worth it where shorter than computing the token."""
    return kv_bytes / bandwidth
