"""What a GPU-hour costs at a time: of the GPUs of a tier some may be reserved, some spot capacity, the rest is on
demand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.config_sections import PodSection, PricesSection
from inferdoc.cost.ledger import Account

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class SlotRates:
    """Of one interval. shared: tier -> money per GPU-hour in each slot of its GPUs that are not known to be spot,
    float64[S]; spot: tier -> of those that are; of_spot: patterns of whole pod names; unused: tier -> GPU-hours of
    committed GPUs that no engine used, and the money for them."""

    shared: Mapping[str, np.ndarray]
    spot: Mapping[str, float]
    of_spot: tuple[str, ...]
    unused: Mapping[str, tuple[float, float]]

    def of(self, account: Account) -> np.ndarray | None:
        """Money per GPU-hour of an engine in each slot, with the overhead on top; None without a price."""
        member = account.unit.member
        shared = self.shared.get(member.tier)
        if shared is None or not _named(member.pod, self.of_spot):
            return shared
        spot = self.spot.get(member.tier)
        return None if spot is None else np.full(len(shared), spot)

    def lacks_spot(self, account: Account) -> bool:
        """Whether an engine is declared to run on spot capacity of a tier that has other prices only."""
        member = account.unit.member
        return member.tier in self.shared and member.tier not in self.spot and _named(member.pod, self.of_spot)


def slot_rates(
    prices: PricesSection, pods: Iterable[PodSection], accounts: Sequence[Account], slots: int, slot_ms: int
) -> SlotRates:
    """Rates of an interval. accounts: of all engines that are there, whichever were requested: reserved GPUs are shared
    by all of a tier."""
    of_spot = tuple(section.pod for section in pods if section.spot)
    hours = slot_ms / HOUR_MS
    shared: dict[str, np.ndarray] = {}
    unused: dict[str, tuple[float, float]] = {}
    for tier, price in prices.tiers.items():
        used = np.zeros(slots)
        for account in accounts:
            member = account.unit.member
            if member.tier == tier and not _named(member.pod, of_spot):
                used += account.whole
        money = np.full(slots, price.on_demand)
        if price.reserved is not None and price.committed_gpus is not None:
            committed = price.committed_gpus * hours
            covered = np.divide(np.minimum(used, committed), used, out=np.ones(slots), where=used > 0)
            money = covered * price.reserved + (1.0 - covered) * price.on_demand
            idle = float(np.maximum(committed - used, 0.0).sum())
            unused[tier] = idle, idle * price.reserved * prices.overhead
        shared[tier] = money * prices.overhead
    spot = {tier: price.spot * prices.overhead for tier, price in prices.tiers.items() if price.spot is not None}
    return SlotRates(shared, spot, of_spot, unused)


def _named(pod: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, pod) for pattern in patterns)
