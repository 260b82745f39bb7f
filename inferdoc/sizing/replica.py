"""One replica under load: seconds of its steps and prompts, and the rate at which it still meets the objectives.

The streams of a data-parallel rank are the free variable: from them follow time between tokens, rate and wait, and all
of these grow with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import hypot

from inferdoc.capacity.latency import colocated_itl_seconds, queue_quantile_seconds, queue_seconds
from inferdoc.capacity.memory import safe_concurrency
from inferdoc.capacity.model_shape import ModelShape
from inferdoc.capacity.step_time import (
    Machine,
    Weights,
    expert_exchange_seconds,
    pipeline_bubble,
    prefill_flop,
    prefill_seconds,
    prefill_steps,
    step_seconds,
)
from inferdoc.sizing.wanted import EngineLimits, Parallelism, TrafficAsked

MICRO_BATCHES = 16
"""Batches in flight of a pipeline, for its bubble (own choice; 16 % at four stages)."""


@dataclass(frozen=True)
class KvSpace:
    """tokens: that one data-parallel rank holds; per_token, fixed: bytes on one GPU of a token and of a request."""

    tokens: float
    per_token: float
    fixed: float = 0.0

    def context(self, tokens: float) -> float:
        """Tokens of cache that a request of so much context takes, its fixed part included."""
        return tokens + self.fixed / self.per_token


@dataclass(frozen=True)
class Replica:
    """decode: the GPUs that read the weights of a step together (TP x DP); prompt: those that compute one prompt (TP);
    host: seconds of a step that no GPU work hides; collectives: seconds of the all-reduces of a step over so many
    tokens, where the shares do not hold them."""

    shape: ModelShape
    layout: Parallelism
    decode: Machine
    prompt: Machine
    weights: Weights
    kv: KvSpace
    traffic: TrafficAsked
    limits: EngineLimits
    host: float
    collectives: Callable[[float], float]

    def step(self, streams: float, of_each: int = 1) -> float:
        """Seconds of a decode step of so many streams per rank, of each so many tokens (drafts and one more); of a
        pipeline, through all stages."""
        batch = streams / self.layout.pipeline
        tokens = batch * self.layout.data
        of_stages = self.layout.tensor * self.layout.pipeline
        kv_read = tokens * self.kv.context(self.traffic.context) * self.kv.per_token * of_stages
        seconds = step_seconds(self.decode, self.weights, tokens=tokens * of_each, kv_read=kv_read)
        return seconds + self.collectives(batch * of_each) + self._exchange(batch * of_each) + self.host

    def _exchange(self, tokens: float) -> float:
        if not self.shape.experts or self.layout.data == 1:
            return 0.0
        return expert_exchange_seconds(self.shape.layers, tokens, self.shape.chosen, self.shape.hidden)

    def prefill(self, tokens: float) -> float:
        """Seconds to compute a prompt of so many tokens."""
        flop = prefill_flop(self.shape.active, self.shape.layers, self.shape.attention_width, tokens)
        arithmetic = prefill_seconds(self.prompt, flop)
        traffic = self.weights.read(tokens) / (self.decode.gpus * self.decode.bandwidth * self.decode.mbu)
        return max(arithmetic, traffic) + self.collectives(tokens) + self._exchange(tokens)

    @property
    def service(self) -> float:
        """Seconds of a rank that a mean prompt takes; of a pipeline, its stages work on several."""
        stages = self.layout.pipeline
        return self.prefill(self.traffic.computed) / (stages * (1.0 - pipeline_bubble(stages, MICRO_BATCHES)))

    def itl(self, streams: float) -> float:
        """Mean seconds between tokens with so many streams per rank, prompts on the same GPUs."""
        return colocated_itl_seconds(self.step(streams), streams, self.service, self.traffic.output.mean)

    def rate(self, streams: float) -> float:
        """Requests/s of the replica that keep so many streams per rank running (Little's law)."""
        return self.layout.data * streams / (self.traffic.output.mean * self.itl(streams))

    def ttft(self, streams: float) -> float:
        """Mean seconds to the first token: the wait for other prompts, the prompt, and the steps it shares."""
        return self._wait(streams, queue_seconds) + self.service_alone(streams)

    def ttft_p95(self, streams: float) -> float:
        """The same at the 95th percentile, of waits and prompts, which do not come together."""
        longer = self.prefill(self.traffic.computed_p95) - self.prefill(self.traffic.computed)
        waits = self._wait(streams, queue_quantile_seconds) - self._wait(streams, queue_seconds)
        return self.ttft(streams) + hypot(longer, max(0.0, waits))

    def service_alone(self, streams: float) -> float:
        """Seconds to the first token without a wait: the prompt, and the decode steps that its chunks share."""
        computed = self.traffic.computed
        steps = prefill_steps(computed, self.limits.batched_tokens, streams)
        return self.prefill(computed) + steps * self.step(streams)

    def _wait(self, streams: float, of_queue: Callable[[float, float, float], float]) -> float:
        arriving = self.rate(streams) / self.layout.data
        return of_queue(self.service, arriving, self.traffic.prompt.variation)

    @property
    def room(self) -> float:
        """Streams per rank that 90 % of the KV cache hold at their mean context."""
        return safe_concurrency(self.kv.tokens, self.kv.context(self.traffic.context))

    def within(self, ttft: float, itl: float) -> tuple[int, str]:
        """The most streams per rank that keep both objectives and fit, and what binds; 0 where not even one does."""
        most = int(min(self.room, self.limits.sequences))
        bound = "KV cache" if self.room < self.limits.sequences else "--max-num-seqs"

        def kept(streams: int) -> bool:
            return self.itl(streams) <= itl and self.ttft_p95(streams) <= ttft

        if most >= 1 and kept(most):
            return most, bound
        low, high = 0, max(most, 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if kept(middle) else (low, middle)
        return low, "time between tokens" if self.itl(low + 1) > itl else "time to first token"

    def decode_within(self, itl: float) -> int:
        """The most streams per rank that keep the time between tokens where prompts are computed elsewhere."""
        low, high = 0, int(max(1.0, min(self.room, self.limits.sequences))) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.step(middle) <= itl else (low, middle)
        return low

    def streams_at(self, rate: float, most: float) -> float | None:
        """Streams per rank at a rate (requests/s of the replica); None where it takes more than `most`."""
        if self.rate(most) < rate:
            return None
        low, high = 0.0, most
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if middle <= 0 or self.rate(middle) < rate else (low, middle)
        return high
