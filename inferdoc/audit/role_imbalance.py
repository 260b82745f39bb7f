"""Compare the prefill and decode pools of one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from inferdoc.audit.quantities import USE_INPUTS, USE_OPTIONAL, Quantity, use_of
from inferdoc.audit.window_data import Watched, mean_of_rows
from inferdoc.fleet.members import UNKNOWN_TIER, Pool

OTHER = {"prefill": "decode", "decode": "prefill"}


def partners(watched: Watched, pool: Pool) -> list[Pool]:
    """The pools of the same model in the other role."""
    other = OTHER.get(pool.role)
    return [each for each in watched.pools if each.family == pool.family and each.role == other]


def use_apart(watched: Watched, pool: Pool) -> np.ndarray | None:
    """By how much the uses of the two roles differ at every step, float64[T]; None without the other role."""
    own, other = use_of_pools(watched, [pool]), use_of_pools(watched, partners(watched, pool))
    return None if own is None or other is None else np.abs(own - other)


def arithmetic_of_decode(watched: Watched, pool: Pool) -> float | None:
    """FLOPs per byte of memory traffic of the decode tier over those of the prefill tier (datasheets): prefill is bound
    by the first, decode by the second. None where a tier is not known."""
    own, *others = (_flops_per_byte(watched, each) for each in (pool, *partners(watched, pool)))
    known = [each for each in others if each is not None]
    return max(known) / own if own is not None and known else None


def use_of_pools(watched: Watched, pools: Sequence[Pool]) -> np.ndarray | None:
    """The mean use of some pools at every step, float64[T]; None where none is visible."""
    rows = [row for each in pools if (row := use_of(watched, each)) is not None]
    return mean_of_rows(rows) if rows else None


def _flops_per_byte(watched: Watched, pool: Pool) -> float | None:
    tier = watched.tiers.tiers.get(pool.tier)
    if tier is None or pool.tier == UNKNOWN_TIER or not tier.memory_gbps.value:
        return None
    return tier.bf16_tflops.value * 1e12 / (tier.memory_gbps.value * 1e9)


QUANTITIES: Mapping[str, Quantity] = {
    "use_apart": Quantity(
        "Use of the prefill and of the decode pool, apart by,",
        "ratio",
        USE_INPUTS,
        of_pool=use_apart,
        optional=USE_OPTIONAL,
    ),
    "arithmetic_of_decode": Quantity(
        "FLOPs per byte of the decode tier, over those of the prefill tier,",
        "times",
        (),
        of_pool=arithmetic_of_decode,
    ),
}
