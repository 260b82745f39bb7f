"""A stored baseline in the place of history: which one fits the window, and its values on steps like the window's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Member, Pool
from inferdoc.fleet.speeds import as_labelled
from inferdoc.judging.clock import Clock
from inferdoc.judging.session import Session
from inferdoc.judging.stored import StoredBaseline, mismatch, place, read, read_header, stored_names
from inferdoc.source.frame import Earlier, Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid


def fitting(session: Session) -> StoredBaseline | None:
    """The stored baseline for a window without history: the default one, else the first by name, of the same pools and
    release. None where the window has a history or nothing fits; why nothing fits becomes a warning of the source."""
    folder, view = session.options.stored, session.context.view
    if folder is None or not view.units or view.begin >= session.context.clock.least_calm:
        return None
    refusals: list[str] = []
    chosen = _first(folder, {as_labelled(m.pool) for m in view.fleet.members}, session.older_than, refusals)
    if chosen is None and refusals:
        _warn(session, f"no history before the window, and no stored baseline for it: {'; '.join(refusals)}")
    return chosen


def _first(folder: Path, pools: set[Pool], older_than: str | None, refusals: list[str]) -> StoredBaseline | None:
    for name in stored_names(folder):
        path = place(folder, name)
        try:
            refusal = mismatch(name, read_header(path), pools, older_than)
            if refusal is None:
                return read(path, name)
        except InferdocError as error:
            refusal = str(error)
        refusals.append(refusal)
    return None


def _warn(session: Session, text: str) -> None:
    if text not in session.source.warnings:
        session.source.warnings.append(text)


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
