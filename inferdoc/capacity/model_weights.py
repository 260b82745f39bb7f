"""The weight matrices of a model by name, counted from its layers; norms, biases and scales are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inferdoc.capacity.model_config import EXPERTS, Layer, Mixer, ModelConfig

SHARED_WIDTH = (
    "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size",
    "share_expert_dim",
)  # fmt: skip
SHARED_EXPERTS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
VISION_LAYERS = ("depth", "num_hidden_layers", "vt_num_hidden_layers")
VISION_WIDTH = ("embed_dim", "hidden_size", "vt_hidden_size")  # Qwen2-VL: hidden_size is that of the language model
VISION_MLP = ("intermediate_size", "vt_intermediate_size")
GATED_VISION = ("pixtral", "qwen2_5_vl", "glm4v", "gemma4_vision", "clip_gated")
"""model_type of vision towers whose feed-forward part has a gate."""


class WeightMatrix(NamedTuple):
    """name: as in the checkpoint, from "layers." on; parameters: of all that the name stands for; routed: whether only
    some tokens use it; quantised: whether a quantisation method reaches it at all."""

    name: str
    parameters: int
    routed: bool = False
    quantised: bool = True


class MixerShape(NamedTuple):
    """Attention heads of one kind of layer. value: size of a value head."""

    heads: int
    kv_heads: int
    head: int
    value: int


def mixer_shape(config: ModelConfig, mixer: Mixer) -> MixerShape:
    """Of layers with full attention, or of those with a window where they differ."""
    heads, hidden = config.positive("num_attention_heads"), config.positive("hidden_size")
    head = config.first(("head_dim", "attention_head_dim"), hidden // heads)
    kv_heads = config.number("num_key_value_heads", heads)
    value = config.number("v_head_dim", head)
    if mixer == "window":
        heads, kv_heads = (
            config.number("swa_num_attention_heads", heads),
            config.number("swa_num_key_value_heads", kv_heads),
        )
        head, value = config.number("swa_head_dim", head), config.number("swa_v_head_dim", value)
    elif "global_head_dim" in config.keys:
        head = value = config.positive("global_head_dim")
        kv_heads = config.number("num_global_key_value_heads", kv_heads)
    if min(heads, kv_heads, head, value) < 1:
        config.refuse("num_key_value_heads", f"{kv_heads} KV heads of {head} values; both must be 1 or more")
    return MixerShape(heads, kv_heads, head, value)


def feed_width(config: ModelConfig) -> int:
    """Width of the dense feed-forward layers; 0 where the config names none."""
    width = config.first(("intermediate_size_mlp", "dense_intermediate_size", "intermediate_size"))
    if config.kind == "lfm2" and config.flag("block_auto_adjust_ff_dim", True):  # two thirds, in whole blocks
        if config.keys.get("block_ffn_dim_multiplier", 1) != 1:
            config.refuse("block_ffn_dim_multiplier", "expected 1")
        block = config.positive("block_multiple_of", 256)
        width = -(-(2 * width // 3) // block) * block
    return width


def model_matrices(config: ModelConfig, plan: Sequence[Layer]) -> list[WeightMatrix]:
    """All of them: embeddings, layers, output layer and vision tower. Raises InferdocError."""
    hidden, vocabulary = config.positive("hidden_size"), config.positive("vocab_size")
    found = [WeightMatrix("embed_tokens", vocabulary * hidden, quantised=False)]
    if config.has_head:
        found.append(WeightMatrix("lm_head", vocabulary * hidden))
    indexers = config.per_layer("indexer_types", len(plan))
    for index, layer in enumerate(plan):
        shared = indexers is not None and indexers[index] == "shared"
        of_layer = [each for each in _of_layer(config, layer) if not (shared and "indexer" in each.name)]
        found += [each._replace(name=f"layers.{index}.{each.name}") for each in of_layer]
    vision = config.nested("vision_config")
    if vision:
        found.append(WeightMatrix("vision_tower", _vision(config, vision, hidden), quantised=False))
    if config.keys.get("audio_config"):
        config.refuse("audio_config", "its encoder is not known")
    return found


def _of_layer(config: ModelConfig, layer: Layer) -> Iterator[WeightMatrix]:
    if layer.mixer in ("full", "window", "parallel"):
        yield from _latent(config) if config.number("kv_lora_rank", 0) else _attention(config, layer.mixer)
    elif layer.mixer == "delta":
        yield from _delta(config)
    elif layer.mixer == "lightning":
        yield from _lightning(config)
    elif layer.mixer == "kimi":
        yield from _kimi(config)
    elif layer.mixer == "conv":
        yield WeightMatrix("conv.in_proj", 3 * config.positive("hidden_size") ** 2)
        yield WeightMatrix("conv.out_proj", config.positive("hidden_size") ** 2)
    elif layer.mixer == "mamba1":
        yield from _mamba1(config)
    if layer.mixer in ("mamba", "parallel"):
        yield from _mamba(config)
    if layer.feed in ("dense", "both"):
        yield from _mlp(config, "mlp", feed_width(config))
    if layer.feed in ("experts", "both"):
        yield from _experts(config)


def _attention(config: ModelConfig, mixer: Mixer) -> Iterator[WeightMatrix]:
    hidden, shape = config.positive("hidden_size"), mixer_shape(config, mixer)
    gate = 2 if config.flag("attn_output_gate") else 1
    if low := config.number("share_q_dim", 0):
        yield WeightMatrix("self_attn.q_proj", hidden * low)
        yield WeightMatrix("self_attn.wq", low * shape.heads * shape.head)
    else:
        yield WeightMatrix("self_attn.q_proj", hidden * shape.heads * shape.head * gate)
    yield WeightMatrix("self_attn.k_proj", hidden * shape.kv_heads * shape.head)
    if not (config.flag("attention_k_eq_v") and mixer == "full"):
        yield WeightMatrix("self_attn.v_proj", hidden * shape.kv_heads * shape.value)
    yield WeightMatrix("self_attn.o_proj", shape.heads * shape.value * hidden)


def _latent(config: ModelConfig) -> Iterator[WeightMatrix]:
    hidden, heads = config.positive("hidden_size"), config.positive("num_attention_heads")
    nope, rope, value = (config.number(key) for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    rank, low = config.positive("kv_lora_rank"), config.number("q_lora_rank", 0)
    if low:
        yield WeightMatrix("self_attn.q_a_proj", hidden * low)
        yield WeightMatrix("self_attn.q_b_proj", low * heads * (nope + rope))
    else:
        yield WeightMatrix("self_attn.q_proj", hidden * heads * (nope + rope))
    yield WeightMatrix("self_attn.kv_a_proj_with_mqa", hidden * (rank + rope))
    yield WeightMatrix("self_attn.kv_b_proj", rank * heads * (nope + value))
    yield WeightMatrix("self_attn.o_proj", heads * value * hidden)
    if config.number("index_topk", 0):
        index, of = config.positive("index_head_dim"), config.positive("index_n_heads")
        yield WeightMatrix("self_attn.indexer.wq_b", (low or hidden) * of * index)
        yield WeightMatrix("self_attn.indexer.wk", hidden * (index + of))


def delta_shape(config: ModelConfig) -> tuple[int, int, int]:
    """Widths of keys and of values of a gated delta rule, and its value heads."""
    keys = config.positive("linear_num_key_heads") * config.positive("linear_key_head_dim")
    heads = config.positive("linear_num_value_heads")
    return keys, heads * config.positive("linear_value_head_dim"), heads


def _delta(config: ModelConfig) -> Iterator[WeightMatrix]:
    hidden, (keys, values, heads) = config.positive("hidden_size"), delta_shape(config)
    yield WeightMatrix("linear_attn.in_proj_qkvz", hidden * 2 * (keys + values))
    yield WeightMatrix("linear_attn.in_proj_ba", hidden * 2 * heads)
    yield WeightMatrix("linear_attn.out_proj", values * hidden)


def _lightning(config: ModelConfig) -> Iterator[WeightMatrix]:
    width = config.positive("num_attention_heads") * mixer_shape(config, "full").head
    hidden = config.positive("hidden_size")
    yield WeightMatrix("self_attn.qkv_proj", hidden * 3 * width)
    yield WeightMatrix("self_attn.output_gate", hidden * width)
    yield WeightMatrix("self_attn.out_proj", width * hidden)


def kimi_shape(config: ModelConfig) -> tuple[int, int, int]:
    """Heads, head size and width of the convolution of Kimi Delta Attention."""
    heads, head, kernel = (
        config.positive(f"linear_attn_config.{key}") for key in ("num_heads", "head_dim", "short_conv_kernel_size")
    )
    return heads, head, kernel


def _kimi(config: ModelConfig) -> Iterator[WeightMatrix]:
    hidden, (heads, head, _) = config.positive("hidden_size"), kimi_shape(config)
    yield WeightMatrix("self_attn.qkv_proj", hidden * 3 * heads * head)
    yield WeightMatrix("self_attn.b_proj", hidden * heads)
    # Two gates of low rank: of the decay, and of the output.
    yield WeightMatrix("self_attn.gates", 2 * (hidden * head + head * heads * head))
    yield WeightMatrix("self_attn.o_proj", heads * head * hidden)


def mamba1_shape(config: ModelConfig) -> tuple[int, int, int]:
    """Inner width, state size and rank of the time step of Mamba 1."""
    hidden = config.positive("hidden_size")
    return (
        hidden * config.positive("mamba_expand"),
        config.positive("mamba_d_state"),
        config.number("mamba_dt_rank", -(-hidden // 16)),
    )


def _mamba1(config: ModelConfig) -> Iterator[WeightMatrix]:
    hidden, (inner, state, rank) = config.positive("hidden_size"), mamba1_shape(config)
    yield WeightMatrix("mamba.in_proj", hidden * 2 * inner)
    yield WeightMatrix("mamba.x_proj", inner * (rank + 2 * state))
    yield WeightMatrix("mamba.dt_proj", rank * inner)
    yield WeightMatrix("mamba.out_proj", inner * hidden)


def mamba_shape(config: ModelConfig) -> tuple[int, int, int, int]:
    """Heads, head size, groups x state size and state size of Mamba 2."""
    heads = config.first(("mamba_num_heads", "mamba_n_heads"))
    head = config.first(("mamba_head_dim", "mamba_d_head"))
    state = config.first(("ssm_state_size", "mamba_d_state"))
    if not heads or not head or not state:
        config.refuse("mamba_num_heads", "Mamba layers need heads, head size and state size; of Mamba 1 none are known")
    if config.number("mamba_d_ssm", heads * head) != heads * head:
        config.refuse("mamba_d_ssm", f"expected heads x head size, {heads * head}")
    return heads, head, config.first(("n_groups", "mamba_n_groups"), 1) * state, state


def _mamba(config: ModelConfig) -> Iterator[WeightMatrix]:
    hidden, (heads, head, groups, _) = config.positive("hidden_size"), mamba_shape(config)
    yield WeightMatrix("mamba.in_proj", hidden * (2 * heads * head + 2 * groups + heads))
    yield WeightMatrix("mamba.out_proj", heads * head * hidden)


def _mlp(config: ModelConfig, name: str, width: int) -> Iterator[WeightMatrix]:
    if not width:
        config.positive("intermediate_size")
    hidden = config.positive("hidden_size")
    if _gated(config):
        yield WeightMatrix(f"{name}.gate_proj", hidden * width)
    yield WeightMatrix(f"{name}.up_proj", hidden * width)
    yield WeightMatrix(f"{name}.down_proj", hidden * width)


def _gated(config: ModelConfig) -> bool:
    if config.kind in ("starcoder2", "apertus"):
        return False
    return not any(config.keys.get(key) == "relu2" for key in ("mlp_hidden_act", "hidden_act"))


def _experts(config: ModelConfig) -> Iterator[WeightMatrix]:
    hidden, experts = config.positive("hidden_size"), config.first(EXPERTS)
    width = config.positive("moe_intermediate_size", config.number("intermediate_size", 0))
    latent, matrices = config.number("moe_latent_size", 0), 3 if _gated(config) else 2
    # Beside a dense part of its own a layer keeps its experts outside of "mlp".
    name = "experts" if config.flag("enable_moe_block") else "mlp.experts"
    yield WeightMatrix(name, experts * matrices * (latent or hidden) * width, routed=True)
    if latent:
        yield WeightMatrix("mlp.latent_proj", 2 * hidden * latent)
    yield WeightMatrix("mlp.gate", hidden * (experts + config.number("zero_expert_num", 0)), quantised=False)
    shared = config.first(SHARED_EXPERTS)
    # A width of its own is that of all shared experts together.
    if own := config.first(SHARED_WIDTH):
        yield WeightMatrix("mlp.shared_experts", matrices * hidden * own)
    elif shared:
        yield WeightMatrix("mlp.shared_experts", matrices * hidden * width * shared)


def _vision(config: ModelConfig, vision: Mapping[str, Any], out: int) -> int:
    """Parameters of a vision transformer and of the projector behind it."""

    def read(keys: Sequence[str], default: int | None = None) -> int:
        value = next((vision[key] for key in keys if vision.get(key) is not None), default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 1_000_000:
            config.refuse("vision_config", f"{keys[0]}: expected a whole number of 1 or more, got {str(value)[:40]!r}")
        return int(value)  # type: ignore[arg-type]

    depth, width = read(VISION_LAYERS), read(VISION_WIDTH)
    mlp = read(VISION_MLP, width * read(("mlp_ratio",), 4))
    kind = str(vision.get("model_type") or config.kind)
    matrices = 3 if kind.startswith(GATED_VISION) else 2
    merged = width * read(("spatial_merge_size",), config.first(("spatial_merge_size",), 1)) ** 2
    if (ratio := config.keys.get("downsample_ratio")) is not None:
        if isinstance(ratio, bool) or not isinstance(ratio, float | int) or not 0.01 <= ratio <= 1:
            config.refuse("downsample_ratio", f"expected a share of 0.01 to 1, got {str(ratio)[:40]!r}")
        merged = int(width / ratio**2)
    patch = 3 * read(("patch_size",), 14) ** 2 * read(("temporal_patch_size",), 1) * width
    deep = vision.get("deepstack_visual_indexes")
    mergers = 1 + (len(deep) if isinstance(deep, list) else 0)
    projector = mergers * merged * (merged + out)
    if "output_hidden_size" in vision:  # two convolutions, of 2 x 2 and 3 x 3, and a projection (Step3)
        wide = read(("output_hidden_size",))
        projector = 4 * width * wide + 9 * wide * 2 * wide + 2 * wide * out
    if kind.startswith("glm4v"):  # the layers are as wide as the output; the merger has a gated part of the other width
        wide, mlp = read(("out_hidden_size",), out), read(("out_hidden_size",), out)
        projector = 4 * width * wide + wide**2 + 3 * wide * read(VISION_MLP)
    return depth * (4 * width**2 + matrices * width * mlp) + patch + projector
