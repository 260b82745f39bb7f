"""Tokens and requests of each engine in each slot: increases, so that nothing between two steps is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferdoc.audit.watched import Watched
from inferdoc.catalogue.signal import Term
from inferdoc.judging.view import Unit
from inferdoc.slo.goodput import SERVED
from inferdoc.slo.history import History
from inferdoc.source.frame import Entity
from inferdoc.source.plan import BY
from inferdoc.source.reads import Grid

COUNTED = {
    "prompts": Term(rate="vllm:prompt_tokens_total"),
    "outputs": Term(rate="vllm:generation_tokens_total"),
    "finished prompts": Term(rate="vllm:request_prompt_tokens_sum"),
    "finished outputs": Term(rate="vllm:request_generation_tokens_sum"),
    "served": SERVED,
}
ENERGY = Term(rate="DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
"""Millijoules of a GPU since its driver was loaded."""


@dataclass(frozen=True)
class TokenCounts:
    """Of one engine, float64[S]: prompt and output tokens, requests served, joules of its pod's GPUs (all of them at
    its first engine; None where no GPU exporter joins any to the pod). lost_prompts, lost_outputs: share of the tokens
    of the whole stretch that belong to no finished request."""

    prompts: np.ndarray
    outputs: np.ndarray
    served: np.ndarray
    lost_prompts: float
    lost_outputs: float
    joules: np.ndarray | None = None


def counts_of(history: History, watched: Watched, grid: Grid) -> dict[Unit, TokenCounts]:
    """Of every unit; zeros where nothing counted."""
    units = watched.view.units
    rows = {
        name: _by_unit(history.counts(term, grid, BY["engine"]), units, grid.count) for name, term in COUNTED.items()
    }
    energy = history.counts(ENERGY, grid, BY["gpu"])
    metered = {entity.member for entity in energy}
    joules = {unit: row / 1000 for unit, row in _by_unit(energy, units, grid.count).items()}
    found = {unit: _of_unit(unit, {name: rows[name][unit] for name in COUNTED}, watched) for unit in units}
    return {u: replace(one, joules=joules[u] if u.member.key in metered else None) for u, one in found.items()}


def _of_unit(unit: Unit, rows: Mapping[str, np.ndarray], watched: Watched) -> TokenCounts:
    served = float(rows["served"].sum())
    open_requests = _running_at_ends(watched, unit)
    lost = []
    for name in ("prompts", "outputs"):
        whole, ended = float(rows[name].sum()), float(rows[f"finished {name}"].sum())
        # What runs at either end belongs to no finished request of the stretch and is no loss.
        unsure = open_requests * ended / served if served else whole
        lost.append(max(0.0, whole - ended - unsure) / whole if whole else 0.0)
    return TokenCounts(rows["prompts"], rows["outputs"], rows["served"], lost[0], lost[1])


def _running_at_ends(watched: Watched, unit: Unit) -> float:
    """Requests that ran at the beginning or at the end of the stretch, the more of both."""
    running = watched.values(unit, "running")
    seen = np.empty(0) if running is None else running[np.isfinite(running)]
    return float(max(seen[0], seen[-1])) if len(seen) else 0.0


def _by_unit(found: Mapping[Entity, np.ndarray], units: Sequence[Unit], slots: int) -> dict[Unit, np.ndarray]:
    """Counts by unit; what names no engine of a pod counts for its first one."""
    rows = {unit: np.zeros(slots) for unit in units}
    places = {(unit.member.key, unit.engine): unit for unit in reversed(units)}
    first = {unit.member.key: unit for unit in reversed(units)}
    for entity, values in found.items():
        unit = places.get((entity.member, entity.engine)) or first.get(entity.member)
        if unit is not None:
            rows[unit] = rows[unit] + values
    return rows
