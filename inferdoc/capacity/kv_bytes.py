"""Bytes of KV cache that a token, and a request, take on one GPU, by kind of attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
