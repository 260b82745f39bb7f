"""Tokens and requests of each engine in each slot: increases, so that nothing between two steps is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.audit.window_data import Watched
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
    of the whole interval that belong to no finished request."""

    prompts: np.ndarray
    outputs: np.ndarray
    served: np.ndarray
    lost_prompts: float
    lost_outputs: float
    joules: np.ndarray | None = None


def counts_of(history: History, watched: Watched, grid: Grid) -> dict[Unit, TokenCounts]:
    """Of every unit; zeros where nothing counted."""
    units = watched.view.units

    def counted(name: str, steps: Grid) -> dict[Unit, np.ndarray]:
        return _by_unit(history.counts(COUNTED[name], steps, BY["engine"]), units, steps.count)

    slots = {name: counted(name, grid) for name in ("prompts", "outputs", "served")}
    # In one piece: at the edges of slots tokens are guessed, and those of finished requests come in lumps.
    once = history.grid(history.end_ms - history.begin_ms)
    whole = {name: counted(name, once) for name in COUNTED}
    energy = history.counts(ENERGY, grid, BY["gpu"])
    metered = {entity.member for entity in energy}
    joules = {unit: row / 1000 for unit, row in _by_unit(energy, units, grid.count).items()}
    return {
        unit: TokenCounts(
            slots["prompts"][unit],
            slots["outputs"][unit],
            slots["served"][unit],
            *_lost({name: float(whole[name][unit].sum()) for name in COUNTED}, _open_at_ends(watched, unit)),
            joules[unit] if unit.member.key in metered else None,
        )
        for unit in units
    }


def _lost(counted: Mapping[str, float], unfinished: float) -> tuple[float, float]:
    """Share of prompt and of output tokens that belong to no finished request. unfinished: requests that run at either
    end of the interval; theirs belong to none of it either, and are no loss."""
    lost = []
    for name in ("prompts", "outputs"):
        whole, ended, served = counted[name], counted[f"finished {name}"], counted["served"]
        unsure = unfinished * ended / served if served else whole
        lost.append(max(0.0, whole - ended - unsure) / whole if whole else 0.0)
    return lost[0], lost[1]


def _open_at_ends(watched: Watched, unit: Unit) -> float:
    running = watched.values(unit, "running")
    seen = np.empty(0) if running is None else running[np.isfinite(running)]
    return float(seen[0] + seen[-1]) if len(seen) else 0.0


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
