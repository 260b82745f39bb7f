"""From command options to the inputs of a sizing: every flag checked, one line for each fault."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from inferdoc.capacity.memory import KV_DTYPES, MEMORY_SHARE, SPARSE_LAYER_BYTES, WEIGHT_DTYPES
from inferdoc.capacity.model_shape import ModelShape, shape_of
from inferdoc.capacity.service_level import HEADROOM_NEW
from inferdoc.capacity.step_time import DRAFT_COST
from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.efficiency import ENGINES
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Tier
from inferdoc.config_sections import PricesSection
from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.sizing.answer import answered, sizing_steps
from inferdoc.sizing.choice import batch_job
from inferdoc.sizing.fleet_part import GpuPrice
from inferdoc.sizing.inputs import (
    Drafting,
    EngineLimits,
    Parallelism,
    SizingInputs,
    TrafficInputs,
    mixed_length,
    read_classes,
    read_length,
)
from inferdoc.sizing.live import BackTest, LivePool, calibrated
from inferdoc.sizing.model import SizeAnswer
from inferdoc.times import length_of
from inferdoc.words import figure

SIZES = (1, 2, 4, 8)
"""Tensor parallelism within one node."""
STAGES = (1, 2, 4)
"""Pipelines over nodes, looked at only where one node holds no replica."""
MOST_RATE, MOST_GPUS = 1e6, 1024
DEFAULT_TTFT, DEFAULT_ITL = 2.0, 0.05
"""Objectives of a chat (own choice)."""
LONGEST_DRAFT = 64
LARGE_MEMORY_GIB, MEDIUM_MEMORY_GIB = 160, 70
WITHOUT_BF16 = ("t4",)
"""vLLM refuses BF16 below compute capability 8.0."""


def sized_for_request(
    options: Mapping[str, Any], catalogue: Catalogue, like: LivePool | None = None, prices: PricesSection | None = None
) -> SizeAnswer:
    """The sizing for the options of the command. like: a live pool, for what they leave open; prices: for money. Raises
    InferdocError."""
    return steps_for_request(options, catalogue, like, prices)[0]


def steps_for_request(
    options: Mapping[str, Any], catalogue: Catalogue, like: LivePool | None = None, prices: PricesSection | None = None
) -> tuple[SizeAnswer, list[tuple[str, str]]]:
    """The sizing, and title and result of each step of the guide. Raises InferdocError."""
    sizing, test = calibrated_inputs(options, catalogue, like)
    answer = answered(sizing, test, _price(sizing, prices))
    return answer, sizing_steps(sizing, answer)


def calibrated_inputs(
    options: Mapping[str, Any], catalogue: Catalogue, like: LivePool | None
) -> tuple[SizingInputs, BackTest | None]:
    """The inputs of a sizing, with the shares that a live pool reaches and their back-test. Raises InferdocError."""
    if like is None:
        return sizing_inputs(options, catalogue), None
    if options.get("tp") is None:
        raise InferdocError(f"--like {like.name}: give --tp, the layout of its pods; no metric shows it")
    sizing = sizing_inputs(with_live(options, like, catalogue), catalogue)
    return calibrated(sizing, like, Parallelism(options["tp"], options.get("pp") or 1, options.get("dp") or 1))


def _price(sizing: SizingInputs, prices: PricesSection | None) -> GpuPrice | None:
    """Of a GPU-hour of the tier; None without one."""
    found = None if prices is None else prices.per_gpu_hour(sizing.tier_name)
    return None if prices is None or found is None else GpuPrice(found, prices.currency)


def with_live(options: Mapping[str, Any], pool: LivePool, catalogue: Catalogue) -> dict[str, Any]:
    """The options with the values of the pool where none are given. Raises InferdocError for another model or tier."""
    if options.get("model") is None and model_known(pool.model, catalogue) is None:
        raise InferdocError(
            f'--like {pool.name}: its model "{pool.model}" is not known; give --model with a config.json'
        )
    if pool.role != "both":
        raise InferdocError(f"--like {pool.name}: its pods do {pool.role} alone; size knows pods that do both")
    known = model_known(pool.model, catalogue)
    for flag, given, true in (
        ("model", None if options.get("model") is None else model_known(options["model"], catalogue), known),
        ("tier", options.get("tier"), pool.tier),
    ):
        if given is not None and true is not None and given.lower() != true.lower():
            raise InferdocError(
                f"--{flag} {given}: the pods of {pool.name} run {true}; what they reach says nothing of it"
            )
    own = {
        "model": pool.model,
        "tier": pool.tier,
        "prompt_tokens": f"{pool.prompt.mean:.6g},{pool.prompt.p95:.6g}",
        "output_tokens": f"{pool.output.mean:.6g},{pool.output.p95:.6g}",
        "rate": pool.rate if options.get("concurrency") is None else None,
        "prefix_share": pool.prefix_share,
        "pp": 1,
    }
    return {**options, **{key: value for key, value in own.items() if options.get(key) is None}}


def with_slo(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with both objectives of --slo as --ttft and --itl. Raises InferdocError."""
    given = options.get("slo")
    if given is None:
        return dict(options)
    found: dict[str, Any] = {}
    for part in str(given).split(","):
        name, equals, value = part.strip().partition("=")
        if name not in ("ttft", "itl") or not equals or name in found:
            raise InferdocError(f"--slo {given}: expected ttft=2s,itl=50ms, or one of the two")
        if options.get(name) is not None:
            raise InferdocError(f"--slo and --{name} are mutually exclusive")
        found[name] = value
    return {**options, **found}


def sizing_inputs(options: Mapping[str, Any], catalogue: Catalogue) -> SizingInputs:
    """What the values of the command's options describe, each checked. Raises InferdocError."""
    assumed: list[str] = []
    of_lengths = () if options.get("classes") else ("prompt_tokens", "output_tokens")
    for key in ("model", "tier", *of_lengths):
        if options.get(key) is None:
            raise InferdocError(f"--{key.replace('_', '-')} is needed, or --like with a live pool that shows it")
    shape = shape_named(str(options["model"]), catalogue)
    name, tier = tier_named(str(options["tier"]), catalogue)
    dtype = _dtype(options.get("dtype"), shape, assumed)
    kv_dtype = _kv_dtype(options.get("kv_dtype"), shape, assumed)
    traffic = _traffic(options, shape, assumed)
    limits = _limits(options, name, tier, assumed)
    for flag, width in (("dtype", dtype), ("kv-dtype", kv_dtype)):
        if name in WITHOUT_BF16 and width == "bf16":
            raise InferdocError(f"--{flag} bf16: {tier.title} has no BF16; give --dtype fp16 --kv-dtype fp16")
    layouts, chosen = _layouts(options, shape)
    if shape.exact:
        assumed.append("bytes of the weights: as model.safetensors.index.json gives them")
    if shape.counted:
        assumed.append(f"{shape.parameters / 1e9:,.1f} billion parameters, counted from the layers of {shape.name}")
    if shape.prediction:
        assumed.append("heads that predict further tokens are not loaded: engines do so for speculation alone")
    if shape.kv.sparse:
        assumed.append("sparse attention reads the whole cache in a step: at most too slow")
    return SizingInputs(
        shape,
        dtype,
        kv_dtype,
        name,
        tier,
        catalogue.efficiency,
        layouts,
        chosen,
        traffic,
        limits,
        _seconds(options, "ttft", DEFAULT_TTFT, assumed),
        _seconds(options, "itl", DEFAULT_ITL, assumed),
        _safety(options, traffic, assumed),
        catalogue.tiers,
        options.get("server") or ENGINES[0],
        _drafting(options, assumed),
        batch_job(options.get("batch")),
        objectives_given=options.get("ttft") is not None or options.get("itl") is not None,
        assumed=assumed,
    )


def shape_named(given: str, catalogue: Catalogue) -> ModelShape:
    """The shape of a known model, or of the config.json that is given. Raises InferdocError."""
    path = Path(given)
    try:
        path = path / "config.json" if path.is_dir() else path
        is_file = path.suffix == ".json" or path.is_file()
    except OSError as error:
        raise InferdocError(f"--model {given[:60]}: cannot be read: {error.strerror or error}") from None
    if is_file:
        beside = (_beside(path, name) for name in ("hf_quant_config.json", "model.safetensors.index.json"))
        return shape_of(given, _read(path), *beside)
    name = model_known(given, catalogue) or given.lower()
    known = catalogue.models.get(name)
    if known is None:
        raise InferdocError(
            f'--model: no known model "{given}"{nearest(name, catalogue.models)}; give its config.json, or one of '
            f"{', '.join(catalogue.models)}"
        )
    return shape_of(name, known.config).as_published(known.parameters, known.active)


def model_known(given: str, catalogue: Catalogue) -> str | None:
    """The name under which a model is known, by that name or by the title under which it is served."""
    names = {known.title.lower(): name for name, known in catalogue.models.items()}
    name = names.get(given.lower(), given.lower())
    return name if name in catalogue.models else None


def _beside(path: Path, name: str) -> Mapping[str, Any] | None:
    other = path.with_name(name)
    return _read(other) if other != path and other.is_file() else None


def _read(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InferdocError(f"--model {path}: cannot be read: {error.strerror or error}") from None
    except NOT_JSON:
        raise InferdocError(f"--model {path}: no JSON, or cut off; give the config.json of the model") from None
    if not isinstance(config, dict):
        raise InferdocError(f"--model {path}: expected an object; give the config.json of the model")
    return config


def tier_named(given: str, catalogue: Catalogue) -> tuple[str, Tier]:
    tiers = {name: tier for name, tier in catalogue.tiers.tiers.items() if tier.names}
    name = given.lower()
    if name not in tiers:
        raise InferdocError(f'--tier: no tier "{given}"{nearest(name, tiers)}; known: {", ".join(tiers)}')
    return name, tiers[name]


def _dtype(given: str | None, shape: ModelShape, assumed: list[str]) -> str:
    if given is not None:
        return given
    if not shape.dtype:
        raise InferdocError(
            f"{shape.name}: its config does not name the dtype of the weights; give --dtype, one of "
            f"{', '.join(WEIGHT_DTYPES)}"
        )
    assumed.append(f"weights in {shape.dtype}, as its config says (--dtype)")
    return shape.dtype


def _kv_dtype(given: str | None, shape: ModelShape, assumed: list[str]) -> str:
    known = SPARSE_LAYER_BYTES if shape.kv.sparse else KV_DTYPES
    if given is None:
        own = "" if shape.published is None else shape.published.kv_dtype
        default = own if own in known else next(iter(known))
        why = "for which the checkpoint has scales" if default == own else "as vLLM takes it by default"
        assumed.append(f"KV cache in {default}, {why} (--kv-dtype)")
        return default
    if given not in known:
        raise InferdocError(f"--kv-dtype {given}: {shape.kv.attention} has {' and '.join(known)}")
    return given


def _traffic(options: Mapping[str, Any], shape: ModelShape, assumed: list[str]) -> TrafficInputs:
    classes = read_classes(options, _seconds(options, "itl", DEFAULT_ITL, []), assumed)
    if classes:
        prompt, output = (
            mixed_length([(each.share, getattr(each, part)) for each in classes]) for part in ("prompt", "output")
        )
    else:
        prompt, output = (read_length(options, key, assumed) for key in ("prompt_tokens", "output_tokens"))
    longest = prompt.mean + output.mean
    if shape.max_len and longest > shape.max_len:
        raise InferdocError(
            f"a request of {prompt.mean:g} + {output.mean:g} tokens is longer than {shape.name} takes: "
            f"{shape.max_len:,}"
        )
    room = shape.max_len - output.mean
    if prompt.assumed and shape.max_len and prompt.p95 > room:
        prompt = replace(prompt, p95=room)
    rate, concurrent = options.get("rate"), options.get("concurrency")
    if rate is not None and concurrent is not None:
        raise InferdocError("--rate and --concurrency are mutually exclusive")
    if concurrent is None and rate is None and options.get("max_num_seqs") == 1:
        concurrent = 1
        assumed.append("the next request follows when one is done, as --max-num-seqs is 1 (--rate)")
    if rate is not None and not 0 < rate <= MOST_RATE:
        raise InferdocError(f"--rate {rate:g}: expected requests per second, above 0 and at most {MOST_RATE:,.0f}")
    requests = options.get("requests")
    if requests is not None and concurrent is None:
        raise InferdocError("--requests needs --concurrency: it counts the requests of a closed loop")
    share = options.get("prefix_share")
    if classes:
        share = sum(each.share * each.prompt.mean * each.prefix_share for each in classes) / prompt.mean
    if share is None:
        share = 0.0
        assumed.append("no prompt token hits the prefix cache (--prefix-share)")
    if not 0 <= share < 1:
        raise InferdocError(f"--prefix-share {share:g}: expected a share of 0 to below 1, 0.4 for 40 %")
    return TrafficInputs(prompt, output, rate, share, concurrent, requests, classes)


def _limits(options: Mapping[str, Any], name: str, tier: Tier, assumed: list[str]) -> EngineLimits:
    """Those of vLLM 0.32's API server where none are given, by the memory of the GPU."""
    memory = tier.memory_gib.value
    if memory >= LARGE_MEMORY_GIB:
        batched, sequences = 16384, 1024
    elif memory >= MEDIUM_MEMORY_GIB and not name.startswith("a100"):
        batched, sequences = 8192, 1024
    else:
        batched, sequences = 2048, 256
    chosen = []
    budget = int(options.get("max_num_batched_tokens") or batched)
    sequences = min(sequences, budget)
    if (options.get("max_num_seqs") or 0) > budget:
        raise InferdocError(
            f"--max-num-seqs {options['max_num_seqs']}: more than the {budget} of --max-num-batched-tokens; vLLM does "
            "not start so"
        )
    for flag, value in (("max_num_seqs", sequences), ("max_num_batched_tokens", batched)):
        given = options.get(flag)
        if given is None:
            assumed.append(f"--{flag.replace('_', '-')} {value}, vLLM's default on such a GPU")
        chosen.append(value if given is None else int(given))
    share = options.get("gpu_memory_utilization")
    if share is None:
        share = MEMORY_SHARE
        assumed.append(f"--gpu-memory-utilization {share:g}, vLLM's default")
    if not 0 < share <= 1:
        raise InferdocError(f"--gpu-memory-utilization {share:g}: expected a share above 0, at most 1")
    adapters = options.get("max_loras") or 0
    if options.get("max_lora_rank") is not None and not adapters:
        raise InferdocError("--max-lora-rank needs --max-loras")
    if adapters:
        assumed.append("adapters change all linear layers, of a model with experts those of the attention")
    receive = options.get("scheduler_recv_interval") or 1
    if receive > 1 and options.get("server") != "sglang":
        raise InferdocError("--scheduler-recv-interval is a flag of SGLang; give --server sglang")
    return EngineLimits(chosen[0], chosen[1], share, adapters, options.get("max_lora_rank") or 16, receive)


def _drafting(options: Mapping[str, Any], assumed: list[str]) -> Drafting | None:
    text, cost = options.get("accepted"), options.get("draft_cost")
    if text is None:
        if cost is not None:
            raise InferdocError("--draft-cost needs --accepted")
        return None
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = ()
    if not shares or len(shares) > LONGEST_DRAFT or not all(0 <= share <= 1 for share in shares):
        raise InferdocError(f"--accepted {text}: expected shares of 0 to 1 by position: 0.8,0.6,0.42")
    if any(later > earlier for earlier, later in itertools.pairwise(shares)):
        raise InferdocError(f"--accepted {text}: a share of drafts accepted up to a position cannot rise")
    if cost is None:
        cost = DRAFT_COST
        assumed.append(f"a drafted token takes {cost:g} of a step, as a small draft head (--draft-cost)")
    if not 0 <= cost <= 1:
        raise InferdocError(f"--draft-cost {cost:g}: expected the share of a step that a drafted token takes, 0 to 1")
    return Drafting(shares, cost)


def _layouts(options: Mapping[str, Any], shape: ModelShape) -> tuple[tuple[Parallelism, ...], bool]:
    """The layouts to look at, and whether the choice is ours."""
    tensor, pipeline, data = options.get("tp"), options.get("pp"), options.get("dp") or 1
    head = shape.kv.head_size or shape.kv.window_head_size
    heads = shape.attention_width // head if head else 0
    if tensor is not None:
        if heads and heads % tensor:
            raise InferdocError(f"--tp {tensor}: the {heads} heads of {shape.name} cannot be shared evenly")
        if tensor * (pipeline or 1) * data > MOST_GPUS:
            raise InferdocError(f"--tp, --pp and --dp make a replica of more than {MOST_GPUS} GPUs")
    if (pipeline or 1) > shape.layers:
        raise InferdocError(f"--pp {pipeline}: {shape.name} has {shape.layers} layers")
    tensors = (tensor,) if tensor is not None else tuple(size for size in SIZES if not heads or heads % size == 0)
    stages = (pipeline,) if pipeline is not None else STAGES
    found = [Parallelism(t, p, data) for p in stages for t in tensors if p == stages[0] or t == tensors[-1]]
    return tuple(found), tensor is None


def _seconds(options: Mapping[str, Any], key: str, default: float, assumed: list[str]) -> float:
    given = options.get(key)
    if given is None:
        words = "time to first token, p95" if key == "ttft" else "time between tokens, mean"
        assumed.append(f"objective for {words}: {figure(default, 's')} (--{key})")
        return default
    seconds = length_of(given, f"--{key}")
    if not 0 < seconds <= 3600:
        raise InferdocError(f"--{key} {given}: expected more than 0 and at most 1h")
    return seconds


def _safety(options: Mapping[str, Any], traffic: TrafficInputs, assumed: list[str]) -> float:
    given = options.get("safety")
    if given is None:
        if traffic.rate is not None:
            assumed.append(f"{HEADROOM_NEW:g} x the rate, as for a load that nobody has measured (--safety)")
        return HEADROOM_NEW
    if not math.isfinite(given) or not 1 <= given <= 10:
        raise InferdocError(f"--safety {given:g}: expected a factor of 1 to 10")
    return float(given)
