"""Bytes of the weights of a checkpoint: which matrices its quantisation reaches, and in what format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import translate
from functools import cache
from typing import Any, NamedTuple, NoReturn

from inferdoc.capacity.model_config import ModelConfig
from inferdoc.capacity.model_weights import WeightMatrix

FORMATS: Mapping[str, tuple[str, float]] = {
    "bf16": ("bf16", 2.0), "fp16": ("fp16", 2.0), "fp32": ("fp32", 4.0),
    "fp8": ("fp8", 1.0), "fp8_pb_wo": ("fp8", 1.0), "fp8_pc_pt": ("fp8", 1.0),
    "fp8_per_channel_per_token": ("fp8", 1.0),
    "mxfp8": ("fp8", 1.03125), "int8": ("int8", 1.0), "w8a8_sq_per_channel": ("int8", 1.0), "w8a16": ("int8", 1.0),
    "nvfp4": ("nvfp4", 0.5625), "nvfp4_awq": ("nvfp4", 0.5625), "w4a8_nvfp4_fp8": ("nvfp4", 0.5625),
    "w4a16_nvfp4": ("nvfp4", 0.5625),
    "mxfp4": ("mxfp4", 0.53125), "w4a8_mxfp4_fp8": ("mxfp4", 0.53125), "w4a16_awq": ("int4", 0.52),
    "w4a8_awq": ("int4", 0.52),
}  # fmt: skip
"""Name of a format (quant_algo of ModelOpt, in lower case) -> dtype, and bytes per weight with its scales."""
METHODS: Mapping[str, str] = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "mxfp4": "mxfp4",
    "modelopt_fp4": "nvfp4",
    "modelopt_mxfp8": "mxfp8",
}
"""quant_method of a config.json -> the one format that it has."""
EXCLUDED = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "unquantized_modules")
KV_FORMATS = {"fp8": "fp8", "fp8_e4m3": "fp8", "nvfp4": "nvfp4"}
PREFIX = re.compile(r"^.*?(?=layers\.)|^(model|language_model|backbone|transformer|text_model)\.")
RENAMED = (
    (re.compile(r"\b(attn|attention)\b"), "self_attn"),
    (re.compile(r"\b(block_sparse_moe|ffn|feed_forward|moe)\b"), "mlp"),
    (re.compile(r"\bshared_expert\b"), "shared_experts"),
    (re.compile(r"\bexperts\.[\d*]+"), "experts"),
    (re.compile(r"\b(head|output)$"), "lm_head"),
    (re.compile(r"\bmlp\.router\b"), "mlp.gate"),
    (re.compile(r"\bin_proj_(qkvz|qkv|z)\b"), "in_proj_qkvz"),
    (re.compile(r"\bin_proj_(ba|b|a)\b"), "in_proj_ba"),
    (re.compile(r"\b((?:shared_)?experts)\.(gate_up|gate|up|down|w1|w2|w3)(_proj)?\b"), r"\1"),
    (re.compile(r"\bindexer\.(weights_proj)\b"), "indexer.wk"),
    (re.compile(r"\b(fc1|fc2)_latent_proj\b"), "latent_proj"),
)
"""Other names of the same part of a layer."""


class CheckpointBytes(NamedTuple):
    """dense, routed: bytes; dtype: of most weights; kv_dtype: of the KV cache for which the checkpoint has scales, ""
    without any."""

    dense: float
    routed: float
    dtype: str
    kv_dtype: str


def checkpoint_bytes(
    config: ModelConfig, matrices: Sequence[WeightMatrix], beside: Mapping[str, Any] | None = None
) -> CheckpointBytes | None:
    """Bytes as published; None where the config gives no dtype. beside: the hf_quant_config.json of the folder. Raises
    InferdocError, which names the key, for a quantisation that is not known."""
    base = _plain(config)
    section = config.nested("quantization_config")
    if beside is not None:
        inner = beside.get("quantization", beside)
        if not isinstance(inner, Mapping):
            config.refuse("hf_quant_config.json", "expected an object under quantization")
        section = {**(section or {}), **{key: value for key, value in inner.items() if value is not None}}
    if not section:
        return None if not base else _summed(matrices, lambda matrix: base, "")
    scheme = _Scheme(config, section)
    found = _summed(matrices, lambda matrix: scheme.format_of(matrix, base or "bf16"), scheme.kv_dtype)
    scheme.refuse_unused()
    return found


def _plain(config: ModelConfig) -> str:
    word = str(config.keys.get("torch_dtype") or config.keys.get("dtype") or "").removeprefix("torch.")
    return {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(word, "")


def _summed(matrices: Sequence[WeightMatrix], format_of: Any, kv_dtype: str) -> CheckpointBytes:
    sums, by_dtype = [0.0, 0.0], Counter[str]()
    for matrix in matrices:
        dtype, width = _width(format_of(matrix))
        # vLLM loads 32-bit checkpoints in 16 bits.
        sums[matrix.routed] += matrix.parameters * min(width, 2.0)
        by_dtype["bf16" if dtype == "fp32" else dtype] += matrix.parameters
    return CheckpointBytes(sums[0], sums[1], by_dtype.most_common(1)[0][0], kv_dtype)


def _width(form: str | tuple[str, float]) -> tuple[str, float]:
    return FORMATS[form] if isinstance(form, str) else form


class _Scheme:
    """What a quantization_config says of each matrix."""

    def __init__(self, config: ModelConfig, section: Mapping[str, Any]) -> None:
        self._config, self._section = config, section
        self._excluded = [each for key in EXCLUDED for each in self._names(key)]
        self.kv_dtype = self._kv()
        algorithm = str(section.get("quant_algo") or section.get("moe_quant_algo") or "").lower()
        self._layers: dict[str, str | tuple[str, float]] = {}
        self._used: set[str] = set()
        self._rest: str | tuple[str, float] = "bf16"
        if algorithm == "mixed_precision":
            self._mixed(section.get("quantized_layers"))
        elif algorithm:
            self._rest = self._algorithm("quant_algo", algorithm, section)
        else:
            self._rest = self._method(str(section.get("quant_method") or "").lower())

    def format_of(self, matrix: WeightMatrix, base: str) -> str | tuple[str, float]:
        """The format of a matrix, base where quantisation does not reach it."""
        if not matrix.quantised:
            return base
        names = _aliases(matrix.name)
        if self._layers:
            key = next((key for name in names for key in _above(name) if key in self._layers), None)
            self._used |= {key} if key else set()
            return base if key is None else self._layers[key]
        if matrix.name == "lm_head" and not self._section.get("lm_head"):
            return base
        if self._rest == "mxfp4" and self._section.get("quant_method") == "mxfp4" and not matrix.routed:
            return base
        if any(_matches(pattern, name) for pattern in self._excluded for name in names):
            return base
        return self._rest

    def refuse_unused(self) -> None:
        """Refuse layers with a format of their own that no matrix of the model has."""
        for name in sorted(set(self._layers) - self._used):
            if name.startswith("layers.") or name == "mlp.experts":
                self._refuse("quantized_layers", name)

    def _refuse(self, key: str, value: object) -> NoReturn:
        self._config.refuse(f"quantization_config.{key}", f"{str(value)[:60]!r} is not known; give --dtype")
        raise AssertionError

    def _names(self, key: str) -> list[str]:
        listed = self._section.get(key) or []
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            self._refuse(key, listed)
        found = [_canonical(each) for each in listed]
        for pattern in found:
            try:
                _compiled(pattern)
            except re.error:
                self._refuse(key, pattern)
        return found

    def _kv(self) -> str:
        scheme = self._section.get("kv_cache_quant_algo") or self._section.get("kv_cache_scheme")
        if isinstance(scheme, Mapping):
            scheme = {8: "fp8", 4: "nvfp4"}.get(scheme.get("num_bits"), scheme)  # type: ignore[arg-type]
        if not scheme or str(scheme).lower() in ("none", "auto"):
            return ""
        return KV_FORMATS.get(str(scheme).lower()) or self._refuse("kv_cache_quant_algo", scheme)

    def _algorithm(self, key: str, name: str, section: Mapping[str, Any]) -> str | tuple[str, float]:
        if name not in FORMATS:
            self._refuse(key, name)
        if FORMATS[name][0] == "int4":
            return "int4", _grouped(4, section.get("group_size"))
        return name

    def _mixed(self, layers: object) -> None:
        if not isinstance(layers, Mapping) or not layers:
            self._refuse("quantized_layers", layers)
        if str(self._section.get("quant_method") or "modelopt").lower() not in ("modelopt", "modelopt_mixed"):
            self._refuse("quant_method", f"{self._section['quant_method']} beside MIXED_PRECISION")
        for name, entry in layers.items():
            algorithm = str(entry.get("quant_algo") if isinstance(entry, Mapping) else entry).lower()
            self._layers[_canonical(str(name))] = self._algorithm(
                "quantized_layers", algorithm, entry if isinstance(entry, Mapping) else {}
            )

    def _method(self, method: str) -> str | tuple[str, float]:
        if method in METHODS:
            return METHODS[method]
        groups = self._section.get("config_groups")
        if isinstance(groups, Mapping) and groups:
            return self._group(groups)
        bits = self._section.get("bits", self._section.get("w_bit", 4 if method in ("awq", "gptq") else None))
        if method in ("awq", "gptq", "auto-round") and bits in (4, 8):
            return ("int4", _grouped(4, self._section.get("group_size", 128))) if bits == 4 else "int8"
        if method == "bitsandbytes":
            return ("int4", 0.516) if self._section.get("load_in_4bit") else "int8"
        return self._refuse("quant_method", method)

    def _group(self, groups: Mapping[str, Any]) -> str | tuple[str, float]:
        """Of compressed-tensors. Groups of different formats are refused."""
        found = {self._of_group(group) for group in groups.values()}
        if len(found) != 1:
            self._refuse("config_groups", f"{len(found)} groups of different formats")
        targets = [each for group in groups.values() for each in group.get("targets") or ["Linear"]]
        if any(target != "Linear" for target in targets):
            self._layers_by_target(targets, found.copy().pop())
        return found.pop()

    def _layers_by_target(self, targets: Sequence[str], form: str | tuple[str, float]) -> None:
        known = [_canonical(target) for target in targets if target != "Linear"]
        if not any("experts" in target for target in known):
            self._refuse("config_groups.targets", targets)
        # Of the targets that are named, those of the experts alone are known.
        self._layers["mlp.experts"] = form

    def _of_group(self, group: object) -> str | tuple[str, float]:
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if not isinstance(weights, Mapping):
            self._refuse("config_groups", group)
        bits, size, kind = weights.get("num_bits"), weights.get("group_size"), str(weights.get("type") or "int")
        if (bits, kind) == (8, "float"):
            return "mxfp8" if size == 32 else "fp8"
        if (bits, kind) == (4, "float"):
            return {16: "nvfp4", 32: "mxfp4"}.get(size if isinstance(size, int) else 0) or self._refuse(
                "group_size", size
            )
        if bits == 8:
            return "int8"
        return ("int4", _grouped(4, size)) if bits == 4 else self._refuse("num_bits", bits)


def _grouped(bits: int, size: object) -> float:
    """Bytes per weight with a 16-bit scale and a zero point for each group."""
    group = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 10_000
    return bits / 8 + (2.0 + bits / 8) / group


def _canonical(name: str) -> str:
    """A module name or pattern as model_weights names modules."""
    if name.startswith("re:"):
        return name
    previous = ""
    while name != previous:
        previous, name = name, PREFIX.sub("", name, count=1)
    for other, ours in RENAMED:
        name = other.sub(ours, name)
    return name.removesuffix(".weight")


@cache
def _aliases(name: str) -> tuple[str, ...]:
    """The name of a module, and that in models whose layers have a single part, the mixer."""
    return name, re.sub(r"\b(self_attn|mlp|mamba)\b", "mixer", name)


def _above(name: str) -> list[str]:
    """A name and those of the modules that hold it, with and without the layer."""
    parts = name.split(".")
    whole = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    return [*whole, ".".join(parts[2:])]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern.startswith("re:"):
        return re.compile(pattern[3:])
    within = translate(pattern).removesuffix(r"\Z").removesuffix(r"\z")
    return re.compile(rf"(.*\.)?{within}(\..*)?\Z")


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern names a module or one that holds it."""
    if not pattern.startswith("re:"):
        return _compiled(pattern).match(name) is not None
    original = (name, name.replace("mlp", "block_sparse_moe"), name.replace("self_attn", "attn"))
    return any(_compiled(pattern).match(each) for one in original for each in (f"model.{one}", f"model.{one}.weight"))
