"""The shape of a model, as its config.json gives it; its parameters are counted from its layers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inferdoc.capacity.memory import KvLayers
from inferdoc.capacity.model_config import CHOSEN, EXPERTS, Layer, ModelConfig, plan_layers
from inferdoc.capacity.model_weights import (
    delta_shape,
    feed_width,
    kimi_shape,
    mamba1_shape,
    mamba_shape,
    mixer_shape,
    model_matrices,
)
from inferdoc.capacity.quantisation import CheckpointBytes, checkpoint_bytes
from inferdoc.errors import InferdocError

LINEAR = ("delta", "kimi", "lightning", "mamba", "mamba1", "parallel", "conv")
"""Mixers whose state has one size for every request."""
STATE_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}
MOST_PREDICTION = 8
"""Layers beyond those of the config that are heads of prediction."""
FAR_OFF = 0.25
"""Share by which the bytes of an index of weights may differ from those that the layers take, its prediction heads
included: more is another model (own choice)."""


@dataclass(frozen=True)
class ModelShape:
    """parameters, active (per token), routed (in experts that tokens choose), unquantised (embeddings, head): counts;
    blocks: mixers and feed-forwards of all layers, two in most; expert_layers: those with experts;
    attention_width: query heads x head size; mlp: width of the dense layers, 0 with experts; dtype: of the weights as
    published, "" if unknown; max_len: tokens of the longest context, 0 if unknown;
    counted: from the layers, not by its makers; published: bytes of the checkpoint, None where the config gives no
    dtype; exact: these bytes are those of an index of weights; prediction: heads for more than one token, which are not
    in any of these."""

    name: str
    parameters: float
    active: float
    routed: float
    unquantised: float
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    attention_width: int
    kv: KvLayers
    mlp: int = 0
    experts: int = 0
    chosen: int = 0
    max_len: int = 0
    dtype: str = ""
    counted: bool = True
    published: CheckpointBytes | None = None
    exact: bool = False
    prediction: bool = False
    blocks: int = 0
    expert_layers: int = 0

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
        published, scale = self.published, parameters / self.parameters
        if published is not None:
            published = published._replace(dense=published.dense * scale, routed=published.routed * scale)
        return replace(self, parameters=parameters, active=active, counted=False, published=published)


def shape_of(
    name: str,
    keys: Mapping[str, Any],
    quantisation: Mapping[str, Any] | None = None,
    weights: Mapping[str, Any] | None = None,
) -> ModelShape:
    """The shape that a config.json describes. quantisation, weights: the hf_quant_config.json and the
    model.safetensors.index.json beside it. Raises InferdocError, which names the key, for one that is missing, that
    cannot be, or that may change memory or work and is not known."""
    config = ModelConfig(name, keys)
    plan = plan_layers(config)
    hidden, vocabulary = config.positive("hidden_size"), config.positive("vocab_size")
    heads = config.positive("num_attention_heads")
    if heads > hidden:
        config.refuse("num_attention_heads", f"{heads} heads of a hidden size of {hidden}")
    for key, usual in (("block_dim", hidden), ("conv_dim", hidden), ("conv_dim_out", hidden), ("num_heads", heads)):
        if config.number(key, usual) != usual:
            config.refuse(key, f"expected {usual}")
    kv = _kv_layers(config, plan)
    experts, chosen = config.first(EXPERTS), config.first(CHOSEN)
    if zero := config.number("zero_expert_num", 0):  # a token that chooses one of these computes nothing for it
        chosen = round(chosen * experts / (experts + zero))
    if experts and not 0 < chosen <= experts:
        raise InferdocError(
            f"{name}: {experts} experts, of which a token chooses {chosen}: num_experts_per_tok is wrong"
        )
    matrices = model_matrices(config, plan)
    parameters = float(sum(each.parameters for each in matrices))
    routed = float(sum(each.parameters for each in matrices if each.routed))
    outside = float(sum(each.parameters for each in matrices if "." not in each.name))
    published, exact = checkpoint_bytes(config, matrices, quantisation), False
    if weights is not None and published is not None:
        layers = len(plan) // 2 if config.kind == "longcat_flash" else len(plan)
        published, exact = _as_indexed(config, published, weights, layers), True
    return ModelShape(
        name,
        parameters,
        parameters - routed * (1.0 - chosen / experts) if experts else parameters,
        routed,
        outside,
        len(plan),
        hidden,
        heads,
        vocabulary,
        heads * (config.number("v_head_dim", 128) if kv.latent else kv.head_size or kv.window_head_size),
        kv,
        0 if experts else feed_width(config),
        experts if routed else 0,
        chosen if routed else 0,
        config.number("max_position_embeddings", 0),
        "" if published is None else published.dtype,
        published=published,
        exact=exact,
        prediction=any(config.keys.get(key) for key in ("num_nextn_predict_layers", "num_mtp_modules", "use_mtp")),
        blocks=sum((layer.mixer != "none") + (layer.feed != "none") for layer in plan),
        expert_layers=sum(layer.feed in ("experts", "both") for layer in plan),
    )


def _kv_layers(config: ModelConfig, plan: Sequence[Layer]) -> KvLayers:
    full = sum(layer.mixer in ("full", "parallel") for layer in plan)
    windowed = sum(layer.mixer == "window" for layer in plan)
    linear = sum(layer.mixer in LINEAR for layer in plan)
    if not full and not windowed:
        config.refuse("layer_types", "no layer caches tokens")
    state = sum(_state_bytes(config, layer.mixer) for layer in plan if layer.mixer in LINEAR)
    if config.number("num_kv_shared_layers", 0):
        config.refuse("num_kv_shared_layers", "layers that share one cache are not known")
    if latent := config.number("kv_lora_rank", 0):
        types = config.per_layer("indexer_types", len(plan))
        sparse = config.number("index_topk", 0) > 0
        indexed = full if types is None else sum(each == "full" for each in types)
        return KvLayers(
            full,
            latent=latent + config.number("qk_rope_head_dim"),
            sparse=sparse,
            linear=linear,
            index=config.positive("index_head_dim") if sparse else 0,
            indexed=indexed if sparse else 0,
            state=state,
        )
    grows, slides = mixer_shape(config, "full"), mixer_shape(config, "window")
    return KvLayers(
        full,
        grows.kv_heads,
        grows.head,
        windowed=windowed,
        window=config.first(("sliding_window", "attention_chunk_size")) if windowed else 0,
        linear=linear,
        value_size=grows.value,
        window_heads=slides.kv_heads,
        window_head_size=slides.head,
        window_value_size=slides.value,
        state=state,
    )


def _state_bytes(config: ModelConfig, mixer: str) -> float:
    """Bytes of a request in one linear layer, on all GPUs: what the convolution keeps in 16 bits, and the state."""
    kind = config.word("mamba_ssm_cache_dtype") or config.word("mamba_ssm_dtype") or "bfloat16"
    if kind not in STATE_BYTES:
        config.refuse("mamba_ssm_cache_dtype", f'"{kind}" is not known')
    if mixer == "delta":
        keys, values, heads = delta_shape(config)
        kept = config.positive("linear_conv_kernel_dim", 4) - 1
        return (
            kept * (2 * keys + values) * 2.0
            + values * (keys // config.positive("linear_num_key_heads")) * STATE_BYTES[kind]
        )
    if mixer == "conv":
        return (config.positive("conv_L_cache", 3) - 1) * config.positive("hidden_size") * 2.0
    if mixer == "kimi":
        heads, head, kernel = kimi_shape(config)
        return (kernel - 1) * 3 * heads * head * 2.0 + heads * head**2 * 4.0
    if mixer == "mamba1":
        inner, size, _ = mamba1_shape(config)
        return inner * ((config.positive("mamba_d_conv") - 1) * 2.0 + size * STATE_BYTES[kind])
    if mixer in ("mamba", "parallel"):
        heads, head, groups, state = mamba_shape(config)
        kept = config.first(("conv_kernel", "mamba_d_conv"), 4) - 1
        return kept * (heads * head + 2 * groups) * 2.0 + heads * head * state * STATE_BYTES[kind]
    shape = mixer_shape(config, "full")
    return shape.heads * shape.head**2 * 4.0


def _as_indexed(
    config: ModelConfig, counted: CheckpointBytes, index: Mapping[str, Any], layers: int
) -> CheckpointBytes:
    """The bytes that the index of a checkpoint gives, shared out as counted; prediction heads, which only speculation
    loads, have a layer's share."""
    names, metadata = index.get("weight_map"), index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if not isinstance(names, Mapping) or isinstance(total, bool) or not isinstance(total, int) or total <= 0:
        config.refuse("model.safetensors.index.json", "expected metadata.total_size and weight_map")
        raise AssertionError
    found = {int(part) for each in names for part in re.findall(r"(?:^|\.)layers\.(\d{1,5})\.", str(each))}
    beyond = len({layer for layer in found if layer >= layers})
    if found and (len(found) < layers or beyond > MOST_PREDICTION):
        raise InferdocError(
            f"{config.name}: model.safetensors.index.json has {len(found)} layers, config.json {layers}: weights of "
            "another model"
        )
    whole = counted.dense + counted.routed
    scale = total / (whole * (1.0 + beyond / layers))
    if abs(scale - 1.0) > FAR_OFF:
        raise InferdocError(
            f"{config.name}: model.safetensors.index.json has {total / 1e9:,.1f} GB, the layers of config.json take "
            f"{whole / 1e9:,.1f} GB: weights of another model, or in another dtype"
        )
    return counted._replace(dense=counted.dense * scale, routed=counted.routed * scale)
