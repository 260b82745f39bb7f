"""Inputs of a sizing: model, hardware, layout, traffic and objectives, checked where each was given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferdoc.capacity.model_shape import ModelShape
from inferdoc.capacity.service_level import (
    live_context_tokens,
    live_context_variation,
    lognormal_p95,
    lognormal_variation,
)
from inferdoc.catalogue.efficiency import Efficiency
from inferdoc.catalogue.signal import Tier, Tiers
from inferdoc.errors import InferdocError
from inferdoc.times import length_of
from inferdoc.words import figure

MOST_TOKENS = 10_000_000
TAIL = 2.0
"""The 95th percentile of a length over its mean, where only the mean is given (own choice)."""


@dataclass(frozen=True)
class TokenLength:
    """Tokens of a part of a request. p95 is assumed where `assumed` says so."""

    mean: float
    p95: float
    assumed: bool = False

    @property
    def variation(self) -> float:
        """Standard deviation over mean."""
        return lognormal_variation(self.mean, self.p95)


def mixed_length(parts: Sequence[tuple[float, TokenLength]]) -> TokenLength:
    """The length of requests of several kinds. parts: share of the requests, and their length; taken as lognormal of
    the mean and the variance of the mixture."""
    mean = sum(share * length.mean for share, length in parts)
    squares = sum(share * length.mean**2 * (1.0 + length.variation**2) for share, length in parts)
    variation = math.sqrt(max(0.0, squares / mean**2 - 1.0))
    return TokenLength(mean, lognormal_p95(mean, variation), any(length.assumed for _, length in parts))


@dataclass(frozen=True)
class TrafficClass:
    """One kind of requests among several. share: of all requests, 0..1; ttft: seconds, infinite without an objective,
    None where that of all counts."""

    name: str
    share: float
    prompt: TokenLength
    output: TokenLength
    prefix_share: float = 0.0
    ttft: float | None = None

    @property
    def computed(self) -> float:
        """Prompt tokens that are computed."""
        return self.prompt.mean * (1.0 - self.prefix_share)


REQUESTS_OF_STREAM = 10
"""Of a load test that gives no number: InferenceX sends as many."""


@dataclass(frozen=True)
class TrafficInputs:
    """prompt, output: tokens of a request; rate: requests/s of the whole fleet at its peak, None where none is given;
    prefix_share: share of the prompt tokens that the prefix cache serves; concurrent: requests of the whole fleet at
    once, each followed by the next when it is done (a closed loop), None where requests arrive at a rate; requests: of
    that loop in all; classes: of which prompt and output are the mixture."""

    prompt: TokenLength
    output: TokenLength
    rate: float | None = None
    prefix_share: float = 0.0
    concurrent: int | None = None
    requests: int | None = None
    classes: tuple[TrafficClass, ...] = ()

    @property
    def first_share(self) -> float:
        """Share of the requests of a closed loop that start together, the first of each stream. 0..1; 0 where requests
        arrive at a rate."""
        if self.concurrent is None:
            return 0.0
        return min(1.0, self.concurrent / self.requests) if self.requests else 1.0 / REQUESTS_OF_STREAM

    @property
    def computed(self) -> float:
        """Prompt tokens that are computed."""
        return self.prompt.mean * (1.0 - self.prefix_share)

    @property
    def computed_p95(self) -> float:
        """Of a prompt at its 95th percentile."""
        return self.prompt.p95 * (1.0 - self.prefix_share)

    @property
    def context(self) -> float:
        """Mean tokens that a running request holds."""
        return live_context_tokens(self.prompt.mean, self.output.mean, self.output.variation)

    @property
    def context_variation(self) -> float:
        """Its standard deviation over its mean."""
        prompt, output = self.prompt, self.output
        return live_context_variation((prompt.mean, prompt.variation), (output.mean, output.variation))

    @property
    def context_p95(self) -> float:
        """The same at the 95th percentile: prompts and answers are seldom long together."""
        return self.context + math.hypot(self.prompt.p95 - self.prompt.mean, self.output.p95 - self.output.mean)


CLASS = "chat share=0.7 prompt=1500,4000 output=300,900 prefix=0.3 ttft=1s"
CLASS_KEYS = ("share", "prompt", "output", "prefix", "ttft", "turns", "budget")
MOST_TURNS = 10_000


def read_classes(options: Mapping[str, Any], itl: float, assumed: list[str]) -> tuple[TrafficClass, ...]:
    """The kinds of requests of --class, whose shares are of all requests. itl: objective in seconds. Raises
    InferdocError."""
    given = options.get("classes") or ()
    if not given:
        return ()
    for key in ("prompt_tokens", "output_tokens", "prefix_share"):
        if options.get(key) is not None:
            raise InferdocError(f"--class and --{key.replace('_', '-')} are mutually exclusive")
    found = [_class(text, itl, assumed) for text in given]
    whole = sum(each.share for each in found)
    if abs(whole - 1.0) > 1e-6:
        raise InferdocError(f"--class: the shares add up to {whole:g}; expected 1")
    if len({each.name for each in found}) < len(found):
        raise InferdocError("--class: a name is given twice")
    return tuple(found)


def _class(text: str, itl: float, assumed: list[str]) -> TrafficClass:
    name, *rest = text.split() or [""]
    values = dict(part.partition("=")[::2] for part in rest)
    if not name or "=" in name or set(values) - set(CLASS_KEYS) or not {"share", "prompt", "output"} <= set(values):
        raise InferdocError(
            f'--class "{text}": expected for example "{CLASS}"; prefix and ttft are optional, as are turns and budget'
        )
    lengths = {f"--class {name} {key}": values[key] for key in ("prompt", "output")}
    prompt, output = (_tokens(flag, length, assumed) for flag, length in lengths.items())
    try:
        share, prefix = float(values["share"]), float(values.get("prefix", "0"))
    except ValueError:
        share = prefix = math.nan
    if not 0 < share <= 1 or not 0 <= prefix < 1:
        raise InferdocError(f"--class {name}: expected shares of 0 to 1, 0.7 for 70 %")
    ttft = values.get("ttft")
    limit = None if ttft is None else math.inf if ttft == "none" else length_of(ttft, f"--class {name} ttft")
    if "budget" in values or "turns" in values:
        if ttft is not None:
            raise InferdocError(f"--class {name}: ttft and budget are mutually exclusive")
        limit = _turn_limit(name, values, output.mean * itl, assumed)
    return TrafficClass(name, share, prompt, output, prefix, limit)


def _turn_limit(name: str, values: Mapping[str, str], decode: float, assumed: list[str]) -> float:
    """TTFT objective of a turn: the budget of a session over its turns, less the seconds of the output at the ITL
    objective."""
    turns = values.get("turns", "")
    if "budget" not in values or not turns.isdecimal() or not 1 <= int(turns) <= MOST_TURNS:
        raise InferdocError(f"--class {name}: expected turns and budget of a session: turns=20 budget=5m")
    budget = length_of(values["budget"], f"--class {name} budget")
    limit = budget / int(turns) - decode
    if limit <= 0:
        raise InferdocError(
            f"--class {name}: {turns} turns take {figure(decode * int(turns), 's')} at the ITL objective alone, more "
            f"than the budget of {values['budget']}; take fewer turns, shorter outputs or a lower --itl"
        )
    assumed.append(f"class {name}: TTFT p95 of a turn {figure(limit, 's')}, from {values['budget']} for {turns} turns")
    return limit


def read_length(options: Mapping[str, Any], key: str, assumed: list[str]) -> TokenLength:
    """The mean, or mean and p95, of an option in tokens. Raises InferdocError."""
    return _tokens(f"--{key.replace('_', '-')}", str(options[key]), assumed)


def _tokens(flag: str, text: str, assumed: list[str]) -> TokenLength:
    parts = text.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or not all(1 <= number <= MOST_TOKENS for number in numbers):
        raise InferdocError(f"{flag} {text}: expected the mean, or mean,p95, in tokens: 1500 or 1500,4000")
    if len(numbers) == 2 and numbers[1] < numbers[0]:
        raise InferdocError(f"{flag} {text}: the p95 lies below the mean: give mean,p95")
    if len(numbers) == 1:
        assumed.append(f"p95 of {flag} is {TAIL:g} x its mean (give mean,p95)")
        return TokenLength(numbers[0], TAIL * numbers[0], assumed=True)
    return TokenLength(numbers[0], numbers[1])


@dataclass(frozen=True)
class Parallelism:
    """Tensor, pipeline and data parallelism of one replica."""

    tensor: int
    pipeline: int = 1
    data: int = 1

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.data

    def __str__(self) -> str:
        parts = [f"TP {self.tensor}"]
        parts += [f"PP {self.pipeline}"] if self.pipeline > 1 else []
        parts += [f"DP {self.data}"] if self.data > 1 else []
        return " ".join(parts)


@dataclass(frozen=True)
class EngineLimits:
    """--max-num-seqs, --max-num-batched-tokens, --gpu-memory-utilization, --max-loras and --max-lora-rank of vLLM;
    receive: --scheduler-recv-interval of SGLang, the steps after which it takes new requests."""

    sequences: int
    batched_tokens: int
    memory_share: float
    adapters: int = 0
    adapter_rank: int = 16
    receive: int = 1


@dataclass(frozen=True)
class Drafting:
    """accepted: share of drafts whose first i tokens were all accepted; cost: time of a drafted token over that of a
    step."""

    accepted: tuple[float, ...]
    cost: float


@dataclass(frozen=True)
class BatchJob:
    """Requests of a job in the hours of low load. prompt, output: tokens of each; window: seconds; load: share of the
    peak rate that arrives in the window."""

    requests: float
    prompt: float
    output: float
    window: float
    load: float


@dataclass(frozen=True)
class ShareRange:
    """low, middle, high: 0..1, without collectives; source: what it rests on; assumed: not measured on this tier and
    layout."""

    low: float
    middle: float
    high: float
    source: str
    assumed: bool


@dataclass(frozen=True)
class MeasuredShares:
    """What a live pool shows instead of what is assumed: shares, KV tokens of a rank (None if it does not show them),
    the layout on which both were read, and front: seconds to the first token outside of the engine, most to least, as
    the shares go from slow to fast."""

    prefill: ShareRange
    decode: ShareRange
    kv_tokens: float | None
    layout: Parallelism
    front: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class SizingInputs:
    """Everything that a sizing rests on. ttft, itl: objectives in seconds, of the 95th percentile and of the mean;
    tiers: what else the catalogue has of hardware; engine: a name of ENGINES; objectives_given: whether a user gave one
    of them, else a model that misses them is sized with one request at a time; assumed: what nobody gave, in words."""

    shape: ModelShape
    dtype: str
    kv_dtype: str
    tier_name: str
    tier: Tier
    efficiency: Efficiency
    layouts: tuple[Parallelism, ...]
    chosen: bool
    traffic: TrafficInputs
    limits: EngineLimits
    ttft: float
    itl: float
    safety: float
    tiers: Tiers
    engine: str = "vllm"
    drafting: Drafting | None = None
    batch: BatchJob | None = None
    measured: MeasuredShares | None = None
    objectives_given: bool = True
    assumed: list[str] = field(default_factory=list)

    @property
    def host_rate(self) -> float:
        """Bytes/s of a GPU to the memory of its host."""
        return self.tiers.host_rate(self.tier_name)

    @property
    def nic_gbits(self) -> float:
        """Gb/s of the network of a GPU."""
        return self.tiers.nic_gbits(self.tier_name)
