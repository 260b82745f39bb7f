"""Check the flags of workloads against the hardware tier and the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from inferdoc.audit.manifest import Declared
from inferdoc.capacity.memory import NON_KV_SPREAD
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.json_document import JsonDocument
from inferdoc.sizing.build import Sized, kv_cost_of, sized
from inferdoc.sizing.inputs import SizingInputs
from inferdoc.sizing.request import sizing_inputs
from inferdoc.words import figure

PREFLIGHT_SCHEMA_ID = "inferdoc.preflight/v1"


class PreflightProblem(msgspec.Struct):
    """One thing that cannot work, or not as meant. check: its name; flag: where it is set; text: what is wrong; do:
    what to change."""

    workload: str
    file: str
    check: str
    flag: str
    text: str
    do: str


class PreflightAnswer(JsonDocument):
    """checked: workloads with an engine; skipped: workloads that could not be checked, each with the reason."""

    schema: str
    tier: str
    checked: list[str]
    problems: list[PreflightProblem]
    skipped: list[str]

    def to_text(self) -> str:
        """One line for each problem, one for each workload without any."""
        found = {problem.workload for problem in self.problems}
        lines = [f"{each.workload}: {each.flag}: {each.text}; {each.do}" for each in self.problems]
        lines += [f"{name}: no problem found for {self.tier}" for name in self.checked if name not in found]
        return "\n".join([*lines, *(f"not evaluated: {reason}" for reason in self.skipped)]) + "\n"


SHORT_REQUEST = 512
"""Tokens of a short request, prompt and response: a cache that holds fewer of these than --max-num-seqs never runs as
many (own choice)."""
QUANTISATIONS = {
    "fp8": "fp8", "fbgemm_fp8": "fp8", "ptpc_fp8": "fp8", "modelopt": "fp8", "modelopt_fp4": "nvfp4", "nvfp4": "nvfp4",
    "petit_nvfp4": "nvfp4", "mxfp4": "mxfp4", "awq": "int4", "awq_marlin": "int4", "gptq": "int4",
    "gptq_marlin": "int4",
}  # fmt: skip
"""--quantization of vLLM -> dtype of the weights."""
DTYPES = {"bfloat16": "bf16", "half": "fp16", "float16": "fp16"}
KV_DTYPES = {
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "bfloat16": "bf16",
    "float16": "fp16",
    "nvfp4": "nvfp4",
}
OPTIONS = {"--tp": "--tensor-parallel-size", "--pp": "--pipeline-parallel-size"}
"""Option of `inferdoc size` -> flag of vLLM."""
TENSOR, BLOCK, KV = "--tensor-parallel-size", "--block-size", "--kv-cache-dtype"
SHARE, LENGTH, SEQUENCES = "--gpu-memory-utilization", "--max-model-len", "--max-num-seqs"


@dataclass(frozen=True)
class Workload:
    """One engine as it would start. flags: as declared; inputs, layout: as sized."""

    declared: Declared
    inputs: SizingInputs
    fit: Sized

    @property
    def name(self) -> str:
        return name_of(self.declared)

    @property
    def flags(self) -> Mapping[str, str]:
        return self.declared.settings


def name_of(declared: Declared) -> str:
    """namespace/workload, or the workload alone."""
    return f"{declared.namespace}/{declared.workload}" if declared.namespace else declared.workload


def preflight(declared: Sequence[Declared], tier: str, catalogue: Catalogue) -> PreflightAnswer:
    """The problems of the workloads on a tier. Raises InferdocError for a tier that is not known."""
    workloads, skipped, problems = [], [], []
    for one in declared:
        if "image" not in one.settings:
            continue
        try:
            workloads.append(_workload(one, tier, catalogue))
        except InferdocError as error:
            flag, _, text = str(error).partition(": ")
            if flag == "--tier":
                raise InferdocError(f"--for-tier: {text}") from None
            if flag.startswith("--") and flag != "--model":
                text = f"{flag.partition(' ')[2]}: {text}".removeprefix(": ")
                name = OPTIONS.get(flag.split()[0], flag.split()[0])
                problems.append(
                    PreflightProblem(name_of(one), one.file, "flag-refused", name, text, "vLLM does not start with it")
                )
                continue
            skipped.append(f"{name_of(one)}: {error}")
    problems += [
        PreflightProblem(each.name, each.declared.file, check, flag, text, do)
        for each in workloads
        for check, of in CHECKS.items()
        for flag, text, do in of(each)
    ]
    problems += _pairs(workloads)
    return PreflightAnswer(PREFLIGHT_SCHEMA_ID, tier, [each.name for each in workloads], problems, skipped)


def _workload(one: Declared, tier: str, catalogue: Catalogue) -> Workload:
    flags = one.settings
    model = flags.get("--model")
    if not model:
        raise InferdocError("no model in its arguments: give --model, or vllm serve MODEL")
    options: dict[str, Any] = {"model": model, "tier": tier, "prompt_tokens": "1,1", "output_tokens": "1,1"}
    numbers = {
        "tp": TENSOR, "pp": "--pipeline-parallel-size", "dp": "--data-parallel-size", "max_num_seqs": SEQUENCES,
        "max_num_batched_tokens": "--max-num-batched-tokens",
    }  # fmt: skip
    for key, flag in numbers.items():
        if flag in flags:
            options[key] = _number(flag, flags[flag], whole=True)
    options.setdefault("tp", 1)
    if SHARE in flags:
        options["gpu_memory_utilization"] = _number(SHARE, flags[SHARE], whole=False)
    options["dtype"] = QUANTISATIONS.get(flags.get("--quantization", "")) or DTYPES.get(flags.get("--dtype", ""))
    options["kv_dtype"] = KV_DTYPES.get(flags.get(KV, ""))
    inputs = sizing_inputs(options, catalogue)
    return Workload(one, inputs, sized(inputs, inputs.layouts[0]))


def _number(flag: str, text: str, *, whole: bool) -> float:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e9:
        raise InferdocError(f"{flag} {text[:40]}: expected a number above 0")
    return value


Found = Iterator[tuple[str, str, str]]
"""Flag, what is wrong, what to do."""


def _arithmetic(each: Workload) -> Found:
    tier, flags = each.inputs.tier, each.flags
    for dtype, figures in (("fp8", tier.fp8_tflops), ("nvfp4", tier.fp4_tflops), ("mxfp4", tier.fp4_tflops)):
        if figures is None and each.inputs.dtype == dtype:
            flag = "--quantization" if "--quantization" in flags else "--model"
            text = f"{dtype} weights, and {tier.title} has no {dtype[-3:].upper()} arithmetic"
            yield flag, text, "memory is saved, time is not: check that 16 bits or INT8 would not do"
    if each.inputs.kv_dtype == "fp8" and tier.fp8_tflops is None:
        yield KV, f"an FP8 cache on {tier.title}, which has no FP8", "use auto, unless the memory is the aim"


def _heads(each: Workload) -> Found:
    kv, tensor = each.inputs.shape.kv, each.inputs.layouts[0].tensor
    if kv.latent or not kv.kv_heads:
        return
    if kv.kv_heads % tensor and tensor % kv.kv_heads:
        text = f"{tensor} GPUs cannot share the {kv.kv_heads} KV heads evenly"
        yield TENSOR, text, "vLLM does not start: take a divisor"
    elif tensor > kv.kv_heads:
        text = f"{tensor} GPUs for {kv.kv_heads} KV heads: each head is kept {tensor // kv.kv_heads} times"
        yield TENSOR, text, f"at most {kv.kv_heads}, and more replicas"


def _room(each: Workload) -> Found:
    room = each.fit.memory.kv
    if room <= 0:
        text = (
            f"weights and the rest take {figure(-room, 'bytes')} more than {each.inputs.limits.memory_share:g} leaves"
        )
        yield SHARE, text, "raise it, take more GPUs, or a smaller dtype"


def _context(each: Workload) -> Found:
    room = each.fit.memory.kv
    given, model = each.flags.get(LENGTH), each.inputs.shape.max_len
    length = int(_number(LENGTH, given, whole=True)) if given and given.isdigit() else model
    if given and given.isdigit() and model and length > model:
        yield LENGTH, f"{length:,} tokens, and the model takes {model:,}", f"at most {model}"
    longest = kv_cost_of(each.inputs, each.inputs.layouts[0]).longest(max(0.0, room) + NON_KV_SPREAD)
    if room > 0 and length > longest:
        text = f"a context of {length:,} tokens cannot fit: the cache of a rank holds at most {longest:,.0f}"
        yield LENGTH, text, f"at most {int(longest)}, or more GPUs"


def _sequences(each: Workload) -> Found:
    room = each.fit.memory.kv + NON_KV_SPREAD
    one = kv_cost_of(each.inputs, each.inputs.layouts[0]).bytes(SHORT_REQUEST)
    most = int(room / one)
    if each.fit.memory.kv > 0 and SEQUENCES in each.flags and most < each.inputs.limits.sequences:
        text = f"{each.inputs.limits.sequences:,} requests, and the cache holds {most:,} of {SHORT_REQUEST} tokens"
        yield SEQUENCES, text, "lower it: the rest is preempted or waits"


CHECKS: Mapping[str, Callable[[Workload], Found]] = {
    "arithmetic-missing": _arithmetic,
    "heads-not-shared": _heads,
    "no-room-for-cache": _room,
    "context-cannot-fit": _context,
    "sequences-beyond-cache": _sequences,
}


def _role(each: Workload) -> str:
    try:
        config = json.loads(each.flags.get("--kv-transfer-config", "{}"))
    except NOT_JSON:
        return ""
    return str(config.get("kv_role", "")) if isinstance(config, dict) else ""


def _pairs(workloads: Sequence[Workload]) -> Iterator[PreflightProblem]:
    """Prefill and decode of one model that cannot exchange their cache."""
    apart = [each for each in workloads if _role(each)]
    for index, one in enumerate(apart):
        for other in apart[index + 1 :]:
            if one.inputs.shape.name != other.inputs.shape.name or one.declared.namespace != other.declared.namespace:
                continue
            for flag, mine, its in (
                (BLOCK, one.flags.get(BLOCK, "default"), other.flags.get(BLOCK, "default")),
                (KV, one.inputs.kv_dtype, other.inputs.kv_dtype),
                ("--dtype", one.inputs.dtype, other.inputs.dtype),
            ):
                if mine != its:
                    text = f"{mine} here and {its} in {other.name}, with which it exchanges its KV cache"
                    yield PreflightProblem(
                        one.name, one.declared.file, "pair-differs", flag, text, "give both the same"
                    )
