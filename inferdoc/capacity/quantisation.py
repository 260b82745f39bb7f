"""Bytes of the weights of a checkpoint: which matrices its quantisation reaches, and in what format."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from functools import cache
from typing import Any, NamedTuple, NoReturn

from inferdoc.capacity.model_config import EXPERTS, ModelConfig
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
EXCLUDED = (
    "ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "unquantized_modules", "exclude",
    "llm_int8_skip_modules",
)  # fmt: skip
LISTS = frozenset({
    *EXCLUDED, "config_groups", "quantized_layers", "kv_cache_scheme", "dynamic", "extra_config",
    "layer_quant_config", "global_quant_config", "sparsity_config", "weight_block_size", "producer", "transform_config",
    "meta", "supported_types", "to_quant_block_names", "block_name_to_quantize", "exllama_config", "export",
    "algo_config", "kv_cache_quant_config",
})  # fmt: skip
"""Keys of a quantization_config with a list or an object that are read, or that change no bytes of weights. Any other
list or object may name layers or formats, and is refused."""
QUARK = {"fp8_e4m3": "fp8", "int8": "int8", "uint8": "int8"}
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
        for key, value in section.items():
            if value and isinstance(value, list | Mapping) and key not in LISTS:
                self._refuse(key, value)
        for part in (section, section.get("sparsity_config")):
            packed = part.get("format") if isinstance(part, Mapping) else part
            if re.search("sparse|24", str(packed)):
                self._refuse("format", packed)
        self._excluded = [each for key in EXCLUDED for each in self._names(key)]
        self.kv_dtype = self._kv()
        algorithm = str(section.get("quant_algo") or section.get("moe_quant_algo") or "").lower()
        self._layers: dict[str, str | tuple[str, float]] = {}
        self._used: set[str] = set()
        self._targets: set[str] = set()
        self._overrides: list[tuple[str, str | tuple[str, float] | None]] = []
        self._rest: str | tuple[str, float] = "bf16"
        if algorithm == "mixed_precision":
            self._mixed(section.get("quantized_layers"))
        elif algorithm:
            self._rest = self._algorithm("quant_algo", algorithm, section)
        else:
            self._rest = self._method(str(section.get("quant_method") or "").lower())
        self._overrides += self._own_formats()

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
        if any(self._reaches(pattern, name) for pattern in self._excluded for name in names):
            return base
        for pattern, form in self._overrides:
            if any(self._reaches(pattern, name) for name in names):
                self._used.add(pattern)
                return form or base
        return self._rest

    def _reaches(self, pattern: str, name: str) -> bool:
        found = _matched(pattern, name)
        if 0 < found < 1:
            self._refuse("ignore" if pattern in self._excluded else "targets", f"a part of {name}: {pattern}")
        return found == 1

    def refuse_unused(self) -> None:
        """Refuse layers with a format of their own that no matrix of the model has."""
        for target in sorted(self._targets - self._used):
            self._refuse("config_groups.targets", target)
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
        self._refuse_single_experts(key, listed)
        return [self._pattern(key, _canonical(each)) for each in listed]

    def _pattern(self, key: str, pattern: str) -> str:
        try:
            _compiled(pattern)
        except re.error:
            self._refuse(key, pattern)
        return pattern

    def _refuse_single_experts(self, key: str, names: Iterable[str]) -> None:
        """The experts of a layer are one matrix here, so a list has to name all of them or none."""
        named: dict[str, set[str]] = defaultdict(set)
        for name in names:
            if not name.startswith("re:") and (part := re.search(r"(.*\bexperts)\.(\d+)\b", name)):
                named[part[1]].add(part[2])
        for layer, experts in named.items():
            if len(experts) < self._config.first(EXPERTS):
                self._refuse(key, f"{len(experts)} experts of {layer}")

    def _own_formats(self) -> Iterator[tuple[str, str | tuple[str, float] | None]]:
        """Patterns of modules that GPTQModel (dynamic), AutoRound (extra_config) or Quark (layer_quant_config) gives a
        format of their own, None for that of the unquantised weights; the first that matches counts."""
        for key in ("dynamic", "extra_config", "layer_quant_config"):
            entries = self._section.get(key) or {}
            if not isinstance(entries, Mapping) or not all(isinstance(each, Mapping) for each in entries.values()):
                self._refuse(key, entries)
            self._refuse_single_experts(key, entries)
            for name, entry in entries.items():
                regular = key == "dynamic" or (key == "extra_config" and re.search(r"[*\\^$+]", name))
                pattern = "re:" + re.sub(r"^[+-]:", "", name) if regular else _canonical(name)
                form = None
                if key == "layer_quant_config":
                    form = self._quark(entry)
                elif not name.startswith("-:") and entry.get("bits") not in (16, 32):
                    form = self._packed({**self._section, **entry}, key)
                yield self._pattern(key, pattern), form

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
        if method in ("awq", "gptq", "auto-round"):
            return self._packed(self._section, "bits")
        if method == "quark" and isinstance(spec := self._section.get("global_quant_config"), Mapping):
            return self._quark(spec) or "bf16"
        if method == "bitsandbytes" and self._section.get("load_in_4bit"):  # a scale for 64 weights, of 32 or 8 bits
            return "int4", 0.516 if self._section.get("bnb_4bit_use_double_quant") else 0.5625
        if method == "bitsandbytes" and self._section.get("load_in_8bit"):
            return "int8"
        return self._refuse("quant_method", method)

    def _packed(self, section: Mapping[str, Any], key: str) -> str | tuple[str, float]:
        """Of AWQ, GPTQ and AutoRound: weights in groups with a scale and a zero point."""
        bits = section.get("bits", section.get("w_bit", 4))
        size = section.get("group_size", section.get("q_group_size", 128))
        kind = str(section.get("data_type") or "int")
        if bits not in (4, 8):
            self._refuse(key, f"{bits} bits")
        if kind != "int":
            known = {("nv_fp", "4", "16"): "nvfp4", ("mx_fp", "4", "32"): "mxfp4"}
            return known.get((kind, str(bits), str(size))) or self._refuse("data_type", kind)
        return f"int{bits}", _grouped(bits, size)

    def _quark(self, spec: Mapping[str, Any]) -> str | tuple[str, float] | None:
        """Of AMD Quark; None where it gives the weights no format."""
        weight = spec.get("weight")
        if weight is None:
            return None
        dtype, size = (weight.get("dtype"), weight.get("group_size")) if isinstance(weight, Mapping) else (weight, None)
        if dtype in ("int4", "uint4"):
            return "int4", _grouped(4, size)
        if dtype == "fp4" and size == 32:
            return "mxfp4"
        return QUARK.get(str(dtype)) or self._refuse("weight", f"{dtype} in groups of {size}")

    def _group(self, groups: Mapping[str, Any]) -> str | tuple[str, float]:
        """Of compressed-tensors: a format for all linear layers, and those of the modules that are named."""
        rest: set[str | tuple[str, float]] = set()
        for group in groups.values():
            form = self._of_group(group)
            targets = group.get("targets") or ["Linear"]
            for target in targets if isinstance(targets, list) else [targets]:
                if target == "Linear":
                    rest.add(form)
                elif isinstance(target, str):
                    self._targets.add(self._pattern("config_groups.targets", _canonical(target)))
                    self._overrides.append((_canonical(target), form))
                else:
                    self._refuse("config_groups.targets", target)
        if len(rest) > 1:
            self._refuse("config_groups", f"{len(rest)} formats of all linear layers")
        return rest.pop() if rest else "bf16"

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
            return "int8", _grouped(8, size)
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


@cache
def _matched(pattern: str, name: str) -> float:
    """The share of a module that a pattern names, or that is in a module which it names."""
    if not pattern.startswith("re:"):
        return float(_compiled(pattern).match(name) is not None)
    others = (("mlp", "block_sparse_moe"), ("self_attn", "attn"), ("shared_experts", "shared_expert"))
    names = [f"model.{each}" for each in (name, *(name.replace(*other) for other in others))]
    if any(_compiled(pattern).match(each + end) for each in names for end in ("", ".weight")):
        return 1.0
    if not name.endswith("experts"):
        return 0.0
    inner = "" if name.endswith("shared_experts") else ".0"
    parts = (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2"))
    found = [
        any(_compiled(pattern).match(f"{each}{inner}.{part}") for each in names for part in spelled)
        for spelled in parts
    ]
    return sum(found) / len(parts)
