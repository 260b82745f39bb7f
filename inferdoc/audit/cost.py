"""What a state costs: GPUs by its formula, as a share of those looked at, and as money where prices are known."""

from __future__ import annotations

from collections.abc import Sequence

from inferdoc.audit.judge import Standstill
from inferdoc.audit.model import Wasted
from inferdoc.audit.waste import WASTES, weight
from inferdoc.audit.watched import Watched
from inferdoc.config_sections import PricesSection
from inferdoc.judging.view import Unit

LEAST_GPUS = 0.005
"""Less is no figure: half a GPU in a hundred."""


def wasted(watched: Watched, prices: PricesSection, entry: Standstill) -> Wasted | None:
    """The cost of a state on a pool, or None where nothing gives a figure."""
    if entry.state.waste is None:
        return None
    formula = WASTES[entry.state.waste]
    gpus = formula.of(watched, entry.units)
    if gpus is None or gpus < LEAST_GPUS:
        return None
    price = prices.tiers.get(entry.pool.tier)
    return Wasted(
        gpus=round(gpus, 3),
        share=round(gpus / total_gpus(watched, watched.view.units), 4),
        money=None if price is None else round(gpus * price.on_demand * prices.overhead, 2),
        currency=None if price is None else prices.currency,
        formula=formula.formula,
        bound=entry.state.bound,
        assumed=any(watched.gpus(unit) is None for unit in entry.units),
    )


def total_gpus(watched: Watched, units: Sequence[Unit]) -> float:
    """GPUs of some units; a pod whose number is not known counts as one."""
    return max(1.0, sum(weight(watched, unit) for unit in units))
