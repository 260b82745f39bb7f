"""Seconds of an engine step: arithmetic against memory traffic, published figures times the shares reached."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """The GPUs that compute one step together. flops (FLOP/s), bandwidth (bytes/s): of one GPU, published; mfu, mbu:
    shares of them that whole steps reach."""

    gpus: int
    flops: float
    bandwidth: float
    mfu: float
    mbu: float


@dataclass(frozen=True)
class Weights:
    """What a step multiplies with and reads. active: parameters per token; dense, routed: bytes that every step reads,
    and that it reads as far as tokens choose them; experts, chosen: of each layer, chosen by each token."""

    active: float
    dense: float
    routed: float = 0.0
    experts: int = 0
    chosen: int = 0

    def read(self, tokens: float) -> float:
        """Bytes that a step of so many tokens reads."""
        return self.dense + self.routed * (expert_cover(self.experts, self.chosen, tokens) if self.experts else 1.0)


def expert_cover(experts: int, chosen: int, tokens: float) -> float:
    """Share of the experts of a layer that tokens choose between them, choosing at random: 1 - (1 - k/E)^n. 0..1."""
    missed: float = (1.0 - chosen / experts) ** tokens
    return 1.0 - missed


def step_seconds(machine: Machine, weights: Weights, *, tokens: float, kv_read: float) -> float:
    """A step over so many tokens (streams, drafts and prompt tokens together) that reads kv_read bytes of KV cache: the
    longer of arithmetic and memory traffic. Seconds. Weights are read once a step, KV once per stream."""
    arithmetic = 2.0 * weights.active * tokens / (machine.gpus * machine.flops * machine.mfu)
    traffic = (weights.read(tokens) + kv_read) / (machine.gpus * machine.bandwidth * machine.mbu)
    return max(arithmetic, traffic)


def ridge_tokens(flops: float, bandwidth: float, bytes_per_weight: float, reached: float = 1.0) -> float:
    """Tokens in a step from which on arithmetic takes longer than reading the weights: F/W x bw/2 x (MFU/MBU). Below it
    more tokens are nearly free. reached: MFU over MBU."""
    return flops / bandwidth * bytes_per_weight / 2.0 * reached


def prefill_flop(active: float, layers: int, attention_width: int, tokens: float) -> float:
    """FLOP of a prompt: 2 x Pa x S, and causal attention 2 x L x (query heads x head size) x S^2."""
    return 2.0 * active * tokens + 2.0 * layers * attention_width * tokens**2


def prefill_seconds(machine: Machine, flop: float) -> float:
    """Seconds of a prefill on all GPUs of the machine."""
    return flop / (machine.gpus * machine.flops * machine.mfu)


def prefill_steps(prompt: float, budget: int, streams: float) -> int:
    """Steps that a prompt takes beside running streams: ceil(S / (--max-num-batched-tokens - B))."""
    return max(1, math.ceil(prompt / max(1.0, budget - streams)))


def all_reduce_seconds(tokens: float, hidden: int, gpus: int, *, latency: float, bus: float) -> float:
    """One all-reduce of 16-bit activations: latency + 2 (TP - 1)/TP x n x H x 2 / bus (bytes/s). A layer takes two."""
    return latency + 2.0 * (gpus - 1) / gpus * tokens * hidden * 2.0 / bus


def step_collectives(layers: int, of_one: float) -> float:
    """Seconds of the two all-reduces of every layer in a step."""
    return 2 * layers * of_one


def pipeline_bubble(stages: int, micro_batches: int) -> float:
    """Share of time that a pipeline idles: (PP - 1) / (m + PP - 1)."""
    return (stages - 1) / (micro_batches + stages - 1)


def expert_exchange_seconds(
    layers: int, tokens_of_rank: float, chosen: int, hidden: int, ranks: int, bus: float
) -> float:
    """Dispatch and combine of expert parallelism in a step: layers x (2 x 20 us + tokens x ranks reached x H x 3 bytes
    over the bus), a byte on the way there and two back (DeepEP's README). A token goes once to each other rank that
    holds one of its experts: (ranks - 1)(1 - (1 - 1/ranks)^k) of them on average. bus: bytes/s of a GPU one way."""
    reached = (ranks - 1) * (1.0 - (1.0 - 1.0 / ranks) ** chosen)
    return layers * (2 * 20e-6 + tokens_of_rank * reached * hidden * 3.0 / bus)
