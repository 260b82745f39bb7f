"""Every quantity by the name that observations.yaml and the steps of states use."""

from __future__ import annotations

from collections.abc import Mapping

from inferdoc.audit import declared, drafting, latency_shape, lengths, quantities, role_imbalance, starts
from inferdoc.audit.quantities import Quantity

REGISTRY: Mapping[str, Quantity] = {
    name: quantity
    for module in (quantities, declared, drafting, latency_shape, lengths, role_imbalance, starts)
    for name, quantity in module.QUANTITIES.items()
}
