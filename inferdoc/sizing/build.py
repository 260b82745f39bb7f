"""Build the memory of a GPU and a replica at the ends of the ranges, from the shares that a tier reaches.

The measured sums of kernels know no queue and no host: nine tenths of them are expected, between eight tenths and all
(own choice, until a live pool says better). Collectives are no part of these shares: those of the layout are added."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from inferdoc.capacity.memory import (
    ALIGNMENT,
    GIB,
    LOADED,
    NCCL_BYTES,
    NON_KV_SPREAD,
    REST_BYTES,
    WEIGHT_DTYPES,
    KvCost,
    activation_bytes,
    kv_cost,
    kv_tokens,
    logit_bytes,
    lora_bytes,
    weight_bytes,
    weight_bytes_per_gpu,
)
from inferdoc.capacity.model_shape import ModelShape
from inferdoc.capacity.step_time import (
    Machine,
    StepRates,
    Weights,
    all_reduce_seconds,
    latent_decode_flop,
    step_collectives,
)
from inferdoc.catalogue.efficiency import (
    Arithmetic,
    Efficiency,
    EngineShares,
    Family,
    Phase,
    ReachedShare,
    StepShares,
    StepSpread,
    TierEfficiency,
)
from inferdoc.sizing.inputs import Parallelism, ShareRange, SizingInputs
from inferdoc.sizing.replica import KvSpace, Replica

EXPECTED, LEAST_REACHED, MOST_REACHED = 0.9, 0.8, 1.0


NEAR = 2
"""Measured results of a kind of hardware, a family and an arithmetic from which on a prediction has points near it."""


def share_of(efficiency: Efficiency, tier: str, phase: Phase, arithmetic: Arithmetic, gpus: int) -> ShareRange:
    """The share that steps of a phase reach on so many GPUs of a tier while these do not talk to each other."""
    known = efficiency.tiers.get(tier)
    rows = _share_rows(known, phase, arithmetic)
    if known is None or not rows:
        return _of_others(efficiency, phase, arithmetic, tier)
    row = min(rows, key=lambda each: (abs(each.gpus.bit_length() - gpus.bit_length()), each.gpus))
    share = known.without_collectives(row)
    taken_out = f", without collectives {share:.2f}," if row.step_ms else ""
    source = f"{known.source}: {row.load}, {row.gpus} GPU{'' if row.gpus == 1 else 's'}, "
    source += f"share {row.share:g}{taken_out} x {EXPECTED:g}"
    return ShareRange(share * LEAST_REACHED, share * EXPECTED, share * MOST_REACHED, source, row.gpus != gpus)


def share_of_matrices(kind: StepShares, arithmetic: Arithmetic) -> float:
    """The share of the FLOP/s that matrices reach in an arithmetic; where none is known, that in BF16."""
    return {"bf16": kind.bf16, "fp8": kind.fp8, "fp4": kind.fp4}[arithmetic] or kind.bf16


def points_near(efficiency: Efficiency, tier: str, family: Family, arithmetic: Arithmetic) -> int:
    """How many measured results the shares of such a step rest on."""
    return efficiency.kind_of(tier)[1].points.get(f"{family}-{arithmetic}", 0)


def spread_of(
    efficiency: Efficiency, tier: str, family: Family, arithmetic: Arithmetic, engine: str, *, first: bool = False
) -> StepSpread:
    """How far a measured time may lie from the predicted one, of a step or to the first token: that of the narrowest
    cell with enough results, or wide without a point near."""
    cells = efficiency.first_spread if first else efficiency.spread
    if points_near(efficiency, tier, family, arithmetic) < NEAR:
        return cells["unmeasured"]
    kind = efficiency.kind_of(tier)[0]
    names = (f"{family}-{arithmetic} {kind} {engine}", f"{family}-{arithmetic} {kind}", family)
    return next(cells[name] for name in names if name in cells)


def part_shares(
    efficiency: Efficiency, tier: str, family: Family, arithmetic: Arithmetic, engine: str
) -> tuple[ShareRange, ShareRange]:
    """Shares of prefill and of decode that the parts of a step come from, at the ends of their spread."""
    name, kind = efficiency.kind_of(tier)
    points = points_near(efficiency, tier, family, arithmetic)
    spread = spread_of(efficiency, tier, family, arithmetic, engine)
    if points >= NEAR:
        source = f"{points} measured results of {family} in {arithmetic.upper()} on {name}"
    else:
        source = (
            f"no measured point near this ({family} in {arithmetic.upper()} on {tier}): x{spread.high:g} either way"
        )
    shares = (share_of_matrices(kind, arithmetic), kind.read)
    prefill, decode = (
        ShareRange(share / spread.high, share, min(1.0, share / spread.low), source, points < NEAR) for share in shares
    )
    return prefill, decode


def _share_rows(known: TierEfficiency | None, phase: Phase, arithmetic: Arithmetic) -> list[ReachedShare]:
    rows = () if known is None else known.prefill if phase == "prefill" else known.decode
    return [row for row in rows if row.arithmetic == arithmetic]


def _of_others(efficiency: Efficiency, phase: Phase, arithmetic: Arithmetic, tier: str) -> ShareRange:
    shares = [
        known.without_collectives(row)
        for known in efficiency.tiers.values()
        for row in _share_rows(known, phase, arithmetic)
    ] or [0.5]
    middle = statistics.median(shares) * EXPECTED
    rest = f"the middle of {len(shares)} rows of other tiers x {EXPECTED:g}"
    what = f"not measured on {tier} with {arithmetic.upper()}: {rest}"
    return ShareRange(min(shares) * LEAST_REACHED, middle, max(shares) * MOST_REACHED, what, True)


End = Literal["low", "middle", "high"]
ENDS: tuple[End, ...] = ("low", "middle", "high")
"""low: slow, with the least room; high: fast, with the most."""
HOST_SECONDS = {"low": 2e-3, "middle": 1e-3, "high": 0.0}
"""Of a step that no GPU work hides: 1 to 2 ms, none with asynchronous scheduling (own choice)."""
FP4_DTYPES = ("nvfp4", "mxfp4")
LEAST_DENSE = 0.02
"""Of the active parameters, outside of experts."""
ROPE_VALUES = 64
"""Of the values that MLA caches, those that carry positions alone (DeepSeek)."""
LINK_LATENCY, LINK_SHARE = 8e-6, 2 / 3
"""Of an all-reduce that was not measured: seconds, and share of the published rate of the link (own choice)."""


@dataclass(frozen=True)
class GpuMemory:
    """Bytes of one GPU by part. usable: memory x --gpu-memory-utilization; other: communication buffers, graphs,
    context; kv: what is left."""

    total: float
    usable: float
    weights: float
    activations: float
    logits: float
    adapters: float
    other: float
    kv: float


@dataclass(frozen=True)
class Sized:
    """One layout. replicas: one per end of the ranges, None where the model does not fit; short: bytes that lack on a
    GPU for one request of p95 context."""

    layout: Parallelism
    memory: GpuMemory
    replicas: dict[End, Replica] | None
    short: float = 0.0


def arithmetic_of(sizing: SizingInputs) -> Arithmetic:
    """What the weights are multiplied in: FP8 or FP4 where weights and hardware have it, else BF16 (others are
    unpacked)."""
    if sizing.dtype == "fp8" and sizing.tier.fp8_tflops is not None:
        return "fp8"
    return "fp4" if sizing.dtype in FP4_DTYPES and sizing.tier.fp4_tflops is not None else "bf16"


def flops_of(sizing: SizingInputs) -> float:
    """Published dense FLOP/s of one GPU in that arithmetic."""
    figures = {"fp8": sizing.tier.fp8_tflops, "fp4": sizing.tier.fp4_tflops, "bf16": sizing.tier.bf16_tflops}
    figure = figures[arithmetic_of(sizing)]
    assert figure is not None
    return figure.value * 1e12


def bandwidth_of(sizing: SizingInputs) -> float:
    """Published bytes/s of one GPU."""
    return sizing.tier.memory_gbps.value * 1e9


def memory_of(sizing: SizingInputs, layout: Parallelism) -> GpuMemory:
    """What lies on one GPU of a layout before the first request."""
    shape, limits = sizing.shape, sizing.limits
    total = sizing.tier.memory_gib.value * GIB
    usable = total * limits.memory_share
    weights = weights_of(sizing)
    of_dense = weight_bytes_per_gpu(
        weights.dense, tensor_parallel=layout.tensor, pipeline_parallel=layout.pipeline, alignment=LOADED
    )
    of_routed = weight_bytes_per_gpu(
        weights.routed, tensor_parallel=layout.tensor * layout.data, pipeline_parallel=layout.pipeline, alignment=LOADED
    )
    activations = activation_bytes(limits.batched_tokens, shape.hidden, layout.tensor)
    logits = logit_bytes(limits.sequences, shape.vocabulary)
    adapters = lora_bytes(limits.adapters, limits.adapter_rank, shape.layers, shape.adapted, layout.tensor)
    other = REST_BYTES + (NCCL_BYTES if layout.gpus > 1 else 0.0)
    kv = usable - of_dense - of_routed - activations - logits - adapters - other
    return GpuMemory(total, usable, of_dense + of_routed, activations, logits, adapters, other, kv)


def weights_of(sizing: SizingInputs) -> Weights:
    """Bytes of the weights, as published where they keep that dtype, and what a token multiplies with."""
    shape, width = sizing.shape, WEIGHT_DTYPES[sizing.dtype]
    if shape.published is not None and sizing.dtype == shape.dtype:
        return Weights(shape.active, shape.published.dense, shape.published.routed, shape.experts, shape.chosen)
    routed = shape.routed * width
    dense = weight_bytes(shape.parameters - shape.routed, shape.unquantised, width)
    return Weights(shape.active, dense, routed, shape.experts, shape.chosen)


def kv_cost_of(sizing: SizingInputs, layout: Parallelism) -> KvCost:
    """What a request takes of the cache of one GPU."""
    return kv_cost(sizing.shape.kv, sizing.kv_dtype, layout.tensor, layout.pipeline)


def sized(sizing: SizingInputs, layout: Parallelism, ends: Sequence[End] = ENDS) -> Sized:
    """A layout with its replicas, at these ends of the ranges."""
    memory = memory_of(sizing, layout)
    one = kv_cost_of(sizing, layout).bytes(sizing.traffic.context_p95)
    if memory.kv < one:
        return Sized(layout, memory, None, one - memory.kv)
    return Sized(layout, memory, {end: _replica(sizing, layout, memory, end) for end in ends})


def by_parts(sizing: SizingInputs) -> bool:
    """Whether steps are summed up from their parts: not where a live pool was measured, nor where whole steps of dense
    models were measured on the tier in that arithmetic."""
    known = sizing.efficiency.tiers.get(sizing.tier_name)
    whole = known is not None and any(row.arithmetic == arithmetic_of(sizing) for row in known.prefill)
    return sizing.measured is None and bool(sizing.efficiency.steps) and (sizing.shape.experts > 0 or not whole)


def phase_shares(sizing: SizingInputs, layout: Parallelism) -> tuple[ShareRange, ShareRange]:
    """Shares of prefill and of decode: as measured on a live pool, else of the tier."""
    if sizing.measured is not None:
        return sizing.measured.prefill, sizing.measured.decode
    arithmetic = arithmetic_of(sizing)
    if by_parts(sizing):
        return part_shares(sizing.efficiency, sizing.tier_name, family_of(sizing), arithmetic, sizing.engine)
    prefill = share_of(sizing.efficiency, sizing.tier_name, "prefill", arithmetic, layout.tensor)
    return prefill, share_of(sizing.efficiency, sizing.tier_name, "decode", arithmetic, layout.tensor)


def kv_space(sizing: SizingInputs, layout: Parallelism, memory: GpuMemory, end: End) -> KvSpace:
    """KV cache of one rank at one end of the range of what lies beside it."""
    cost = kv_cost_of(sizing, layout)
    read = sizing.measured
    if read is not None and read.kv_tokens is not None and read.layout == layout:
        return KvSpace(read.kv_tokens, cost)
    padding = memory.weights * (ALIGNMENT / LOADED - 1.0)
    aside = {"low": NON_KV_SPREAD + padding, "middle": 0.0, "high": -NON_KV_SPREAD}[end]
    beside = memory.activations + memory.logits + memory.adapters + memory.other + aside
    tokens = kv_tokens(memory.total, memory.weights, beside, cost.per_token, sizing.limits.memory_share)
    return KvSpace(max(1.0, float(tokens)), cost)


def _replica(sizing: SizingInputs, layout: Parallelism, memory: GpuMemory, end: End) -> Replica:
    parts = _parts(sizing, layout, end) if by_parts(sizing) else None
    prefill, decode = phase_shares(sizing, layout)
    mfu, mbu = (getattr(share, end) for share in (prefill, decode))
    flops, bandwidth = flops_of(sizing), bandwidth_of(sizing)
    weights, engine = weights_of(sizing), sizing.efficiency.engines.get(sizing.engine, EngineShares(0.0))
    every_rank = Weights(weights.active, weights.dense * layout.data, weights.routed, weights.experts, weights.chosen)
    return Replica(
        sizing.shape,
        layout,
        Machine(layout.tensor * layout.data, flops, bandwidth, mfu, mbu),
        Machine(layout.tensor, flops, bandwidth, mfu, mbu),
        every_rank,
        kv_space(sizing, layout, memory, end),
        sizing.traffic,
        sizing.limits,
        HOST_SECONDS["middle" if sizing.measured is not None else end],
        _collectives(sizing, layout.tensor),
        end != "low" or sizing.measured is not None or parts is not None,
        engine.front_ms * 1e-3 if sizing.measured is None else dict(zip(ENDS, sizing.measured.front, strict=True))[end],
        sizing.tier.link_gbps.value * 1e9 * LINK_SHARE,
        parts,
        launch_units(sizing.shape) * engine.prompt_layer_us * 1e-6 if sizing.measured is None else 0.0,
        engine.mixes,
    )


def family_of(sizing: SizingInputs) -> Family:
    """Dense, or with experts."""
    return "experts" if sizing.shape.experts else "dense"


def first_token_spread(sizing: SizingInputs) -> StepSpread | None:
    """How far a measured time to the first token may lie from the predicted one; None where a live pool shows it."""
    if sizing.measured is not None or not sizing.efficiency.first_spread:
        return None
    arithmetic, tier = arithmetic_of(sizing), sizing.tier_name
    return spread_of(sizing.efficiency, tier, family_of(sizing), arithmetic, sizing.engine, first=True)


def launch_units(shape: ModelShape) -> float:
    """Kernels of a step with prompts, in those of a plain layer (some 10: norms, projections, positions, attention,
    activation): routing and permuting of experts are as many again, MLA and linear attention twice as many."""
    kv = shape.kv
    return shape.blocks / 2 + shape.expert_layers + 2.0 * (kv.growing * bool(kv.latent) + kv.linear)


def _parts(sizing: SizingInputs, layout: Parallelism, end: End) -> StepRates:
    """The parts of a step at one end of their spread."""
    shape, weights, arithmetic = sizing.shape, weights_of(sizing), arithmetic_of(sizing)
    _, kind = sizing.efficiency.kind_of(sizing.tier_name)
    near = spread_of(sizing.efficiency, sizing.tier_name, family_of(sizing), arithmetic, sizing.engine)
    routed = shape.routed * shape.chosen / shape.experts if shape.experts else 0.0
    # The input embedding is looked up, not multiplied with.
    looked_up = shape.vocabulary * shape.hidden if shape.unquantised >= 2 * shape.vocabulary * shape.hidden else 0.0
    bandwidth, bf16 = bandwidth_of(sizing), sizing.tier.bf16_tflops.value * 1e12
    gemm = flops_of(sizing) * share_of_matrices(kind, arithmetic)
    unpacked = arithmetic == "bf16" and WEIGHT_DTYPES[sizing.dtype] < 1.0
    latent = shape.kv.latent
    of_experts = shape.expert_layers * (kind.expert_layer_us - kind.layer_us)
    launched = shape.blocks / 2 * kind.layer_us + of_experts + shape.kv.growing * bool(latent) * kind.latent_layer_us
    return StepRates(
        layout.tensor,
        layout.data,
        weights,
        max(shape.active - routed - looked_up, LEAST_DENSE * shape.active),
        routed,
        gemm,
        gemm * kind.experts * (kind.unpacked if unpacked else 1.0),
        bandwidth * kind.read,
        bandwidth * kind.read * kind.read_experts,
        bandwidth * kind.cache,
        bf16 * kind.attention,
        bf16 * kind.latent,
        kind.padding,
        1e-6 * launched,
        latent_decode_flop(shape.heads, latent, ROPE_VALUES, shape.kv.growing) if latent else 0.0,
        {"low": near.high, "middle": 1.0, "high": near.low}[end],
    )


def _collectives(sizing: SizingInputs, gpus: int) -> Callable[[float], float]:
    """Seconds of the all-reduces of a step over so many tokens: as measured on the tier, else by its link."""
    if gpus == 1:
        return lambda tokens: 0.0
    shape = sizing.shape
    known = sizing.efficiency.tiers.get(sizing.tier_name)
    factor = sizing.efficiency.kind_of(sizing.tier_name)[1].collectives if by_parts(sizing) else 1.0
    if known is not None and gpus in known.all_reduce:
        times = known.all_reduce_seconds
        return lambda tokens: factor * step_collectives(shape.blocks, times(gpus, tokens * shape.hidden))
    bus = sizing.tier.link_gbps.value * 1e9 * LINK_SHARE

    def by_link(tokens: float) -> float:
        of_one = all_reduce_seconds(tokens, shape.hidden, gpus, latency=LINK_LATENCY, bus=bus)
        return factor * step_collectives(shape.blocks, of_one)

    return by_link
