"""Read a model's config.json, and the attention of each of its layers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from inferdoc.errors import InferdocError

Kind = TypeVar("Kind")
Mixer = Literal["full", "window", "delta", "kimi", "lightning", "mamba", "mamba1", "parallel", "conv", "none"]
"""full, window: attention over all or over the last tokens; delta: gated delta rule (Qwen3-Next); lightning: linear
attention of MiniMax; kimi: Kimi Delta Attention; mamba, mamba1: Mamba 2 and 1; parallel: full attention beside Mamba 2
(Falcon-H1); conv: short convolution (LFM2)."""
Feed = Literal["dense", "experts", "both", "none"]

MIXERS: dict[str, Mixer] = {
    "full_attention": "full", "attention": "full", "global": "full", "deepseek_sparse_attention": "full",
    "indexed_attention": "full",
    "sliding_attention": "window", "chunked_attention": "window", "local": "window",
    "linear_attention": "delta", "mamba": "mamba", "mamba2": "mamba", "conv": "conv",
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
    if config.kind == "longcat_flash":  # each layer has two attention and two dense parts, and experts beside the first
        return [Layer("full", "both"), Layer("full", "dense")] * config.positive("num_layers", most=MOST_LAYERS // 2)
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
    if (listed := config.keys.get("full_attn_idxs")) is not None:
        attends = _whole(config, "full_attn_idxs", listed)
        return ["full" if index in attends else "conv" for index in range(layers)]
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
    if (listed := config.keys.get("moe_layers")) is not None:
        sparse &= _whole(config, "moe_layers", listed)
    if text := config.word("moe_layers_enum"):
        numbers = [int(each) if each.strip().isdecimal() else None for each in text.split(",")]
        sparse &= _whole(config, "moe_layers_enum", numbers)
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


MOST, MOST_LAYERS = 100_000_000, 2000
"""Largest number and largest count of layers that are taken for real."""
PLAIN_TYPES = frozenset({
    "llama", "mistral", "ministral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "mimo",
    "mimo_v2_flash", "seed_oss", "smollm3", "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe",
    "glm4_moe_lite", "glm_moe_dsa", "gpt_oss", "llama4_text", "olmo", "olmo2", "olmo3", "olmoe", "granite",
    "granitemoe", "granitemoeshared", "granitemoehybrid", "bamba", "nemotron", "nemotron_h", "nemotron-nas",
    "exaone4", "internlm2", "internlm3", "minimax", "minimax_text_01", "minimax_m1", "minimax_m2", "ernie4_5",
    "ernie4_5_moe", "dots1", "phi3", "phimoe", "stablelm", "starcoder2", "arcee", "helium", "step3p7",
    "qwen3_vl_text", "qwen3_vl_moe_text", "qwen2_vl_text", "qwen2_5_vl_text", "qwen3_5_text", "qwen3_5_moe_text",
    "gemma", "gemma2", "gemma3_text", "gemma4_text", "cohere", "cohere2", "glm", "glm4", "hunyuan_v1_dense",
    "ministral3", "exaone_moe", "solar_open", "flex_olmo", "apertus", "bailing_moe", "bailing_moe_v2", "falcon_h1",
    "glm4v_text", "glm4v_moe_text", "hunyuan_v1_moe", "jamba", "kimi_linear", "lfm2", "lfm2_moe", "longcat_flash",
    "step3_text",
})  # fmt: skip
"""model_type of language models whose layers are those that the keys describe."""
WRAPPERS = frozenset({
    "llama4", "gemma3", "gemma4", "mistral3", "llava", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe",
    "qwen3_5", "qwen3_5_moe", "kimi_k25", "kimi_vl", "glm4v", "glm4v_moe", "internvl", "internvl_chat", "pixtral",
    "step3_vl",
})  # fmt: skip
"""model_type of models that hold a language model and a vision tower."""
CLASS_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma3_text": {
        "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "sliding_window": 4096, "sliding_window_pattern": 6, "max_position_embeddings": 131072,
    },
    "gemma2": {"sliding_window_pattern": 2, "head_dim": 256},
    "cohere2": {"sliding_window_pattern": 4},
    "gemma4_text": {"sliding_window_pattern": 6},
    "qwen2": {"use_sliding_window": False},
    "qwen2_moe": {"use_sliding_window": False, "shared_expert_intermediate_size": 5632},
    "qwen3": {"use_sliding_window": False, "head_dim": 128},
    "qwen3_moe": {"use_sliding_window": False},
    "qwen3_next": {"attn_output_gate": True, "full_attention_interval": 4, "head_dim": 256},
    "qwen3_5_text": {"attn_output_gate": True, "full_attention_interval": 4, "head_dim": 256},
    "qwen3_5_moe_text": {"attn_output_gate": True, "full_attention_interval": 4, "head_dim": 256},
    "gpt_oss": {"sliding_window_pattern": 2},
    "llama4_text": {"interleave_moe_layer_step": 1, "n_shared_experts": 1},
    "nemotron": {"hidden_act": "relu2"},
    "nemotron_h": {"mlp_hidden_act": "relu2"},
    "arcee": {"hidden_act": "relu2"},
    "jamba": {
        "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1,
        "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
    },
    "starcoder2": {"hidden_act": "gelu_pytorch_tanh"},
    "longcat_flash": {"zero_expert_num": 256},
    "step3_text": {"first_k_dense_replace": 1},
}  # fmt: skip
"""What the configuration class of a model_type (Transformers) takes where its config.json leaves a key out."""
RENAMED: Mapping[str, Mapping[str, str]] = {
    "lfm2": {"block_ff_dim": "intermediate_size", "tie_embedding": "tie_word_embeddings"},
    "lfm2_moe": {"num_dense_layers": "first_k_dense_replace", "tie_embedding": "tie_word_embeddings"},
    "longcat_flash": {"ffn_hidden_size": "intermediate_size", "expert_ffn_hidden_size": "moe_intermediate_size"},
    "step3_text": {"num_attention_groups": "num_key_value_heads", "max_seq_len": "max_position_embeddings"},
    "cohere2": {"layer_switch": "sliding_window_pattern"},
    "exaone_moe": {"is_moe_layer": "moe_layer_freq"},
    "nemotron": {"kv_channels": "head_dim"},
}
"""Keys of a model_type that stand for a usual one."""
NO_HEAD = re.compile(r"(?<!Chat)Model$|For(SequenceClassification|TokenClassification|\w*RewardModel)$")
"""Architectures that generate no tokens."""
ARCHITECTURES = {"LongcatFlashForCausalLM": "longcat_flash"}
"""model_type of a config.json that has none."""
TIED = ("gemma", "cohere", "starcoder2", "granitemoehybrid", "jamba", "lfm2")
"""model_types whose output layer is the embedding unless the config says otherwise."""
STRUCTURE = re.compile(
    r"layer|expert|moe|head|dim|size|rank|window|attn|attention|sparse|mamba|ssm|conv|pattern|block|ratio|compress|"
    r"share|mlp|ffn|kv_|state|depth|width|chunk|linear|latent|recurrent|quant|group|altup|laurel|hyper|index|mtp|nextn"
)
"""Words in the name of a key that describes layers, and so memory or work."""
INERT = re.compile(
    r"dropout|_eps$|epsilon|_token|token_id|rope|rotary|init|bias|norm|softcap|aux_loss|scal|router_|score|scoring|"
    r"return_|output_(attentions|hidden|router)|beam|chunk_size_feed_forward|bad_words|id2label|label2id|transformers|"
    r"attn_implementation|attention_multiplier|logit|residual|time_step|_act$|activation|swiglu|pretraining|ep_size|"
    r"topk_(group|method)|n_group$|group_routing|grouped_topk|num_(expert_group|logits)|"
    r"vocab_size_per_layer|attention_function|attention_dtype|upcast|flash|sink|position|max_(length|window_layers)|"
    r"min_length|no_repeat|gradient|checkpoint|use_cache|use_bidirectional|vision_|image_|video_|audio_|mrope|"
    r"^_|^ignore_|mm_|projector|pooler|tokenizer|problem_type|unified_vision|torchscript|num_reward|query_pre_attn|_dtype$|sandwich|"
    r"fused|temperature|alpha_factor|beta_factor|^block_size$|kernels|overlap|deterministic|is_(decoder|encoder)|cross_attention_hidden|tie_|feed_forward_proj|"
    r"num_return|encoder_no_repeat|pruned_heads|skip_topk_offset|index_topk_(freq|pattern)|index_share_for_mtp|"
    r"indexer_rope|img_token|process_image|segment|grid|seq_length|feature_|multiplier|moe_(capacity|gate|drop_tokens)$|"
    r"random_routing|use_(embedding_sharing|gated_activation|parallel_block)|media_embeds|mlp_expansion_factor|"
    r"num_query_groups|aux_free|select_layer"
)
"""Words in the name of a key that changes neither. Prediction heads of more than one token are read: engines
load them for speculation alone."""
READ = frozenset({
    "num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "v_head_dim", "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "qk_head_dim",
    "index_head_dim", "index_n_heads", "index_topk", "indexer_types", "num_experts", "num_local_experts",
    "n_routed_experts", "moe_num_experts", "num_experts_per_tok", "experts_per_token", "top_k_experts",
    "num_experts_per_token", "moe_topk", "moe_k", "moe_top_k", "first_k_dense_replace", "moe_layer_freq",
    "mlp_only_layers", "decoder_sparse_step", "interleave_moe_layer_step", "moe_layers", "mlp_layer_types",
    "moe_intermediate_size", "intermediate_size", "intermediate_size_mlp", "dense_intermediate_size",
    "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim", "moe_latent_size",
    "enable_moe_block", "tie_word_embeddings", "layer_types", "sliding_window", "sliding_window_size",
    "sliding_window_pattern", "use_sliding_window", "max_window_layers", "attention_chunk_size", "no_rope_layers",
    "no_rope_layer_interval", "full_attention_interval", "hybrid_override_pattern", "hybrid_layer_pattern",
    "layers_block_type", "attn_type_list", "attn_output_gate", "attention_k_eq_v", "global_head_dim",
    "num_global_key_value_heads", "attention_head_dim", "swa_num_key_value_heads", "swa_head_dim", "swa_v_head_dim",
    "swa_num_attention_heads", "num_kv_shared_layers", "linear_num_key_heads", "linear_num_value_heads",
    "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim", "mamba_num_heads", "mamba_head_dim",
    "n_groups", "ssm_state_size", "conv_kernel", "mamba_ssm_cache_dtype", "mamba_ssm_dtype", "expand",
    "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv", "mamba_expand", "chunk_size",
    "mamba_chunk_size", "attn_layer_indices", "moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval",
    "use_sparse_attention", "quantization_config", "text_config", "vision_config", "audio_config", "torch_dtype",
    "dtype", "hidden_act", "mlp_hidden_act", "hidden_activation", "model_type", "use_double_wide_mlp",
    "num_nextn_predict_layers", "num_mtp_modules", "mtp_transformer_layers", "mtp_num_hidden_layers",
    "attn_layer_period", "attn_layer_offset", "expert_layer_period", "expert_layer_offset", "mamba_dt_rank",
    "mamba_d_ssm", "linear_attn_config.full_attn_layers", "linear_attn_config.kda_layers",
    "linear_attn_config.num_heads", "linear_attn_config.head_dim", "linear_attn_config.short_conv_kernel_size",
    "num_layers", "zero_expert_num", "moe_layers_enum", "share_q_dim", "conv_L_cache", "full_attn_idxs", "conv_dim",
    "conv_dim_out", "block_dim", "num_heads", "block_auto_adjust_ff_dim", "block_multiple_of",
    "num_shared_expert", "downsample_ratio", "spatial_merge_size",
    "mtp_hybrid_override_pattern", "mtp_layers_block_type", "mtp_use_dedicated_embeddings", "use_mtp",
})  # fmt: skip


INERT_VALUES: Mapping[str, Any] = {
    "order_of_interleaved_layers": "local_attn_first", "full_attn_mod": 1, "interpolate_factor": 1,
    "mamba_use_mlp": True, "use_mixed_mlp_moe": True, "attention_method": "MLA", "zero_expert_type": "identity",
}  # fmt: skip
"""Keys that change nothing with this value."""
SWITCHES: Mapping[str, tuple[str, ...]] = {
    "use_cla": ("cla_share_factor",),
    "use_mla": ("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    "shared_intermediate_size": ("shared_moe_mode",),
}
"""Keys that count only if another is neither false nor 0."""
OFF = (False, 0)


class ModelConfig:
    """The keys of one config.json; those of the language model where it holds several, over the defaults of its
    model_type. Every access raises InferdocError, which names the key, for a value that cannot be."""

    def __init__(self, name: str, keys: Mapping[str, Any]) -> None:
        nested = next((keys[key] for key in ("text_config", "llm_config") if isinstance(keys.get(key), Mapping)), None)
        inner = dict(nested) if nested else {}
        own = inner | {key: value for key, value in keys.items() if key not in inner and key != "text_config"}
        for key, value in self._mapping(name, own.pop("linear_attn_config", None)).items():
            own[f"linear_attn_config.{key}"] = value
        self.name = name
        inner_class = self._first_name(own.get("architectures"))
        self._architecture = self._first_name(keys["architectures"]) if "architectures" in keys else inner_class
        self.kind = str(own.get("model_type") or ARCHITECTURES.get(inner_class, ""))
        outer = str(keys.get("model_type") or "")
        if outer == self.kind and outer in WRAPPERS:
            self.kind = f"{outer}_text"
        given = {key: value for key, value in own.items() if value is not None}
        for switch, words in SWITCHES.items():
            if given.get(switch, True) in OFF:
                given = {key: value for key, value in given.items() if key not in (switch, *words)}
        for key, usual in RENAMED.get(self.kind, {}).items():
            if key in given:
                given[usual] = given.pop(key)
        self.keys: Mapping[str, Any] = {**CLASS_DEFAULTS.get(self.kind, {}), **given}
        self._refuse_foreign(outer if nested else "")

    def _refuse_foreign(self, outer: str) -> None:
        if "num_hidden_layers" not in self.keys and any(
            word in self.keys for word in ("tokenizer_class", "added_tokens")
        ):
            raise InferdocError(f"{self.name}: the configuration of a tokenizer; give the model's own config.json")
        for key, value in self.keys.items():
            if (
                key in READ
                or not value
                or INERT_VALUES.get(key, ()) == value
                or INERT.search(key)
                or not STRUCTURE.search(key)
            ):
                continue
            self.refuse(key, "it may change memory or work, and is not known")
        known = PLAIN_TYPES | {kind for kind in WRAPPERS if not outer}
        for kind, kinds in ((self.kind, known), (outer, WRAPPERS | PLAIN_TYPES)):
            if kind and kind not in kinds:
                self.refuse("model_type", f'"{kind}" is not known, and its layers may differ from what the keys say')

    @staticmethod
    def _first_name(listed: object) -> str:
        return str(listed[0]) if isinstance(listed, list) and listed else ""

    @staticmethod
    def _mapping(name: str, value: object) -> Mapping[str, Any]:
        if value is not None and not isinstance(value, Mapping):
            raise InferdocError(f"{name}: linear_attn_config: expected an object, got {str(value)[:60]!r}")
        return value or {}

    def refuse(self, key: str, why: str) -> None:
        """Raise the refusal that names a key."""
        raise InferdocError(f"{self.name}: {key}: {why}: cannot be sized (a models.yaml entry may state the shape)")

    def number(self, key: str, default: int | None = None, most: int = MOST) -> int:
        """A whole number of 0 or more; a list that repeats one for each layer stands for it."""
        value = self.keys.get(key)
        if isinstance(value, list) and value and all(each == value[0] for each in value):
            value = value[0]
        if value is None and default is not None:
            return default
        if value is None:
            raise InferdocError(
                f"{self.name}: no {key}; it is needed to size a model: give the model's own config.json"
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InferdocError(f"{self.name}: {key}: expected a whole number of 0 or more, got {str(value)[:60]!r}")
        if value > most:
            raise InferdocError(f"{self.name}: {key}: {value} is more than any model has (at most {most:,})")
        return value

    def positive(self, key: str, default: int | None = None, most: int = MOST) -> int:
        """A whole number of 1 or more."""
        value = self.number(key, default, most)
        if value == 0:
            raise InferdocError(f"{self.name}: {key}: expected 1 or more, got 0")
        return value

    def first(self, keys: tuple[str, ...], default: int = 0) -> int:
        """The first of these keys that is there."""
        return next((self.number(key) for key in keys if self.keys.get(key) is not None), default)

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        value = self.keys.get(key, default)
        if not isinstance(value, bool | int):
            raise InferdocError(f"{self.name}: {key}: expected true or false, got {str(value)[:60]!r}")
        return bool(value)

    def word(self, key: str) -> str:
        """A text, "" where there is none."""
        value = self.keys.get(key, "")
        if not isinstance(value, str):
            raise InferdocError(f"{self.name}: {key}: expected a text, got {str(value)[:60]!r}")
        return value

    def per_layer(self, key: str, layers: int) -> list[Any] | None:
        """A list or text with one entry for each layer; None where the key is not there."""
        value = self.keys.get(key)
        if value is None:
            return None
        # Some lists go on with the layers of a prediction head.
        if not isinstance(value, list | str) or not layers <= len(value) <= layers + 8:
            got = f"{len(value)} entries" if isinstance(value, list | str) else repr(value)[:60]
            raise InferdocError(f"{self.name}: {key}: expected one entry for each of {layers} layers, got {got}")
        return list(value)[:layers]

    def nested(self, key: str) -> Mapping[str, Any] | None:
        """An object; None where there is none."""
        value = self.keys.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise InferdocError(f"{self.name}: {key}: expected an object, got {str(value)[:60]!r}")
        return value

    @property
    def has_head(self) -> bool:
        """Whether an output layer of its own follows the layers: not if it is the embedding, nor in models that give
        embeddings or scores."""
        if NO_HEAD.search(self._architecture):
            return False
        return not self.flag("tie_word_embeddings", self.kind.startswith(TIED))
