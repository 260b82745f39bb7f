"""The kind of each layer of a model: what it caches (mixer) and what it multiplies with after that (feed-forward)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

from inferdoc.capacity.model_config import MOST_LAYERS, ModelConfig

Kind = TypeVar("Kind")
Mixer = Literal["full", "window", "delta", "kimi", "lightning", "mamba", "mamba1", "parallel", "none"]
"""full, window: attention over all or over the last tokens; delta: gated delta rule (Qwen3-Next); lightning: linear
attention of MiniMax; kimi: Kimi Delta Attention; mamba, mamba1: Mamba 2 and 1; parallel: full attention beside Mamba 2
(Falcon-H1)."""
Feed = Literal["dense", "experts", "both", "none"]

MIXERS: dict[str, Mixer] = {
    "full_attention": "full", "attention": "full", "global": "full", "deepseek_sparse_attention": "full",
    "indexed_attention": "full",
    "sliding_attention": "window", "chunked_attention": "window", "local": "window",
    "linear_attention": "delta", "mamba": "mamba", "mamba2": "mamba",
}  # fmt: skip
"""Entry of layer_types -> mixer."""
WHOLE_LAYER: dict[str, tuple[Mixer, Feed]] = {
    "M": ("mamba", "none"), "*": ("full", "none"), "-": ("none", "dense"), "E": ("none", "experts"),
    "mamba": ("mamba", "none"), "attention": ("full", "none"), "mlp": ("none", "dense"), "moe": ("none", "experts"),
}  # fmt: skip
"""Entry of hybrid_override_pattern or layers_block_type (Nemotron-H): each layer has the one or the other."""
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
CHOSEN = (
    "num_experts_per_tok", "experts_per_token", "top_k_experts", "num_experts_per_token", "moe_topk",
    "moe_top_k", "moe_k",
)  # fmt: skip


class Layer(NamedTuple):
    """One layer of a model."""

    mixer: Mixer
    feed: Feed


def plan_layers(config: ModelConfig) -> list[Layer]:
    """The layers in their order. Raises InferdocError, which names the key, for a pattern that is not known."""
    for key in ("hybrid_override_pattern", "layers_block_type"):
        if key in config.keys:
            return _whole_layers(config, key)
    layers = config.positive("num_hidden_layers", most=MOST_LAYERS)
    return [Layer(*pair) for pair in zip(_mixers(config, layers), _feeds(config, layers), strict=True)]


def _whole_layers(config: ModelConfig, key: str) -> list[Layer]:
    pattern = config.keys[key]
    layers = config.number("num_hidden_layers", len(pattern) if isinstance(pattern, list | str) else 0, MOST_LAYERS)
    entries = config.per_layer(key, layers) or []
    return [Layer(*_known(config, key, entry, WHOLE_LAYER)) for entry in entries]


def _known(config: ModelConfig, key: str, entry: object, kinds: dict[str, Kind]) -> Kind:
    found = kinds.get(entry) if isinstance(entry, str) else None
    if found is None:
        config.refuse(key, f"{str(entry)[:40]!r} is a kind of layer that is not known")
        raise AssertionError
    return found


def _mixers(config: ModelConfig, layers: int) -> Sequence[Mixer]:
    if indices := config.keys.get("attn_layer_indices"):
        return [
            "full" if index in _whole(config, "attn_layer_indices", indices) else "mamba" for index in range(layers)
        ]
    if config.kind == "falcon_h1":
        return ["parallel"] * layers
    if period := config.number("attn_layer_period", 0):
        offset = config.number("attn_layer_offset")
        return ["full" if index % period == offset else "mamba1" for index in range(layers)]
    if (listed := config.keys.get("linear_attn_config.full_attn_layers")) is not None:
        attends = _whole(config, "linear_attn_config.full_attn_layers", listed)
        return ["full" if index + 1 in attends else "kimi" for index in range(layers)]
    if config.kind == "bamba":
        config.refuse("attn_layer_indices", "expected the layers with attention")
    types = config.per_layer("layer_types", layers)
    if types is not None:
        linear: Mixer = "lightning" if config.kind.startswith("minimax") else "delta"
        mixers = [_known(config, "layer_types", kind, {**MIXERS, "linear_attention": linear}) for kind in types]
        window = config.first(("sliding_window", "attention_chunk_size"))
        return ["full" if mixer == "window" and not window else mixer for mixer in mixers]
    if (kinds := config.per_layer("attn_type_list", layers)) is not None:
        return ["full" if _bit(config, "attn_type_list", kind) else "lightning" for kind in kinds]
    if interval := config.number("full_attention_interval", 0):
        return ["full" if (index + 1) % interval == 0 else "delta" for index in range(layers)]
    if (kinds := config.per_layer("hybrid_layer_pattern", layers)) is not None:
        return ["window" if _bit(config, "hybrid_layer_pattern", kind) else "full" for kind in kinds]
    return _windows(config, layers)


def _windows(config: ModelConfig, layers: int) -> Sequence[Mixer]:
    """Layers of a model without linear attention that does not list their types."""
    if config.number("attention_chunk_size", 0) and config.kind == "llama4_text":
        listed = config.keys.get("no_rope_layers")
        # 1 stands for rotary positions, which go with attention in chunks.
        if listed:
            rotary = [_bit(config, "no_rope_layers", each) for each in config.per_layer("no_rope_layers", layers) or []]
            return ["window" if each else "full" for each in rotary]
        every = config.positive("no_rope_layer_interval", 4)
        return ["full" if (index + 1) % every == 0 else "window" for index in range(layers)]
    if not config.number("sliding_window", 0) or not config.flag("use_sliding_window", True):
        return ["full"] * layers
    pattern = config.keys.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        return ["window" if pattern[index % len(pattern)] == "L" else "full" for index in range(layers)]
    if pattern is not None:
        every = config.positive("sliding_window_pattern")
        return ["full" if (index + 1) % every == 0 else "window" for index in range(layers)]
    first = config.number("max_window_layers", 0) if config.kind.startswith("qwen") else 0
    return ["window" if index >= first else "full" for index in range(layers)]


def _feeds(config: ModelConfig, layers: int) -> Sequence[Feed]:
    if not config.first(EXPERTS):
        return ["dense"] * layers
    if config.flag("enable_moe_block"):
        return ["both"] * layers
    if (kinds := config.per_layer("mlp_layer_types", layers)) is not None:
        return [_known(config, "mlp_layer_types", kind, {"dense": "dense", "sparse": "experts"}) for kind in kinds]
    first, dense = config.number("first_k_dense_replace", 0), set[int]()
    sparse = set(range(first, layers))
    if listed := config.keys.get("moe_layers"):
        sparse &= _whole(config, "moe_layers", listed)
    every = config.keys.get("moe_layer_freq")
    if isinstance(every, list):
        flags = config.per_layer("moe_layer_freq", layers) or []
        sparse = {index for index, flag in enumerate(flags) if _bit(config, "moe_layer_freq", flag)}
    elif every is not None:
        sparse = {index for index in sparse if index % config.positive("moe_layer_freq") == 0}
    for key in ("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval"):
        step = config.positive(key, 1)
        sparse = {index for index in sparse if (index + 1) % step == 0}
    if period := config.number("expert_layer_period", 0):
        sparse = {index for index in sparse if index % period == config.number("expert_layer_offset")}
    if "moe_layer_start_index" in config.keys:
        last = config.keys.get("moe_layer_end_index", layers - 1)
        last = layers - 1 if last == -1 else config.number("moe_layer_end_index", layers - 1)
        sparse &= set(range(config.number("moe_layer_start_index"), last + 1))
    if listed := config.keys.get("mlp_only_layers"):
        dense = _whole(config, "mlp_only_layers", listed)
    return ["experts" if index in sparse - dense else "dense" for index in range(layers)]


def _whole(config: ModelConfig, key: str, listed: object) -> set[int]:
    if not isinstance(listed, list) or not all(isinstance(each, int) for each in listed):
        config.refuse(key, f"expected a list of layers, got {str(listed)[:40]!r}")
    return set(listed)  # type: ignore[call-overload,no-any-return]


def _bit(config: ModelConfig, key: str, entry: object) -> bool:
    if entry not in (0, 1):
        config.refuse(key, f"{str(entry)[:40]!r} is a kind of layer that is not known")
    return bool(entry)
