"""The shape of a model, as its config.json gives it; its parameters are counted from its layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from inferdoc.capacity.kv_bytes import KvLayers
from inferdoc.errors import InferdocError

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
CHOSEN = ("num_experts_per_tok", "experts_per_token")
LINEAR, WINDOWED = ("linear_attention", "mamba", "conv"), ("sliding_attention", "chunked_attention")
QUANTISED = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "awq": "int4", "gptq": "int4"}
"""quant_method of a config.json -> the dtype of the weights."""


@dataclass(frozen=True)
class ModelShape:
    """parameters, active (per token), routed (in experts that tokens choose), unquantised (embeddings, head): counts;
    attention_width: query heads x head size; mlp: width of the dense layers, 0 with experts; dtype: of the weights as
    published, "" where the config does not tell; max_len: tokens of the longest context, 0 where it does not tell;
    counted: from the layers, not by its makers."""

    name: str
    parameters: float
    active: float
    routed: float
    unquantised: float
    layers: int
    hidden: int
    vocabulary: int
    attention_width: int
    kv: KvLayers
    mlp: int = 0
    experts: int = 0
    chosen: int = 0
    max_len: int = 0
    dtype: str = ""
    counted: bool = True

    @property
    def adapted(self) -> list[tuple[int, int]]:
        """(in, out) of the matrices of a layer that adapters of all linear layers change; of the attention alone where
        there are experts."""
        keys = self.kv.kv_heads * self.kv.head_size
        of_attention = [(self.hidden, self.attention_width), (self.hidden, keys), (self.hidden, keys)]
        of_attention.append((self.attention_width, self.hidden))
        return of_attention + [(self.hidden, self.mlp), (self.hidden, self.mlp), (self.mlp, self.hidden)] * bool(
            self.mlp
        )

    def as_published(self, parameters: float | None, active: float | None) -> ModelShape:
        """The same with the counts of its makers; those of a dense model are all active."""
        if parameters is None:
            return self
        if active is None:
            active = parameters - self.routed * (1.0 - self.chosen / self.experts) if self.experts else parameters
        return replace(self, parameters=parameters, active=active, counted=False)


class _Config:
    """The keys of one config.json; those of the language model where it holds several."""

    def __init__(self, name: str, keys: Mapping[str, Any]) -> None:
        nested = keys.get("text_config")
        self.name = name
        self.top = keys
        self.keys: Mapping[str, Any] = {**keys, **nested} if isinstance(nested, Mapping) else keys

    def number(self, key: str, default: int | None = None) -> int:
        value = self.keys.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            raise InferdocError(
                f"{self.name}: no {key}; it is needed to size a model: give the model's own config.json"
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InferdocError(f"{self.name}: {key}: expected a whole number of 0 or more, got {value!r}")
        return value

    def positive(self, key: str) -> int:
        value = self.number(key)
        if value == 0:
            raise InferdocError(f"{self.name}: {key}: expected 1 or more, got 0")
        return value

    def first(self, keys: tuple[str, ...]) -> int:
        return next((self.number(key) for key in keys if self.keys.get(key) is not None), 0)


def shape_of(name: str, config: Mapping[str, Any]) -> ModelShape:
    """The shape that a config.json describes. Raises InferdocError for a key that is missing or no number."""
    keys = _Config(name, config)
    layers, hidden = keys.positive("num_hidden_layers"), keys.positive("hidden_size")
    vocabulary, heads = keys.positive("vocab_size"), keys.positive("num_attention_heads")
    kv = _kv_layers(keys, layers, hidden, heads)
    width = heads * (keys.number("v_head_dim", 128) if kv.latent else kv.head_size)
    experts, chosen = keys.first(EXPERTS), keys.first(CHOSEN)
    if experts and not 0 < chosen <= experts:
        raise InferdocError(
            f"{name}: {experts} experts, of which a token chooses {chosen}: num_experts_per_tok is wrong"
        )
    sparse_layers = layers - keys.number("first_k_dense_replace", 0) if experts else 0
    of_expert = 3 * hidden * keys.number("moe_intermediate_size", keys.number("intermediate_size", 0)) if experts else 0
    routed = float(sparse_layers * experts * of_expert)
    shared = sparse_layers * (keys.number("n_shared_experts", 0) * of_expert + hidden * experts)
    dense_layers = layers - sparse_layers
    dense = dense_layers * 3 * hidden * (keys.positive("intermediate_size") if dense_layers else 0)
    tied = bool(keys.keys.get("tie_word_embeddings", False))
    embeddings = float(vocabulary * hidden * (1 if tied else 2))
    parameters = routed + shared + dense + layers * _attention_parameters(keys, kv, hidden, heads) + embeddings
    active = parameters - routed * (1.0 - chosen / experts) if experts else parameters
    return ModelShape(
        name,
        parameters,
        active,
        routed,
        embeddings,
        layers,
        hidden,
        vocabulary,
        width,
        kv,
        0 if experts else keys.number("intermediate_size", 0),
        experts,
        chosen,
        keys.number("max_position_embeddings", 0),
        _dtype(keys),
    )


def _kv_layers(keys: _Config, layers: int, hidden: int, heads: int) -> KvLayers:
    latent = keys.number("kv_lora_rank", 0)
    if latent:
        sparse = keys.number("index_topk", 0) > 0
        return KvLayers(layers, latent=latent + keys.number("qk_rope_head_dim"), sparse=sparse)
    kv_heads = keys.number("num_key_value_heads", heads)
    head_size = keys.number("head_dim", hidden // heads)
    if kv_heads < 1 or head_size < 1:
        raise InferdocError(f"{keys.name}: {kv_heads} KV heads of {head_size} values: both must be 1 or more")
    types = keys.keys.get("layer_types")
    window = keys.number("sliding_window", 0)
    linear = windowed = 0
    if isinstance(types, list) and len(types) == layers:
        linear = sum(kind in LINEAR for kind in types)
        windowed = sum(kind in WINDOWED for kind in types) if window else 0
    elif interval := keys.number("full_attention_interval", 0):
        linear = layers - layers // interval
    elif window and keys.keys.get("use_sliding_window", True):
        windowed = layers
    full = layers - linear - windowed
    return KvLayers(full, kv_heads, head_size, windowed=windowed, window=window, linear=linear)


def _attention_parameters(keys: _Config, kv: KvLayers, hidden: int, heads: int) -> int:
    """Of one layer; linear layers are counted like those with attention."""
    if not kv.latent:
        return hidden * kv.head_size * (2 * heads + 2 * kv.kv_heads)
    nope, rope, value = (keys.number(key) for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    rank, low = keys.number("kv_lora_rank"), keys.number("q_lora_rank", 0)
    query = hidden * low + low * heads * (nope + rope) if low else hidden * heads * (nope + rope)
    return query + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden


def _dtype(keys: _Config) -> str:
    quantised = keys.top.get("quantization_config") or keys.keys.get("quantization_config")
    if isinstance(quantised, Mapping):
        return QUANTISED.get(str(quantised.get("quant_method")), "")
    plain = str(keys.keys.get("torch_dtype") or keys.keys.get("dtype") or "")
    return {"bfloat16": "bf16", "float16": "fp16"}.get(plain, "")
