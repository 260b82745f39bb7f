"""`collectors/efficiency.yaml`: the shares of their published figures that tiers reach in whole steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

import msgspec

from inferdoc.catalogue.document import Steps, nearest
from inferdoc.catalogue.validate import Problem

Phase = Literal["prefill", "decode"]
Arithmetic = Literal["bf16", "fp8", "fp4"]
Family = Literal["dense", "experts"]
ENGINES = ("vllm", "sglang", "trtllm")


class ReachedShare(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """share of the published figure (dense FLOP/s of the arithmetic, or bytes/s) that whole steps reach, 0..1, on so
    many GPUs of a tensor-parallel group; load: of which model and batch. step_ms, all_reduces, values: of the step
    behind a share that holds collectives, its milliseconds, its all-reduces and the 16-bit values in each of them; 0
    where a share holds none."""

    arithmetic: Arithmetic
    gpus: int
    share: float
    load: str
    step_ms: float = 0.0
    all_reduces: int = 0
    values: int = 0


class TierEfficiency(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """prefill: of FLOP/s; decode: of bytes/s; all_reduce: GPUs -> values of 16 bits in the message -> microseconds."""

    source: str
    prefill: tuple[ReachedShare, ...] = ()
    decode: tuple[ReachedShare, ...] = ()
    all_reduce: dict[int, dict[int, float]] = {}

    def all_reduce_seconds(self, gpus: int, values: float) -> float:
        """Of so many 16-bit values: between two measured sizes on the line through them, beyond the last as the last
        two go on, below the first as long as the first."""
        times = self.all_reduce[gpus]
        sizes = sorted(times)
        if len(sizes) == 1 or values <= sizes[0]:
            return times[sizes[0]] * 1e-6
        above = next((index for index, size in enumerate(sizes) if size >= values and index), len(sizes) - 1)
        left, right = sizes[above - 1], sizes[above]
        slope = (times[right] - times[left]) / (right - left)
        return (times[left] + slope * (values - left)) * 1e-6

    def without_collectives(self, row: ReachedShare) -> float:
        """The share that a step of a row reaches while its GPUs do not talk to each other, 0..1."""
        if not row.step_ms:
            return row.share
        talking = row.all_reduces * self.all_reduce_seconds(row.gpus, row.values)
        return row.share / (1.0 - talking / (row.step_ms * 1e-3))

    def problems_of(self, row: ReachedShare) -> Iterator[str]:
        """What keeps a row from being used."""
        if not 0 < row.share <= 1:
            yield f"expected a share of 0 to 1, got {row.share:g}"
        if row.gpus < 1:
            yield f"expected 1 GPU or more, got {row.gpus}"
        of_step = (row.step_ms, row.all_reduces, row.values)
        if not any(of_step):
            return
        if min(of_step) <= 0:
            yield "expected step_ms, all_reduces and values together, each above 0"
        elif not self.all_reduce.get(row.gpus):
            yield f"step_ms needs the times of an all_reduce of {row.gpus} GPUs"
        elif not row.share < self.without_collectives(row) <= 1:
            yield "its all-reduces take longer than the rest of the step lets them"


class StepShares(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the parts of a step reach on hardware of one kind. bf16, fp8, fp4: matrices, of the FLOP/s of each
    arithmetic, 0 where the hardware has none; experts, unpacked: factors on these for experts, and for experts whose
    weights are unpacked first; padding: tokens that fill up the tile of an expert; read, cache: of the bandwidth, for
    weights and KV cache; read_experts: factor on read (tokens share more experts than chance has them); attention,
    latent: of the FLOP/s in BF16, attention of prompts and decode with MLA; layer_us, expert_layer_us: of each layer,
    microseconds that nothing hides, without and with experts; latent_layer_us: more of them with MLA; collectives:
    factor on their times; points: measured results by family and arithmetic, dense-fp8: 12."""

    tiers: tuple[str, ...]
    source: str
    bf16: float
    experts: float
    unpacked: float
    padding: float
    read: float
    read_experts: float
    cache: float
    attention: float
    latent: float
    layer_us: float
    expert_layer_us: float
    collectives: float
    latent_layer_us: float = 0.0
    fp8: float = 0.0
    fp4: float = 0.0
    points: dict[str, int] = {}

    def problems(self) -> Iterator[str]:
        """Numbers that are none."""
        for name in (
            "bf16",
            "experts",
            "unpacked",
            "read",
            "read_experts",
            "cache",
            "attention",
            "latent",
            "collectives",
        ):
            if not 0 < getattr(self, name) <= 10:
                yield f"{name}: expected a number above 0, got {getattr(self, name):g}"
        if min(self.fp8, self.fp4, self.padding, self.layer_us, self.expert_layer_us, self.latent_layer_us) < 0:
            yield "expected numbers of 0 or more"


class StepSpread(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How far measured times lie from predicted ones: four of five between low and high times the prediction."""

    low: float
    high: float


class EngineShares(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Time to the first token beside the steps of a prompt. front_ms: HTTP, tokens of the prompt, scheduling and the
    first token back; prompt_layer_us: host time of each layer of a step with prompts, which is no captured graph,
    microseconds; mixes: whether such a step serves streams too."""

    front_ms: float
    prompt_layer_us: float = 0.0
    mixes: bool = True

    def problems(self) -> Iterator[str]:
        """Numbers that are none."""
        if min(self.front_ms, self.prompt_layer_us) < 0:
            yield "expected front_ms and prompt_layer_us of 0 or more"


class Efficiency(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """tiers: by the names of tiers.yaml; one that is not there was not measured. steps: kinds of hardware by name;
    "other" is for the rest; engines: by name; spread, first_spread: of the time of a step and to the first token, by
    family, arithmetic, kind of hardware and engine ("dense-fp8 hopper vllm"), without the engine, by family
    alone, and "unmeasured" where there is no point near."""

    tiers: dict[str, TierEfficiency] = {}
    steps: dict[str, StepShares] = {}
    engines: dict[str, EngineShares] = {}
    spread: dict[str, StepSpread] = {}
    first_spread: dict[str, StepSpread] = {}

    def kind_of(self, tier: str) -> tuple[str, StepShares]:
        """The kind of hardware of a tier, with its shares."""
        name = next((name for name, kind in self.steps.items() if tier in kind.tiers), "other")
        return name, self.steps[name]

    def problems(self, known: Collection[str]) -> Iterator[Problem]:
        """Tiers that do not exist, shares outside 0..1, times that are none."""
        for name, tier in self.tiers.items():
            at: Steps = ("tiers", name)
            if name not in known:
                yield Problem(at, f'no tier "{name}" in tiers.yaml{nearest(name, known)}')
            for phase in ("prefill", "decode"):
                rows: tuple[ReachedShare, ...] = getattr(tier, phase)
                for index, row in enumerate(rows):
                    yield from (Problem((*at, phase, index), what) for what in tier.problems_of(row))
            for gpus, times in tier.all_reduce.items():
                if gpus < 2 or not times or min(times) < 1 or min(times.values()) <= 0:
                    yield Problem((*at, "all_reduce", gpus), "expected 2 GPUs or more, and times above 0 by values")
        for name, kind in self.steps.items():
            at = ("steps", name)
            yield from (
                Problem(at, f'no tier "{each}"{nearest(each, known)}') for each in kind.tiers if each not in known
            )
            yield from (Problem(at, what) for what in kind.problems())
        for name, engine in self.engines.items():
            yield from (Problem(("engines", name), what) for what in engine.problems())
        for section in ("spread", "first_spread"):
            for cell, spread in getattr(self, section).items():
                if not 0 < spread.low <= 1 <= spread.high:
                    yield Problem((section, cell), "expected low above 0 and at most 1, high of 1 or more")
