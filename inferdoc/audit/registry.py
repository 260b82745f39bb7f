"""Every quantity by the name that observations.yaml and the steps of states use."""

from __future__ import annotations

from collections.abc import Mapping

from inferdoc.audit import declared, latency_shape, quantities, role_imbalance
from inferdoc.audit.quantities import Quantity

REGISTRY: Mapping[str, Quantity] = {
    name: quantity
    for module in (quantities, declared, latency_shape, role_imbalance)
    for name, quantity in module.QUANTITIES.items()
}
