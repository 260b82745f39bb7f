"""Bytes of KV cache that a token, and a request, take on one GPU, by kind of attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KV_DTYPES: Mapping[str, float] = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 0.5625}
"""Bytes per cached value. nvfp4: half a byte and one scale byte per 16 values (vLLM: d/2 + d/16 bytes a head)."""
HEAD_SCALE_BYTES = 4.0
"""Of the *_per_token_head dtypes: a float per head for keys and one for values (vLLM)."""
SPARSE_LAYER_BYTES: Mapping[str, float] = {"fp8": 656.0, "nvfp4": 352.0}
"""Bytes per token and layer of vLLM's packed sparse-MLA caches, fp8_ds_mla and nvfp4_ds_mla, index included."""


@dataclass(frozen=True)
class KvLayers:
    """The layers of a model by what they cache. growing: layers whose cache grows with every token, of kv_heads heads
    of head_size values; latent: values per token and layer of multi-head latent attention, 0 for keys and values by
    head; sparse: latent with a sparse index; windowed: layers that keep the last `window` tokens alone; linear: layers
    with a state of fixed size."""

    growing: int
    kv_heads: int = 0
    head_size: int = 0
    latent: int = 0
    sparse: bool = False
    windowed: int = 0
    window: int = 0
    linear: int = 0

    @property
    def attention(self) -> str:
        """Its kind in words."""
        if self.latent:
            return "sparse MLA" if self.sparse else "MLA"
        if self.linear:
            return "hybrid with linear layers"
        return "hybrid with sliding window" if self.windowed else "GQA or MHA"


def heads_on_gpu(kv_heads: int, tensor_parallel: int) -> int:
    """KV heads that one GPU of a tensor-parallel group holds: beyond one a GPU they are copied (vLLM)."""
    return max(1, -(-kv_heads // tensor_parallel))


def grouped_layer_bytes(heads: int, head_size: int, value_bytes: float, scaled_by_head: bool = False) -> float:
    """Bytes per token and layer of MHA or GQA: keys and values of so many KV heads (never query heads).

    scaled_by_head: the *_per_token_head dtypes, which keep a scale with every head."""
    return 2.0 * heads * (head_size * value_bytes + (HEAD_SCALE_BYTES if scaled_by_head else 0.0))


def kv_bytes_per_token(layers: KvLayers, dtype: str, tensor_parallel: int = 1, context_parallel: int = 1) -> float:
    """Bytes that a token of context adds on one GPU, by the layers that grow. MLA keeps one latent without a keys and
    values factor, and copies it over a tensor-parallel group; decode context parallelism divides it.

    Raises KeyError for a dtype that the kind of cache does not know."""
    if layers.latent:
        of_layer = SPARSE_LAYER_BYTES[dtype] if layers.sparse else layers.latent * KV_DTYPES[dtype]
    else:
        heads = heads_on_gpu(layers.kv_heads, tensor_parallel)
        of_layer = grouped_layer_bytes(heads, layers.head_size, KV_DTYPES[dtype])
    return layers.growing * of_layer / context_parallel


def kv_bytes_fixed(layers: KvLayers, dtype: str, tensor_parallel: int = 1) -> float:
    """Bytes that a request takes on one GPU however long it gets: the windows of sliding-window layers, once full. The
    state of linear layers is not in it: config.json does not give its type."""
    heads = heads_on_gpu(layers.kv_heads, tensor_parallel)
    return layers.windowed * layers.window * grouped_layer_bytes(heads, layers.head_size, KV_DTYPES[dtype])
