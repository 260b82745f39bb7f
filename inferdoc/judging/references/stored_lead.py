"""A stored baseline in the place of history: which one fits the window, and its values on steps like the window's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Member, Pool
from inferdoc.judging.clock import Clock
from inferdoc.judging.references.stored import StoredBaseline, mismatch
from inferdoc.source.frame import Earlier, Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid


def check(stored: StoredBaseline, members: Iterable[Member], older_than: str | None) -> None:
    """Raises InferdocError where a baseline that was asked for by name is of other pools or another release."""
    refusal = mismatch(stored.name, stored.header, {m.pool for m in members}, older_than)
    if refusal is not None:
        raise InferdocError(f"{refusal}: save one of this fleet (inferdoc baseline save), or choose TIME..TIME")


def lead_of(stored: StoredBaseline, frame: SignalFrame, members: Iterable[Member]) -> SignalFrame:
    """The stored values for every row of a frame, ready for `prepend`: of the pod itself, else the median of the pods
    of its pool that are labelled alike. members: of the frame."""
    grid = _grid(stored.header.grid, frame.grid)
    taken = np.round(np.linspace(0, stored.header.count - 1, grid.count)).astype(int)
    then = {(p.cluster, p.namespace, pod): p.pool for p in stored.header.pools for pod in p.pods}
    now = {m.key: m.pool for m in members}
    lead = SignalFrame(grid)
    for name, matrix in frame.signals.items():
        before = stored.signals.get(name)
        if before is not None:
            asked = [(entity, now.get(entity.member)) for entity in matrix.entities]
            pools = [then.get(entity.member) for entity in before.entities]
            values = _rows(asked, before.entities, pools, before.values[:, taken])
            counted = before.counts is not None and matrix.counts is not None
            counts = _rows(asked, before.entities, pools, before.counts[:, taken]) if counted else None  # type: ignore[index]
            lead.signals[name] = SignalMatrix(matrix.entities, values, counts)
    return lead


def _rows(
    asked: list[tuple[Entity, Pool | None]], entities: list[Entity], pools: list[Pool | None], values: np.ndarray
) -> np.ndarray:
    """float64[asked, steps]: pods are filled from their own pool, rows of no pod (routers, GPUs) from their like."""
    gap = np.full(values.shape[1], np.nan)
    groups = {}
    for pool in set(pools):
        at = [row for row, other in enumerate(pools) if other == pool]
        groups[pool] = Earlier([entities[row] for row in at], values[at])
    filled = [groups[pool].of(entity, gap) if pool in groups else gap for entity, pool in asked]
    return np.vstack(filled) if filled else np.empty((0, len(gap)))


def _grid(stored: Grid, window: Grid) -> Grid:
    """Steps over the stored stretch: as far apart as the window's, but no closer than what was stored, unless these are
    fewer than a baseline must have. What a step holds is the nearest stored value: drawn lines would have no noise."""
    least = Clock(window.step_ms / 1000, window.interval_ms / 1000, 1).least_calm
    span_ms = stored.end_ms - stored.start_ms
    count = max(least, min(span_ms // window.step_ms + 1, stored.count), 2)
    return replace(window, start_ms=stored.start_ms, step_ms=max(1, span_ms // (count - 1)), count=count)
