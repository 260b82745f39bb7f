"""Whether another tier that has a price would do the work of a pool for less money."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from inferdoc.capacity.transfer import LEAST_NVLINK
from inferdoc.catalogue.signal import Tier
from inferdoc.config_sections import PricesSection
from inferdoc.cost.model import BillRow, CheaperTier
from inferdoc.fleet.members import Pool
from inferdoc.sizing.fleet_part import WORTH
from inferdoc.slo.attainment import place_text

FORMULA = (
    "useful money x (1 - price of the other tier / price of this one x GPUs of the other for one of this: prompts by "
    "FLOP/s, output by memory bandwidth, at least as many as hold the same memory); from 15 % on, on-demand prices"
)
SOURCE = "collectors/tiers.yaml, [prices.tiers]; both tiers taken to reach the same share of their figures"


def cheaper_tiers(
    rows: Sequence[BillRow], pools: Sequence[Pool], prices: PricesSection, tiers: Mapping[str, Tier]
) -> Iterator[CheaperTier]:
    """For each pool the priced tier on which its useful work would cost least, where that is worth a change. rows: of
    the bill by pool."""
    named = {row.name: row for row in rows}
    for pool in sorted(set(pools), key=place_text):
        row, now = named.get(place_text(pool)), tiers.get(pool.tier)
        if row is None or now is None or pool.tier not in prices.tiers:
            continue
        useful = next(part.amount.money for part in row.parts if part.cause == "useful")
        divided = row.prompts.gpu_hours + row.outputs.gpu_hours
        if not useful or not divided:
            continue
        prompts = row.prompts.gpu_hours / divided
        costs = {
            name: prices.tiers[name].on_demand / prices.tiers[pool.tier].on_demand * gpus_for_one(now, other, prompts)
            for name, other in tiers.items()
            if name in prices.tiers and name != pool.tier and other.names and other.link_gbps.value >= _link(now)
        }
        best = min(costs, key=lambda name: costs[name], default=None)
        if best is not None and 1.0 - costs[best] >= WORTH:
            saved = 1.0 - costs[best]
            yield CheaperTier(row.name, pool.tier, best, saved, useful * saved)


def gpus_for_one(now: Tier, other: Tier, prompts: float) -> float:
    """GPUs of another tier that do the work of one of this. prompts: share of its time that goes to them."""
    arithmetic = now.bf16_tflops.value / other.bf16_tflops.value
    traffic = now.memory_gbps.value / other.memory_gbps.value
    return max(
        prompts * arithmetic + (1.0 - prompts) * traffic,
        now.memory_gib.value / other.memory_gib.value,
    )


def _link(tier: Tier) -> float:
    """What other GPUs must reach one another with: pods of GPUs on NVLink may be larger than PCIe carries."""
    return LEAST_NVLINK if tier.link_gbps.value >= LEAST_NVLINK else 0.0
