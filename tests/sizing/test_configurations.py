"""Published configurations: sized as engines load them, or refused by the key that is not known. The values are worked
out by hand from the configurations; fixtures/models holds their keys that change memory or work."""

from __future__ import annotations

import copy
import json
import math
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferdoc.capacity.memory import kv_cost
from inferdoc.capacity.model_shape import shape_of
from inferdoc.catalogue.load import load_catalogue
from inferdoc.config_sections import PricesSection
from inferdoc.errors import InferdocError
from inferdoc.sizing.decision import decided
from inferdoc.sizing.request import shape_named, sized_for_request
from tests.cli.command import call

MODELS = Path(__file__).parents[2] / "fixtures" / "models"
NAMES = sorted(path.name for path in MODELS.iterdir())
PUBLIC = json.loads((MODELS.parent / "sizing" / "configurations.json").read_text("utf-8"))
"""The keys of public configurations with the parameters that their makers name, and KV bytes worked out by hand."""
CATALOGUE = load_catalogue()
CHAT = ("--prompt-tokens", "1000", "--output-tokens", "200", "--itl", "1s", "--ttft", "60s")


def shape(name):
    return shape_named(str(MODELS / name), CATALOGUE)


def weights(name):
    found = shape(name).published
    return (found.dense + found.routed) / 1e9


def changed(name, **keys):
    return shape_of(name, json.loads((MODELS / name / "config.json").read_text("utf-8")) | keys)


@pytest.mark.parametrize(
    ("name", "parameters", "gigabytes", "dtype"),
    [
        ("Llama-3.1-70B-Instruct-FP8", 70.55e9, 72.7, "fp8"),
        # Experts, shared experts, dense layers and o_proj in 4 bits; the rest of the attention and lm_head in 16.
        ("DeepSeek-V3.1-NVFP4", 671.0e9, 386.4, "nvfp4"),
        ("Qwen3-235B-A22B-NVFP4", 235.1e9, 134.1, "nvfp4"),
        # 24 layers of 48 with 128 experts and a shared one, the others of twice the width.
        ("Llama-4-Maverick-17B-128E-Instruct", 400.7e9, 801.4, "bf16"),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 31.6e9, 63.2, "bf16"),
        ("DeepSeek-V3.2", 671.9e9, 673.8, "fp8"),
        ("MiMo-V2-Flash", 308.8e9, 310.1, "fp8"),
        ("gemma-3-27b-it", 27.4e9, 54.9, "bf16"),
        ("Mistral-7B-v0.1", 7.24e9, 14.5, "bf16"),
    ],
)
def test_weights_are_those_of_the_checkpoint(name, parameters, gigabytes, dtype):
    found = shape(name)
    assert found.parameters == pytest.approx(parameters, rel=5e-3)
    assert weights(name) == pytest.approx(gigabytes, rel=5e-3)
    assert found.dtype == dtype


@pytest.mark.parametrize(
    ("name", "dtype", "tensor", "per_token", "at_100k"),
    [
        ("Llama-3.1-70B-Instruct-FP8", "fp8", 8, 80 * 2 * 128, 80 * 2 * 128 * 1e5),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "bf16", 8, 3072, 3072 * 1e5 + 6.14e6),
        ("DeepSeek-V3.2", "fp8", 8, 61 * (656 + 132), 61 * 788 * 1e5),
        # 9 layers with 4 KV heads of 192 + 128; 39 with 8, of 128 tokens.
        ("MiMo-V2-Flash", "bf16", 8, 9 * 320 * 2, 9 * 320 * 2 * 1e5 + 39 * 320 * 2 * 128),
        # 10 global layers of 62.
        ("gemma-3-27b-it", "bf16", 1, 10 * 16 * 256 * 2, 10 * 16 * 256 * 2 * 1e5 + 52 * 16 * 256 * 2 * 1024),
        ("Mistral-7B-v0.1", "bf16", 1, 131_072, 131_072 * 4096),
        ("Llama-4-Maverick-17B-128E-Instruct", "bf16", 8, 12 * 512, 12 * 512 * 1e5 + 36 * 512 * 8192),
    ],
)
def test_cache_of_a_token_and_of_a_long_request(name, dtype, tensor, per_token, at_100k):
    cost = kv_cost(shape(name).kv, dtype, tensor)
    assert cost.per_token == per_token
    assert cost.bytes(1e5) == pytest.approx(at_100k, rel=1e-2)


@pytest.mark.parametrize("name", [name for name, entry in PUBLIC.items() if "parameters" in entry])
def test_public_configurations_have_the_parameters_that_their_makers_name(name):
    found = shape_of(name, PUBLIC[name]["config"])
    assert found.parameters == pytest.approx(PUBLIC[name]["parameters"], rel=2e-2)
    assert kv_cost(found.kv, "bf16").per_token == PUBLIC[name]["kv_bytes_per_token"]


@pytest.mark.parametrize("name", [name for name, entry in PUBLIC.items() if "refused" in entry])
def test_public_configurations_of_other_layers_are_refused_by_their_key(name):
    with pytest.raises(InferdocError, match=rf"^{re.escape(name)}: {PUBLIC[name]['refused']}: "):
        shape_of(name, PUBLIC[name]["config"])


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("Hunyuan-A13B", {"use_cla": True}, "cla_share_factor"),
        ("Hunyuan-A13B", {"moe_intermediate_size": [3072, 1536] * 16}, "moe_intermediate_size"),
        ("command-a", {"order_of_interleaved_layers": "global_first"}, "order_of_interleaved_layers"),
        ("Falcon-H1-34B", {"mamba_d_ssm": 10_240}, "mamba_d_ssm"),
        ("Kimi-Linear-48B-A3B", {"linear_attn_config": {"full_attn_layers": [4], "ring_heads": 3}}, "ring_heads"),
        ("InternVL3-38B", {"downsample_ratio": "half"}, "downsample_ratio"),
        ("LongCat-Flash", {"zero_expert_type": "copy"}, "zero_expert_type"),
        ("LongCat-Flash", {"attention_method": "GQA"}, "attention_method"),
        ("LFM2-1.2B", {"block_ffn_dim_multiplier": 1.5}, "block_ffn_dim_multiplier"),
        ("LFM2-1.2B", {"conv_dim": 1024}, "conv_dim: expected 2048"),
    ],
)
def test_a_value_that_changes_the_layers_is_refused(name, keys, words):
    with pytest.raises(InferdocError, match=words):
        shape_of(name, PUBLIC[name]["config"] | keys)


def test_the_state_of_linear_layers_is_kept_for_each_request():
    """Kimi: 20 layers of 32 x 128 x 128 floats and 3 tokens of 3 convolutions. Jamba: 28 layers of an inner width of
    8,192 with 16 values of state and 3 tokens of convolution. Falcon-H1: 72 layers of 32 x 128 x 256 in 16 bits, and
    3 tokens of 4,096 + 2 x 512. LFM2: 18 convolutions over 2,048 values keep 2 tokens."""
    states = {name: shape_of(name, PUBLIC[name]["config"]).kv.state for name in PUBLIC if "parameters" in PUBLIC[name]}
    assert states["Kimi-Linear-48B-A3B"] == 20 * (32 * 128 * 128 * 4 + 3 * 3 * 4096 * 2)
    assert states["AI21-Jamba-1.5-Mini"] == 28 * 8192 * (3 + 16) * 2
    assert states["LFM2-8B-A1B"] == 18 * 2 * 2048 * 2
    assert states["Falcon-H1-34B"] == 72 * (32 * 128 * 256 * 2 + 3 * (4096 + 2 * 512) * 2)


def test_experts_that_compute_nothing_are_not_active():
    """LongCat: of 512 experts and 256 that pass the token on a token chooses 12, so 8 that compute; its makers name 27
    billion active parameters on average. Step3: 38 billion, beside 4.7 of its vision tower."""
    active = {name: shape_of(name, PUBLIC[name]["config"]).active for name in ("LongCat-Flash", "Step3", "LFM2-8B-A1B")}
    assert active["LongCat-Flash"] == pytest.approx(27e9, rel=0.05)
    assert active["Step3"] == pytest.approx(38e9 + 4.7e9, rel=0.03)
    assert active["LFM2-8B-A1B"] == pytest.approx(1.5e9, rel=0.05)


def test_a_layer_of_two_attention_parts_is_one_of_the_index_of_weights():
    config = PUBLIC["LongCat-Flash"]["config"]
    index = {
        "metadata": {"total_size": 1_121_000_000_000},
        "weight_map": {f"model.layers.{n}.mlp": "1" for n in range(28)},
    }
    assert shape_of("LongCat-Flash", config, None, index).exact
    fewer = {**index, "weight_map": {f"model.layers.{n}.mlp": "1" for n in range(27)}}
    with pytest.raises(InferdocError, match="has 27 layers"):
        shape_of("LongCat-Flash", config, None, fewer)


def test_a_request_shorter_than_the_window_takes_no_whole_window():
    cost = kv_cost(shape("gemma-3-27b-it").kv, "bf16")
    assert cost.bytes(100) == 62 * 16 * 256 * 2 * 100
    assert cost.longest(cost.bytes(100)) == pytest.approx(100)
    assert cost.longest(cost.bytes(50_000)) == pytest.approx(50_000)


@pytest.mark.parametrize("name", NAMES)
def test_every_configuration_is_sized_by_the_command(name):
    done = call("size", "--model", MODELS / name, "--tier", "b300-288", "--tp", "8", *CHAT, "-o", "json")
    assert done.code == 0, done.err
    found = {each["name"]: each["value"] for part in json.loads(done.out)["parts"] for each in part["numbers"]}
    assert found["weights"] * 8 == pytest.approx(weights(name) * 1e9, rel=1e-6)
    most = shape(name).max_len
    assert 0 < found["longest_context"] <= (most or 1e9)


def test_the_cache_has_the_dtype_for_which_the_checkpoint_has_scales():
    done = call("size", "--model", MODELS / "Qwen3-235B-A22B-NVFP4", "--tier", "b200-180", *CHAT, "-o", "json")
    assert json.loads(done.out)["kv_dtype"] == "fp8"


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("Mistral-7B-v0.1", {"compress_ratios": [4] * 32}, "compress_ratios"),
        ("Mistral-7B-v0.1", {"model_type": "hyena"}, 'model_type: "hyena"'),
        ("Mistral-7B-v0.1", {"layer_types": ["full_attention"] * 31 + ["retention"]}, "layer_types: 'retention'"),
        ("Mistral-7B-v0.1", {"layer_types": ["full_attention"] * 5}, "layer_types: expected one entry"),
        ("Mistral-7B-v0.1", {"audio_config": {"d_model": 8}}, "audio_config"),
        ("Mistral-7B-v0.1", {"num_hidden_layers": 10**9}, "num_hidden_layers: 1000000000 is more"),
        ("Mistral-7B-v0.1", {"num_key_value_heads": -8}, "num_key_value_heads: expected a whole number"),
        (
            "Mistral-7B-v0.1",
            {"quantization_config": {"quant_method": "hqq"}},
            "quantization_config.quant_method: 'hqq'",
        ),
        *(
            ("Mistral-7B-v0.1", {"quantization_config": {"quant_method": "gptq", "bits": 4} | section}, words)
            for section, words in (
                ({"modules_in_block_to_quantize": [["mlp.down_proj"]]}, "config.modules_in_block_to_quantize: "),
                ({"sparsity_config": {"format": "sparse-24-bitmask"}}, "quantization_config.format: 'sparse-24"),
                ({"format": "marlin-24"}, "quantization_config.format: 'marlin-24'"),
                ({"dynamic": {".*mlp.*": {"bits": 3}}}, "quantization_config.dynamic: '3 bits'"),
                ({"data_type": "nf4"}, "quantization_config.data_type: 'nf4'"),
                ({"quant_method": "bitsandbytes"}, "quantization_config.quant_method: 'bitsandbytes'"),
            )
        ),
        *(
            ("MiMo-V2-Flash", {"quantization_config": {"quant_method": "compressed-tensors"} | section}, words)
            for section, words in (
                (
                    {
                        "ignore": ["model.layers.3.mlp.experts.7.down_proj"],
                        "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
                    },
                    "quantization_config.ignore: '1 experts of model.layers.3.mlp.experts'",
                ),
                (
                    {
                        "config_groups": {
                            "group_0": {
                                "targets": [r"re:.*experts\.\d+\.(gate|up)_proj$"],
                                "weights": {"num_bits": 8, "type": "float"},
                            }
                        }
                    },
                    "a part of layers.1.mlp.experts",
                ),
            )
        ),
        ("gemma-3-27b-it", {"model_type": "gemma9"}, 'model_type: "gemma9" is not known'),
        ("MiMo-V2-Flash", {"hybrid_layer_pattern": [2] * 48}, "hybrid_layer_pattern: '2'"),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {"hybrid_override_pattern": "M" * 51 + "Z"}, "hybrid_override_pattern"),
    ],
)
def test_a_key_that_is_not_known_and_changes_memory_is_named(name, keys, words):
    with pytest.raises(InferdocError) as refusal:
        changed(name, **keys)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    "keys", [{"rope_theta": 1e6}, {"initializer_range": 0.1}, {"pad_token_id": 3}, {"some_flag": True}, {"moe_x": None}]
)
def test_a_key_that_changes_nothing_is_let_through(keys):
    assert changed("Mistral-7B-v0.1", **keys).parameters == shape("Mistral-7B-v0.1").parameters


@pytest.mark.parametrize(
    ("section", "gigabytes"),
    [
        # 6.98e9 of 7.24e9 weights in linear layers; embedding and lm_head in 16 bits.
        ({"quant_method": "fp8"}, 6.98 + 0.52),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 6.98 * 0.5195 + 0.52),
        # A scale of 16 bits and a zero point of 8 for each 128 weights.
        ({"quant_method": "gptq", "bits": 8}, 6.98 * (1 + 3 / 128) + 0.52),
        ({"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}}}}, 6.98 * 0.578 + 0.52),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}},
         6.98 * 0.5625 + 0.52),
        # Of a layer 41.9e6 weights are attention, 176.2e6 the rest.
        ({"quant_method": "fp8", "modules_to_not_convert": ["self_attn"]}, 5.64 + 1.34 * 2 + 0.52),
        ({"quant_method": "fp8", "ignore": ["re:.*mlp.*"]}, 5.64 * 2 + 1.34 + 0.52),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": [
            "model.layers.0*", "model.layers.1.*"]},
         6.98 * 30 / 32 * 0.5625 + 6.98 * 2 / 32 * 2 + 0.52),
        ({"quant_algo": "MIXED_PRECISION", "quantized_layers": {
            f"model.layers.{layer}.mlp.{part}_proj": {"quant_algo": "FP8"}
            for layer in range(32) for part in ("gate", "up", "down")}}, 5.64 + 1.34 * 2 + 0.52),
        # A scale of 32 bits for each 64 weights, unless the scales are quantised too.
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 6.98 * 0.5625 + 0.52),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True,
          "llm_int8_skip_modules": ["lm_head", "self_attn"]}, 5.64 * 0.516 + 1.34 * 2 + 0.52),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"lm_head": {}, "-:.*attn.*": {}}},
         5.64 * 0.5195 + 1.34 * 2 + 0.52),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {r"+:.*\.self_attn\..*": {"bits": 8}}},
         5.64 * 0.5195 + 1.34 * (1 + 3 / 128) + 0.52),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": {
            f"model.layers.{layer}.self_attn.{part}_proj": {"bits": 16, "data_type": "float"}
            for layer in range(32) for part in "qkvo"}}, 5.64 * 0.5195 + 1.34 * 2 + 0.52),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 16, "data_type": "nv_fp"}, 6.98 * 0.5625 + 0.52),
        ({"quant_method": "quark", "exclude": ["lm_head"], "layer_quant_config": {
            "*self_attn*": {"weight": {"dtype": "fp8_e4m3"}}},
          "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}}, 5.64 * 0.53125 + 1.34 + 0.52),
        ({"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {
            "group_0": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}},
            "group_1": {"targets": ["re:.*mlp.*"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}},
         5.64 * 0.5625 + 1.34 + 0.52),
    ],
)  # fmt: skip
def test_quantisation_reaches_what_the_checkpoint_says(section, gigabytes):
    found = changed("Mistral-7B-v0.1", quantization_config=section).published
    assert (found.dense + found.routed) / 1e9 == pytest.approx(gigabytes, rel=1e-2)


def test_modules_of_other_models_have_their_parameters():
    """Qwen2-VL: a tower of 1,280 whose hidden_size is that of the language model. GLM-4.1V: its layers are as wide as
    the output. A reranker has no output layer. Llama Guard 4 lists no layers with experts."""
    qwen = {"hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4}
    glm = {"hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2}
    reranker = {"hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8}
    guard = {"hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8}
    vision = {"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4, "temporal_patch_size": 2}
    tower = {"depth": 24, "hidden_size": 1536, "intermediate_size": 13696, "out_hidden_size": 4096}
    merge = {"patch_size": 14, "spatial_merge_size": 2}
    for name, keys, parameters in (
        ("qwen2_vl", {**qwen, "vocab_size": 152064, "intermediate_size": 18944, "vision_config": vision | merge},
         8.29e9),
        ("glm4v", {**glm, "vocab_size": 151552, "intermediate_size": 13696, "vision_config": tower | merge}, 10.29e9),
        ("qwen3", {**reranker, "vocab_size": 151665, "intermediate_size": 12288,
                   "architectures": ["Qwen3ForSequenceClassification"]}, 7.57e9),
        ("llama4_text", {**guard, "vocab_size": 202048, "intermediate_size": 8192, "head_dim": 128,
                         "num_local_experts": 16, "num_experts_per_tok": 1, "moe_layers": []}, 11.1e9),
    ):  # fmt: skip
        assert shape_of(name, {"model_type": name, **keys}).parameters == pytest.approx(parameters, rel=2e-2), name


def index_of(folder, layers, total):
    names = {f"model.layers.{layer}.mlp.up_proj.weight": "model.safetensors" for layer in range(layers)}
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": names})
    (folder / "model.safetensors.index.json").write_text(text, "utf-8")


def test_an_index_of_weights_gives_the_exact_bytes(tmp_path):
    shutil.copy(MODELS / "Mistral-7B-v0.1" / "config.json", tmp_path)
    index_of(tmp_path, 32, 14_483_464_192)
    found = shape_named(str(tmp_path), CATALOGUE)
    assert found.exact and found.published.dense == pytest.approx(14_483_464_192)


@pytest.mark.parametrize(("layers", "total"), [(80, 14_483_464_192), (12, 14_483_464_192), (32, 141_000_000_000)])
def test_weights_of_another_model_are_refused(tmp_path, layers, total):
    shutil.copy(MODELS / "Mistral-7B-v0.1" / "config.json", tmp_path)
    index_of(tmp_path, layers, total)
    done = call("size", "--model", tmp_path, "--tier", "h100-80", *CHAT)
    assert (done.code, done.err.count("\n")) == (2, 1) and "weights of another model" in done.err


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("config.json", '{"num_hidden_layers": 3', "no JSON, or cut off"),
        (
            "config.json",
            '{"tokenizer_class": "LlamaTokenizer", "model_max_length": 4096}',
            "configuration of a tokenizer",
        ),
        ("hf_quant_config.json", '{"quantization": ', "no JSON, or cut off"),
        ("hf_quant_config.json", '{"quantization": {"quant_algo": "INT3"}}', "quant_algo: 'int3' is not known"),
        ("model.safetensors.index.json", "{}", "expected metadata.total_size"),
    ],
)
def test_one_line_for_bad_files(tmp_path, name, text, words):
    shutil.copy(MODELS / "Mistral-7B-v0.1" / "config.json", tmp_path)
    (tmp_path / name).write_text(text, "utf-8")
    done = call("size", "--model", tmp_path, "--tier", "h100-80", *CHAT)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and words in done.err


WRONG = st.sampled_from(
    [None, 0, -1, 1, 3, 2**70, 1e30, float("nan"), True, "", "fp8", [], [1, "a"], [0] * 48, {}, {"a": 1}, 99_999]
)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mutated_configuration_is_sized_or_refused_in_one_line(tmp_path, data):
    folder = MODELS / data.draw(st.sampled_from(NAMES))
    for name in ("config.json", "hf_quant_config.json"):
        (tmp_path / name).unlink(missing_ok=True)
        if (folder / name).exists():
            document = json.loads((folder / name).read_text("utf-8"))
            for _ in range(data.draw(st.integers(0, 3))):
                holder, key = data.draw(st.sampled_from(list(places(document)) or [(document, "more")]))
                holder[key] = copy.deepcopy(data.draw(WRONG))
            (tmp_path / name).write_text(json.dumps(document), "utf-8")
    options = {"model": str(tmp_path), "prompt_tokens": "1000", "output_tokens": "200", "itl": "10m", "ttft": "50m"}
    try:
        answer = sized_for_request({**options, "tier": "b200-180", "rate": 2.0}, CATALOGUE)
    except InferdocError as refusal:
        assert "\n" not in str(refusal)
    else:
        assert all(each.value is None or math.isfinite(each.value) for part in answer.parts for each in part.numbers)
    try:
        decision = decided({**options, "tier": "h100-80,t4", "rate": 2.0}, CATALOGUE, PricesSection())
    except InferdocError as refusal:
        assert "\n" not in str(refusal)
    else:
        assert all(row.gpus and math.isfinite(row.request or 0.0) for row in decision.rows)


def places(document):
    """Every place of a document that holds a value: what holds it, and its key."""
    for key, value in list(document.items() if isinstance(document, dict) else enumerate(document)):
        yield document, key
        if isinstance(value, dict | list):
            yield from places(value)


def test_layers_with_a_format_of_their_own_may_be_named_by_their_experts():
    """128 experts of 23 layers, whose two matrices have 2688 x 1856 weights, and the output layer."""
    name, four = "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {"quant_algo": "W4A16_NVFP4"}
    pattern = json.loads((MODELS / name / "config.json").read_text("utf-8"))["hybrid_override_pattern"]
    layers = {
        f"backbone.layers.{layer}.mixer.experts.{expert}.{part}_proj": four
        for layer, kind in enumerate(pattern)
        for expert in range(128)
        for part in ("up", "down")
        if kind == "E"
    }
    section = {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers | {"lm_head": four}}
    saved = (128 * 23 * 2 * 2688 * 1856 + 131_072 * 2688) * (2 - 0.5625) / 1e9
    found = changed(name, quantization_config=section).published
    assert (found.dense + found.routed) / 1e9 == pytest.approx(weights(name) - saved, rel=1e-6)
    assert found.dtype == "nvfp4"


def test_a_format_of_a_layer_that_the_model_has_not_is_named():
    layers = {"model.layers.3.gla.q_proj": {"quant_algo": "FP8"}, "model.layers.3.mlp.up_proj": {"quant_algo": "FP8"}}
    section = {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    with pytest.raises(InferdocError, match=r"quantized_layers: 'layers\.3\.gla\.q_proj' is not known"):
        changed("Mistral-7B-v0.1", quantization_config=section)
