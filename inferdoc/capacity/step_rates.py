"""Seconds of an engine step as a sum of its parts: matrices, experts, cache, attention over prompts, launches."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.capacity.step_time import Weights


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
