"""How long an engine step takes: a roofline of the tier's published figures, or times measured on a real machine.

Per GPU and step: the larger of arithmetic over usable FLOP/s and bytes over usable memory bandwidth, plus what the GPUs
say to each other, plus what the host adds. Everything in seconds, bytes, FLOP and tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

from inferdoc.capacity.model_shape import ModelShape, shape_of
from inferdoc.catalogue.signal import Tier
from inferdoc.errors import InferdocError
from inferdoc.simulate.scenario import StepParts

FLOP_SHARE = 0.55
"""Share of the datasheet's dense BF16 rate that large prefill GEMMs reach (published prefill MFU of 0.4 to 0.6)."""
BANDWIDTH_SHARE = 0.75
"""Share of the datasheet's memory bandwidth that decode kernels reach (STREAM-like kernels reach 0.8 to 0.9)."""
LINK_SHARE = 0.7
"""Share of the datasheet's GPU-to-GPU rate that an all-reduce reaches."""
ALL_REDUCE_LATENCY = 8e-6
"""Seconds an all-reduce takes however small it is (custom all-reduce over NVLink, some 5 to 10 microseconds)."""
ALL_TO_ALL_RATE = 100e9
"""Bytes/s of a low-latency expert exchange (DeepEP's README: 98 GB/s dispatch, 127 GB/s combine among 8 GPUs)."""
ALL_TO_ALL_LATENCY = 20e-6
HOST_STEP = 1.2e-3
"""Seconds of scheduler and input preparation per step that no GPU work hides below this floor (own choice)."""
HOST_PER_REQUEST = 12e-6
"""Seconds of host work per running request and step: sampling metadata, detokenising, streaming (own choice)."""
STEP_GAP = 0.3e-3
"""Seconds between two steps in which the GPU waits in any case (own choice; asynchronous scheduling is on)."""
ENCODER_FLOP = 2 * 0.3e9 * 4 * 576
"""FLOP to encode one image: a vision tower of 0.3 billion parameters over 48 x 48 patches, pooled to 576 prompt tokens
(a shape as of LLaVA 1.5, twice as fine)."""
LAUNCH = 0.8e-3
"""Seconds the host needs per layer to launch the kernels of a batch without a captured CUDA graph (own choice, 26 ms
for 32 layers; reports of batches just outside the captured sizes speak of 2 to 8 times the step: vLLM pull requests
37865, 51509)."""
MEMORY_SHARE = 0.92
"""vLLM's default --gpu-memory-utilization since 0.20."""
RESERVED = 3 * 2**30
"""Bytes per GPU for activations, graphs and communication buffers (own choice)."""


LONGEST = 32768
"""Tokens of the longest context of a simulated model."""


def kv_bytes_of(shape: ModelShape) -> int:
    """Bytes of KV cache per token, as BF16 keys and values of every layer."""
    return 2 * 2 * shape.layers * shape.kv.kv_heads * shape.kv.head_size


def tier(name: str) -> Tier:
    """A tier of collectors/tiers.yaml. Raises InferdocError for an unknown one."""
    from inferdoc.catalogue.load import load_catalogue

    tiers = load_catalogue().tiers.tiers
    if name not in tiers:
        raise InferdocError(f"no tier {name!r}; known: {', '.join(sorted(tiers))}")
    return tiers[name]


@lru_cache(maxsize=1)
def _catalogue_models() -> dict[str, ModelShape]:
    """Those of which every layer caches keys and values of every token."""
    from inferdoc.catalogue.load import load_catalogue

    found = {}
    for name, known in load_catalogue().models.items():
        shape = shape_of(name, known.config).as_published(known.parameters, known.active)
        kv = shape.kv
        if kv.growing == shape.layers and not (kv.latent or kv.windowed or kv.linear):
            found[name] = replace(shape, name=known.title)
    return found


def model(name: str) -> ModelShape:
    """A model by its short name. Raises InferdocError for an unknown one."""
    found = _catalogue_models().get(name)
    if found is None:
        raise InferdocError(f"no model {name!r} that can be played; known: {', '.join(sorted(_catalogue_models()))}")
    return found


@dataclass
class Health:
    """State of the machine under one engine; 1 is healthy. clock, bandwidth: one per GPU; cpu: cores over cores
    needed; link: GPU-to-GPU rate; hot: tokens of the most loaded expert rank over the mean; pause: share of wall
    time taken away."""

    clock: list[float]
    bandwidth: list[float]
    cpu: float = 1.0
    link: float = 1.0
    hot: float = 1.0
    pause: float = 0.0

    @classmethod
    def good(cls, gpus: int) -> Health:
        return cls([1.0] * gpus, [1.0] * gpus)


@dataclass(slots=True)
class StepCost:
    """One step. seconds: wall time; compute, memory: seconds of arithmetic and of memory traffic of a healthy GPU
    inside it."""

    seconds: float
    compute: float
    memory: float


class StepTime(Protocol):
    """Interface of the machine of an engine."""

    health: Health

    def step(self, decode: int, context: float, prefill: int, prefill_context: float, requests: int) -> StepCost:
        """decode: tokens of running streams (drafts included); context: KV tokens they read; prefill: prompt tokens
        computed, at a mean distance of prefill_context from the start of their prompts; requests: in the batch."""

    def tokenise(self, tokens: int) -> float:
        """Seconds of the front end for one request."""

    def encode(self, images: int) -> float:
        """Seconds of the GPU to encode so many images."""


@dataclass
class Roofline:
    """Step times of a model on GPUs of a tier (tensor parallel; experts spread over the GPUs where the model has
    some). graphs: tokens of the largest batch with a captured CUDA graph, 0: every batch has one."""

    tier: Tier
    model: ModelShape
    gpus: int = 1
    draft_share: float = 0.0
    kernels: float = 1.0
    graphs: int = 0
    group: LockStep | None = None
    rank: int = 0
    health: Health = field(init=False)

    def __post_init__(self) -> None:
        self.health = Health.good(self.gpus)
        self._attention = 4.0 * self.model.layers * self.model.hidden
        self._rate = float(self.tier.bf16_tflops.value) * 1e12 * FLOP_SHARE * self.gpus
        self._width = float(self.tier.memory_gbps.value) * 1e9 * BANDWIDTH_SHARE * self.gpus
        self._link = float(self.tier.link_gbps.value) * 1e9 * LINK_SHARE
        self._kv_bytes = kv_bytes_of(self.model)

    def kv_blocks(self, block_size: int, memory_share: float = MEMORY_SHARE) -> int:
        """Blocks that fit beside the weights. Raises InferdocError if the weights alone do not."""
        memory = float(self.tier.memory_gib.value) * 2**30
        room = self.gpus * (memory * memory_share - RESERVED) - 2 * self.model.parameters
        blocks = int(room / (self._kv_bytes * block_size))
        if blocks < LONGEST / block_size / 8:
            raise InferdocError(f"{self.model.name} does not fit {self.gpus} GPUs of this tier; take more GPUs")
        return blocks

    def step(self, decode: int, context: float, prefill: int, prefill_context: float, requests: int) -> StepCost:
        m, health, tokens = self.model, self.health, decode + prefill
        attention = self._attention * (context + prefill * prefill_context)
        rate, width = self._rate, self._width
        slow_clock, slow_memory = min(health.clock), min(health.bandwidth)
        kv = (context + prefill * min(prefill_context, 1.0)) * self._kv_bytes
        if m.experts:
            dense = 0.25 * m.active
            seen = 1.0 - (1.0 - m.chosen / m.experts) ** tokens
            flops = 2.0 * dense * tokens + attention
            expert_flops = 2.0 * (m.active - dense) * tokens
            expert_bytes = 2.0 * (m.parameters - dense) * seen
            compute = (flops + expert_flops) / rate
            memory = (2.0 * dense + expert_bytes + kv) / width
            base = max(flops / rate / slow_clock, (2.0 * dense + kv) / width / slow_memory)
            hot = max(expert_flops * health.hot / rate / slow_clock, expert_bytes / width / slow_memory)
            seconds = base + hot + self._exchange(tokens)
        else:
            compute = (2.0 * m.active * tokens + attention) / rate
            memory = (2.0 * m.parameters + kv) / width
            seconds = max(compute / slow_clock, memory / slow_memory) + self._reduce(tokens)
        seconds *= self.kernels * (1.0 + (self.draft_share if decode else 0.0))
        host = self.kernels * (HOST_STEP + HOST_PER_REQUEST * requests) / health.cpu
        if self.graphs and tokens > self.graphs:
            host += m.layers * LAUNCH / health.cpu
        whole = (max(seconds, host) + STEP_GAP / health.cpu) / (1.0 - health.pause)
        return StepCost(whole if self.group is None else self.group.join(self.rank, whole), compute, memory)

    def _reduce(self, tokens: int) -> float:
        if self.gpus == 1:
            return 0.0
        link = self._link * self.health.link
        moved = 2.0 * tokens * self.model.hidden * 2
        return 2 * self.model.layers * (ALL_REDUCE_LATENCY + moved / link)

    def _exchange(self, tokens: int) -> float:
        """Expert dispatch (1 byte per value) and combine (2 bytes): the most loaded rank sets the pace."""
        if self.gpus == 1:
            return 0.0
        rate = min(ALL_TO_ALL_RATE, self._link) * self.health.link
        moved = tokens / self.gpus * self.model.chosen * self.model.hidden * 3 * self.health.hot
        return self.model.layers * (2 * ALL_TO_ALL_LATENCY + moved / rate)

    def link_bytes(self, tokens: float) -> float:
        """Bytes that one GPU sends and receives over its links for so many tokens."""
        m = self.model
        if m.experts:
            return 2.0 * m.layers * tokens / self.gpus * m.chosen * m.hidden * 3
        return 2.0 * 2 * m.layers * 2.0 * tokens * m.hidden * 2

    def tokenise(self, tokens: int) -> float:
        return (0.5e-3 + 1.5e-6 * tokens) / self.health.cpu

    def encode(self, images: int) -> float:
        return images * ENCODER_FLOP / (self._rate * min(self.health.clock))


@dataclass
class MeasuredTime:
    """Step times measured on a real machine: a fixed part, a part per stream, a part per prompt token and per KV
    token."""

    fixed: float
    per_stream: float
    per_prompt_token: float
    per_kv_token: float = 0.0
    health: Health = field(default_factory=lambda: Health.good(1))

    def step(self, decode: int, context: float, prefill: int, prefill_context: float, requests: int) -> StepCost:
        work = self.fixed + self.per_stream * decode + self.per_prompt_token * prefill + self.per_kv_token * context
        return StepCost(work / (min(self.health.clock) * self.health.cpu * (1.0 - self.health.pause)), work, work)

    def tokenise(self, tokens: int) -> float:
        return 2e-3 / self.health.cpu

    def encode(self, images: int) -> float:
        return 0.0


@dataclass
class PartsTime:
    """Step times by parts: the longer of arithmetic and memory traffic, of experts by themselves since they follow the
    attention of their layer, and what comes on top of both."""

    parts: StepParts
    draft: int = 0
    health: Health = field(default_factory=lambda: Health.good(1))

    def step(self, decode: int, context: float, prefill: int, prefill_context: float, requests: int) -> StepCost:
        p, health, tokens = self.parts, self.health, decode + prefill
        arithmetic = p.token * tokens
        dense = arithmetic * (1.0 - p.routed_token) + p.token_distance * (context + prefill * prefill_context)
        experts = arithmetic * p.routed_token
        read = p.weights * (1.0 - p.routed) + p.kv_token * context
        experts_read = p.weights * p.routed * (1.0 - (1.0 - p.chosen) ** tokens)
        clock, bandwidth = min(health.clock), min(health.bandwidth)
        seconds = max(dense / clock, read / bandwidth) + max(experts / clock, experts_read / bandwidth)
        seconds *= 1.0 + (p.draft * self.draft if decode else 0.0)
        whole = (seconds + p.fixed / health.cpu) / (1.0 - health.pause)
        return StepCost(whole, dense + experts, read + experts_read)

    def tokenise(self, tokens: int) -> float:
        return self.parts.front / self.health.cpu

    def encode(self, images: int) -> float:
        return 0.0


FORGET = 0.25
"""Weight of the newest step in a rank's mean (own choice)."""


@dataclass
class LockStep:
    """lately: mean seconds per step of each rank by itself; a rank without work counts as 0."""

    lately: dict[int, float] = field(default_factory=dict)

    def join(self, rank: int, seconds: float) -> float:
        """Seconds of a step that the rank would do in `seconds` alone."""
        known = self.lately.get(rank) or seconds
        self.lately[rank] = known + FORGET * (seconds - known)
        return max(seconds, max(self.lately.values()))

    def rest(self, rank: int) -> None:
        """A rank has nothing to do: it only follows."""
        self.lately[rank] = 0.0
