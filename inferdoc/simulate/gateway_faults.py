"""Faults of what stands before and above the engines: the router's readings, its processor, the proxy's time limit,
the autoscaler's settings."""

from __future__ import annotations

from inferdoc.simulate.handle import FleetHandle
from inferdoc.simulate.scenario import FaultSpec

GATEWAY_FAULTS = frozenset({"poll", "refresh", "router-cores", "gateway-timeout", "scaler"})


def inject_gateway_fault(fleet: FleetHandle, fault: FaultSpec, begins: bool) -> None:
    """poll: `share` of the readings of the pods fail; refresh: `seconds` between two readings; router-cores: `cpu` of
    the cores it had are left; gateway-timeout: requests are cut after `seconds`; scaler: it looks at `metric`, aims at
    `target`, may set at most `most`, waits for `window` s before it scales down."""
    spec, router, gateway = fleet.scenario.router, fleet.router, fleet.gateway
    if fault.kind == "poll":
        for name in fault.pods or tuple(p.name for p in fleet.pods):
            present = fleet.pod(name).name
            if begins:
                router.blocked[present] = fault.share
            else:
                router.blocked.pop(present, None)
    elif fault.kind == "refresh":
        router.refresh = fault.seconds if begins else spec.refresh
    elif fault.kind == "router-cores":
        gateway.cores = spec.cores * (fault.cpu if begins else 1.0)
    elif fault.kind == "gateway-timeout":
        gateway.timeout = fault.seconds if begins else spec.timeout
    else:
        for scaler in fleet.scalers:
            scaler.change(fault if begins else None)
