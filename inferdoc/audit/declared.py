"""Compare the declared resources of a workload with what its pods need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from inferdoc.audit.manifest import Declared
from inferdoc.audit.quantities import STARTED, Amount, Quantity, cold_start
from inferdoc.audit.window_data import Watched
from inferdoc.fleet.workloads import workload
from inferdoc.judging.view import Unit

UNSET = "unset"
CHUNK_TOKENS = 128
"""Tiles of attention and matrix kernels: a chunk that is no multiple leaves the last one part empty."""
DRAIN_SECONDS = 20.0
"""preStop and the time until the router has seen that the pod goes (own choice)."""
START_MARGIN = 1.5


def add_declared(watched: Watched, declared: Iterable[Declared], flags: Iterable[str]) -> list[str]:
    """Put what manifests say into the settings of their pods, an absent one of `flags` as "unset". A warning for each
    workload that has no pod in the window."""
    required, warnings = list(flags), []
    settings = {unit: dict(known) for unit, known in watched.settings.items()}
    for one in declared:
        units = [unit for unit in watched.view.units if _is_of(unit, one)]
        if not units:
            warnings.append(f"--manifest {one.file}: no pod of {one.workload} in the window")
        given = {name: UNSET for name in required if name.startswith("--")} if "image" in one.settings else {}
        for unit in units:
            known = settings.setdefault(unit, {})
            known |= {name: (value, 1.0) for name, value in {**given, **one.settings}.items()}
    watched.settings = settings
    return warnings


def chunk_remainder(watched: Watched, unit: Unit) -> Amount:
    """Tokens by which --max-num-batched-tokens exceeds a multiple of 128; None without a manifest."""
    budget = _number(watched, unit, "--max-num-batched-tokens")
    return None if budget is None else budget % CHUNK_TOKENS


def drain_over_grace(watched: Watched, unit: Unit) -> Amount:
    """p99 of the request duration (its own p95 over the window) and the time to drain, over the grace period."""
    grace, longest = _number(watched, unit, "terminationGracePeriodSeconds"), watched.values(unit, "e2e_p99")
    if grace is None or longest is None or not np.isfinite(longest).any():
        return None
    return (float(np.nanquantile(longest, 0.95)) + DRAIN_SECONDS) / max(grace, 1.0)


def start_over_probe(watched: Watched, unit: Unit) -> Amount:
    """Time of a start as measured x 1.5, over what the startup probe allows; 0 where no start was seen."""
    allowed = _number(watched, unit, "startupProbe")
    seconds = cold_start(watched, unit)
    return None if allowed is None or not isinstance(seconds, float) else START_MARGIN * seconds / max(allowed, 1.0)


def _number(watched: Watched, unit: Unit, name: str) -> float | None:
    value, _ = watched.settings.get(unit, {}).get(name, ("", 0.0))
    try:
        return float(value)
    except ValueError:
        return None


def _is_of(unit: Unit, one: Declared) -> bool:
    name, _ = workload(unit.member.pod)
    same_place = not one.namespace or one.namespace == unit.member.pool.namespace
    return same_place and one.workload in (name, unit.member.pod)


QUANTITIES: Mapping[str, Quantity] = {
    "chunk_remainder": Quantity(
        "--max-num-batched-tokens beyond a multiple of 128",
        "tokens",
        (),
        chunk_remainder,
        setting="--max-num-batched-tokens",
    ),
    "drain_over_grace": Quantity(
        "Time that the longest requests and a drain take, over the grace period,",
        "times",
        (),
        drain_over_grace,
        optional=("e2e_p99",),
        setting="terminationGracePeriodSeconds",
    ),
    "start_over_probe": Quantity(
        "Time of a start x 1.5, over what the startup probe allows,",
        "times",
        (),
        start_over_probe,
        optional=(STARTED,),
        setting="startupProbe",
    ),
}
