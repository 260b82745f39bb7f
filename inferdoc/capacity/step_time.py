"""Seconds of an engine step: whole steps, steps by their parts, and steps with drafts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StepRates:
    """One replica. tensor: GPUs of a rank; weights: bytes of one rank's dense part and of all experts; dense, routed:
    active parameters of a token in each; the rest are rates that one GPU reaches: gemm, experts (FLOP/s in matrices and
    in experts), read, read_experts, cache (bytes/s), attention, latent (FLOP/s of prompts and of decode with MLA).
    padding: tokens by which the tile of each expert is filled up; launches: seconds of a step that grow with nothing;
    latent_flop: of a stream for each token of its context; slow: factor on all."""

    tensor: int
    ranks: int
    weights: Weights
    dense: float
    routed: float
    gemm: float
    experts: float
    read: float
    read_experts: float
    cache: float
    attention: float
    latent: float
    padding: float
    launches: float
    latent_flop: float = 0.0
    slow: float = 1.0

    def matrices(self, of_rank: float, of_all: float) -> float:
        """Seconds of the matrices over so many tokens of the busiest rank and of all ranks, launches included: dense
        part and experts after each other, each the longer of arithmetic and of reading its weights once."""
        read = self.weights.dense / (self.tensor * self.read)
        dense = max(2.0 * self.dense * of_rank / (self.tensor * self.gemm), read)
        return (dense + self._routed(of_all) + self.launches) * self.slow

    def _routed(self, tokens: float) -> float:
        weights, gpus = self.weights, self.tensor * self.ranks
        if not weights.experts:
            return 0.0
        cover = weights.read(tokens) - weights.dense
        used = cover / weights.routed
        # Each expert in use computes whole tiles: tokens that fill them up count as its own do.
        padded = tokens + self.padding * weights.experts / weights.chosen * used
        arithmetic = 2.0 * self.routed * padded / (gpus * self.experts)
        return max(arithmetic, cover / (gpus * self.read_experts))

    def cached(self, streams: float, bytes_of_each: float, context: float) -> float:
        """Seconds to attend to the cache of so many streams of a rank. bytes_of_each: on one GPU; context: tokens. MLA
        multiplies each query head with the whole latent, which may take longer than to read it."""
        arithmetic = streams * self.latent_flop * context / (self.tensor * self.latent)
        return max(streams * bytes_of_each / self.cache, arithmetic) * self.slow

    def prompt(self, flop: float) -> float:
        """Seconds of the attention of prompts over themselves."""
        return flop / (self.tensor * self.attention) * self.slow


def attention_flop(width: int, growing: int, windowed: int, window: int, tokens: float) -> float:
    """FLOP of causal attention over a prompt: 2 x width x S^2 in each layer, 4 x width x S x window in those with one.
    width: query heads x head size."""
    return 2.0 * width * (growing * tokens**2 + 2.0 * windowed * tokens * min(tokens, window))


def latent_decode_flop(heads: int, latent: int, rope: int, layers: int) -> float:
    """FLOP of a decode token for each token of its context with MLA, whose queries are absorbed into the latent: scores
    over latent and positions, and values over the latent. latent: values cached, positions included."""
    return 2.0 * heads * (2 * latent - rope) * layers


DRAFT_COST = 0.05
"""Time of a drafted token over that of a plain step: a small draft head (own choice)."""
DRAFT_HEAD_COSTS = (0.02, 0.10)
"""From the smallest draft head to the largest (own choice; n-grams cost nothing, small models up to 0.3)."""


def expected_tokens(chance: float, draft_length: int) -> float:
    """Tokens per verification step where each drafted token is accepted with this chance, independent of the others:
    (1 - a^(k+1)) / (1 - a) (Leviathan, Kalman, Matias: Fast inference from transformers via speculative decoding)."""
    return sum(chance**position for position in range(draft_length + 1))


def tokens_per_step(accepted: Sequence[float], draft_length: int) -> float:
    """1 + A1 + ... + Ak. accepted: share of drafts whose first i tokens were all accepted, as vLLM counts by position;
    beyond the last it goes on falling by its last ratio."""
    shares = list(accepted[:draft_length])
    while len(shares) < draft_length:
        before = shares[-2] if len(shares) > 1 else 1.0
        shares.append(shares[-1] * shares[-1] / before if before else 0.0)
    return 1.0 + sum(shares)


def speculative_speedup(
    accepted: Sequence[float], draft_length: int, draft_cost: float, longer: Callable[[int], float]
) -> float:
    """Speed with drafts over that without: tokens / (r(k) + k x c). draft_cost: time of a drafted token over that of a
    plain step, as DRAFT_COST; longer: r(k), a step over k + 1
    times the tokens against a plain one."""
    return tokens_per_step(accepted, draft_length) / (longer(draft_length) + draft_length * draft_cost)


def best_draft_length(
    accepted: Sequence[float], draft_cost: float, longer: Callable[[int], float], longest: int | None = None
) -> int:
    """The draft length that yields most, 0 where none pays."""
    lengths = range((len(accepted) if longest is None else longest) + 1)
    return max(lengths, key=lambda k: speculative_speedup(accepted, k, draft_cost, longer))


def break_even_tokens(draft_length: float, draft_cost: float) -> float:
    """Tokens a step must yield for speculation to pay: 1 + k x c, c being the time of a drafted token over that of a
    step of the target (same source; a batch that is short of compute needs more)."""
    return 1.0 + draft_length * draft_cost


def chance_of(tokens: float, draft_length: int) -> float:
    """The chance of a drafted token to be accepted at which a step yields so many tokens, by bisection. 0..1."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, draft_length) < tokens else (low, middle)
    return high


def break_even_chance(draft_length: int, draft_cost: float) -> float:
    """The chance of a drafted token to be accepted at which speculation breaks even. 0..1."""
    return chance_of(break_even_tokens(draft_length, draft_cost), draft_length)


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


def prefill_seconds(machine: Machine, flop: float) -> float:
    """Seconds of a prefill on all GPUs of the machine."""
    return flop / (machine.gpus * machine.flops * machine.mfu)


def prefill_steps(prompt: float, budget: int, streams: float) -> int:
    """Steps that a prompt takes beside running streams: ceil(S / (--max-num-batched-tokens - B))."""
    return max(1, math.ceil(prompt / max(1.0, budget - streams)))


def all_reduce_seconds(tokens: float, hidden: int, gpus: int, *, latency: float, bus: float) -> float:
    """One all-reduce of 16-bit activations: latency + 2 (TP - 1)/TP x n x H x 2 / bus (bytes/s). A layer takes two."""
    return latency + 2.0 * (gpus - 1) / gpus * tokens * hidden * 2.0 / bus


def step_collectives(blocks: int, of_one: float) -> float:
    """Seconds of the all-reduces in a step, one after each mixer and each feed-forward."""
    return blocks * of_one


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
