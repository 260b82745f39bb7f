"""Bytes of weights and KV cache, and the requests and tokens that fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

KV_DTYPES: Mapping[str, float] = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 0.5625}
"""Bytes per cached value. nvfp4: half a byte and one scale byte per 16 values (vLLM: d/2 + d/16 bytes a head)."""
HEAD_SCALE_BYTES = 4.0
"""Of the *_per_token_head dtypes: a float per head for keys and one for values (vLLM)."""
SPARSE_LAYER_BYTES: Mapping[str, float] = {"fp8": 656.0, "nvfp4": 352.0}
"""Bytes per token and layer of vLLM's packed sparse-MLA caches, fp8_ds_mla and nvfp4_ds_mla; its index comes
on top."""


INDEX_SCALE_BYTES = 4.0
"""Of the index cache of sparse MLA: a byte per value, and a float for each key (vLLM)."""


@dataclass(frozen=True)
class KvLayers:
    """The layers of a model by what they cache. growing: layers whose cache grows with every token, of kv_heads heads
    of head_size values; latent: values per token and layer of multi-head latent attention, 0 for keys and values by
    head; sparse: latent with a sparse index, of which `indexed` layers cache keys of `index` values; windowed: layers
    that keep the last `window` tokens alone; linear: layers with a state of fixed size, of `state` bytes together.
    value_size, window_heads, window_head_size, window_value_size: of values, and of windowed layers, where these
    differ."""

    growing: int
    kv_heads: int = 0
    head_size: int = 0
    latent: int = 0
    sparse: bool = False
    windowed: int = 0
    window: int = 0
    linear: int = 0
    value_size: int = 0
    window_heads: int = 0
    window_head_size: int = 0
    window_value_size: int = 0
    index: int = 0
    indexed: int = 0
    state: float = 0.0

    @property
    def attention(self) -> str:
        """Its kind in words."""
        if self.latent:
            return "sparse MLA" if self.sparse else "MLA"
        if self.linear:
            return "hybrid with linear layers"
        if self.windowed:
            return "hybrid with sliding window" if self.growing else "sliding window"
        return "GQA or MHA"


def heads_on_gpu(kv_heads: int, tensor_parallel: int) -> int:
    """KV heads that one GPU of a tensor-parallel group holds: beyond one a GPU they are copied (vLLM)."""
    return max(1, -(-kv_heads // tensor_parallel))


def grouped_layer_bytes(heads: int, values: int, value_bytes: float, scaled_by_head: bool = False) -> float:
    """Bytes per token and layer of MHA or GQA: keys and values of so many KV heads (never query heads), of a head
    `values` values together.

    scaled_by_head: the *_per_token_head dtypes, which keep a scale with every head."""
    return heads * (values * value_bytes + (2.0 * HEAD_SCALE_BYTES if scaled_by_head else 0.0))


def kv_bytes_per_token(layers: KvLayers, dtype: str, tensor_parallel: int = 1, context_parallel: int = 1) -> float:
    """Bytes that a token of context adds on one GPU, by the layers that grow; by those with a window where
    no layer grows. MLA keeps one latent without a keys and values factor, and copies it over a
    tensor-parallel group; decode context parallelism divides it.

    Raises KeyError for a dtype that the kind of cache does not know."""
    if layers.latent:
        of_layer = SPARSE_LAYER_BYTES[dtype] if layers.sparse else layers.latent * KV_DTYPES[dtype]
        index = layers.indexed * (layers.index + INDEX_SCALE_BYTES) if layers.indexed else 0.0
        return (layers.growing * of_layer + index) / context_parallel
    if not layers.growing:
        return kv_bytes_in_window(layers, dtype, tensor_parallel) / context_parallel
    heads = heads_on_gpu(layers.kv_heads, tensor_parallel)
    values = layers.head_size + (layers.value_size or layers.head_size)
    return layers.growing * grouped_layer_bytes(heads, values, KV_DTYPES[dtype]) / context_parallel


def kv_bytes_in_window(layers: KvLayers, dtype: str, tensor_parallel: int = 1) -> float:
    """Bytes that a token takes on one GPU in the layers with a window, while it is in it."""
    if not layers.windowed:
        return 0.0
    heads = heads_on_gpu(layers.window_heads or layers.kv_heads, tensor_parallel)
    keys = layers.window_head_size or layers.head_size
    values = keys + (layers.window_value_size or layers.value_size or keys)
    return layers.windowed * grouped_layer_bytes(heads, values, KV_DTYPES[dtype])


@dataclass(frozen=True)
class KvCost:
    """What a request takes of the cache of one GPU, in bytes. per_token: of each token; in_window: of each token of the
    last `window` on top; state: whatever its length; ends: tokens from which on it takes no more."""

    per_token: float
    in_window: float = 0.0
    window: float = 0.0
    state: float = 0.0
    ends: float = math.inf

    def bytes(self, tokens: float) -> float:
        """Of a request of so many tokens of context."""
        return self.per_token * min(tokens, self.ends) + self.in_window * min(tokens, self.window) + self.state

    def longest(self, room: float) -> float:
        """Tokens of the longest request that fits so many bytes; infinite where it stops growing before."""
        left = room - self.state
        within = left / (self.per_token + self.in_window)
        tokens = within if within <= self.window else (left - self.in_window * self.window) / self.per_token
        return math.inf if tokens >= self.ends else tokens


def kv_cost(layers: KvLayers, dtype: str, tensor_parallel: int = 1, pipeline_parallel: int = 1) -> KvCost:
    """What a request takes on one GPU of a layout. Raises KeyError for a dtype that the kind of cache does not know."""
    per_token = kv_bytes_per_token(layers, dtype, tensor_parallel) / pipeline_parallel
    state = layers.state / tensor_parallel / pipeline_parallel
    if not layers.growing:
        return KvCost(per_token, state=state, ends=layers.window)
    in_window = 0.0 if layers.latent else kv_bytes_in_window(layers, dtype, tensor_parallel) / pipeline_parallel
    return KvCost(per_token, in_window, layers.window, state)


GIB = 2**30
WEIGHT_DTYPES: Mapping[str, float] = {
    "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.52, "mxfp4": 0.531, "nvfp4": 0.5625,
}  # fmt: skip
"""Bytes per weight, scales included (int4 in groups of 128)."""
ALIGNMENT = 1.05
"""Weights in memory over weights counted, with an allowance: alignment and padding take 3 to 8 % (field guide, section
2)."""
LOADED = 1.0
"""The same as vLLM logs it of 16-bit weights: 14.96 GiB of 8.03e9 parameters, 7.48 on each of two GPUs (pull
request 10511), 3.74 on each of four."""
MEMORY_SHARE = 0.92
"""vLLM's default --gpu-memory-utilization since 0.20 (0.90 before)."""
KV_TARGET = 0.9
"""Share of the KV cache to plan for (field guide, section 9.3)."""
ACTIVATION_FACTORS: Mapping[int, float] = {1: 10.0, 2: 6.0, 4: 5.0, 8: 5.0}
"""Live activations per token in values of the hidden size, by tensor parallelism (AIConfigurator)."""
NCCL_BYTES = 0.37 * GIB
"""Communication buffers of a GPU: 0.34 to 0.39 GiB (AIConfigurator)."""
REST_BYTES = 2.5 * GIB
"""CUDA context, graphs, fragments. AIConfigurator's 3.5 GiB is a safety figure; 1 GiB less is expected, which brings
the sum with activations and logits to 4 GiB for a 70B on H100 and 3 GiB for an 8B on L40S."""
NON_KV_SPREAD = 1.0 * GIB
"""Published figures of the memory beside weights and KV cache differ by so much (4 to 6 GiB in all on large GPUs)."""


def weight_bytes(parameters: float, unquantised: float, bytes_per_weight: float) -> float:
    """Bytes of all weights of a model: those of embeddings and head stay at 2 bytes where the rest is quantised."""
    return (parameters - unquantised) * bytes_per_weight + unquantised * max(2.0, bytes_per_weight)


def weight_bytes_per_gpu(
    weights: float, *, tensor_parallel: int = 1, pipeline_parallel: int = 1, alignment: float = ALIGNMENT
) -> float:
    """Bytes of weights on one GPU of so many that share them: weights x 1.05 / (TP x PP)."""
    return weights * alignment / (tensor_parallel * pipeline_parallel)


def activation_bytes(batched_tokens: int, hidden: int, tensor_parallel: int = 1) -> float:
    """Bytes of live activations of one GPU at --max-num-batched-tokens: 2 x T x H x c (AIConfigurator)."""
    factor = ACTIVATION_FACTORS[max(size for size in ACTIVATION_FACTORS if size <= max(1, tensor_parallel))]
    return 2.0 * batched_tokens * hidden * factor


def logit_bytes(sequences: int, vocabulary: int) -> float:
    """Bytes of the logits of --max-num-seqs requests in 32 bits."""
    return 4.0 * sequences * vocabulary


def lora_bytes(adapters: int, rank: int, layers: int, widths: Sequence[tuple[int, int]], tensor_parallel: int) -> float:
    """Bytes of adapter slots on one GPU: vLLM reserves max_loras x max_lora_rank at start. widths: (in, out) of each
    adapted matrix of a layer."""
    return adapters * layers * sum(a + b for a, b in widths) * rank * 2.0 / tensor_parallel


def kv_tokens(gpu_bytes: float, weights: float, other: float, bytes_per_token: float, share: float) -> int:
    """KV tokens that fit one GPU, and so its group: floor((u x memory - weights - other) / bytes per token). Negative
    where the weights alone do not fit. Once an engine has started, what it prints replaces this."""
    return math.floor((share * gpu_bytes - weights - other) / bytes_per_token)


def least_gpus(tokens_of: Callable[[int], int], needed: float, sizes: Sequence[int]) -> int | None:
    """The smallest group (of `sizes`, rising) whose KV tokens reach those needed; None where none does."""
    return next((gpus for gpus in sizes if tokens_of(gpus) >= needed), None)


def safe_concurrency(capacity_tokens: float, live_context_tokens: float) -> float:
    """Running requests that fit 90 % of the KV cache at a live context. Requests."""
    return KV_TARGET * capacity_tokens / live_context_tokens
