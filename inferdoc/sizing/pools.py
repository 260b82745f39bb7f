"""Prefill and decode in pools of their own, each in the layout that takes it the fewest GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inferdoc.capacity.disaggregation import transfer_seconds
from inferdoc.capacity.service_level import replicas_needed
from inferdoc.sizing.build import End, Sized
from inferdoc.sizing.inputs import Parallelism, SizingInputs

LINK_EFFICIENCY = 0.8
"""Share of a network that large transfers reach (field guide, section 5.6: 0.7 to 0.9)."""


@dataclass(frozen=True)
class SidePool:
    """One pool. replicas: for the rate; usable: requests/s of one; bound: what keeps it from more."""

    layout: Parallelism
    replicas: int
    usable: float
    bound: str

    @property
    def gpus(self) -> int:
        """GPUs of the pool."""
        return self.layout.gpus * self.replicas


@dataclass(frozen=True)
class PoolPair:
    """Both pools. move: seconds of the KV of a mean prompt from one to the other; ttft_p95, ttft, itl: seconds at the
    rate."""

    prefill: SidePool
    decode: SidePool
    move: float
    ttft_p95: float
    ttft: float
    itl: float

    @property
    def gpus(self) -> int:
        """GPUs of both pools."""
        return self.prefill.gpus + self.decode.gpus


def kv_move_seconds(sizing: SizingInputs, layouts: Sequence[Parallelism], rows: Sequence[Sized]) -> float:
    """Seconds to move the KV of a mean prompt between two layouts: each GPU of both has a network of its own, and the
    side whose GPUs hold more takes longer."""
    per_token = (
        row.replicas["middle"].kv.per_token for row in rows if row.layout in layouts and row.replicas is not None
    )
    return transfer_seconds(sizing.traffic.prompt.mean * max(per_token), sizing.nic_gbits, LINK_EFFICIENCY)


def pool_pair(sizing: SizingInputs, rows: Sequence[Sized], end: End = "middle") -> PoolPair | None:
    """The pair with the fewest GPUs of the layouts that fit, at one end of the ranges; None where none keeps both
    objectives."""
    fitting = [row for row in rows if row.replicas is not None]
    decodes = [pool for row in fitting if (pool := _decode_pool(sizing, row, end)) is not None]
    decode = min(decodes, key=lambda pool: (pool.gpus, pool.layout.gpus), default=None)
    if decode is None:
        return None
    found = [pair for row in fitting if (pair := _with_prefill(sizing, row, rows, decode, end)) is not None]
    return min(found, key=lambda pair: (pair.gpus, pair.prefill.layout.gpus), default=None)


def _decode_pool(sizing: SizingInputs, row: Sized, end: End) -> SidePool | None:
    assert row.replicas is not None and sizing.traffic.rate is not None
    replica, output = row.replicas[end], sizing.traffic.output.mean
    streams = replica.decode_within(sizing.itl)
    if not streams:
        return None
    usable = row.layout.data * streams / (output * replica.step(streams))
    bound = "time between tokens" if replica.step(streams + 1) > sizing.itl else "KV cache or --max-num-seqs"
    return SidePool(row.layout, max(1, replicas_needed(sizing.traffic.rate, usable, sizing.safety)), usable, bound)


def _with_prefill(
    sizing: SizingInputs, row: Sized, rows: Sequence[Sized], decode: SidePool, end: End
) -> PoolPair | None:
    assert row.replicas is not None and sizing.traffic.rate is not None
    rate, replica = sizing.traffic.rate, row.replicas[end]
    move = kv_move_seconds(sizing, (row.layout, decode.layout), rows)
    of_decode = next(each.replicas[end] for each in rows if each.layout == decode.layout and each.replicas is not None)
    share = rate / decode.replicas / decode.layout.data
    itl = of_decode.decode_step_at(share)
    usable = replica.prompts_within(sizing.ttft, move + itl)
    if usable <= 0.0:
        return None
    replicas = max(1, replicas_needed(rate, usable, sizing.safety))
    mean, p95 = replica.prompt_seconds(rate / replicas)
    side = SidePool(row.layout, replicas, usable, "time to first token")
    return PoolPair(side, decode, move, p95 + move + itl, mean + move + itl, itl)
