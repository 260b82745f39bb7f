"""Reading the wanted columns of stretches."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.block import STALE_BITS
from inferdoc.store.chunks import unpack_chunk
from inferdoc.store.codec import DamagedError
from inferdoc.store.layouts import LayoutTable, Numbers
from inferdoc.store.matrix import Matrix, SeriesFilter
from inferdoc.store.rows import fetch
from inferdoc.store.stretches import CHUNKS_PER_STRETCH, Stretch, chunk_data

_ASKED_AT_ONCE = 500
_PLANS_KEPT = 256


@dataclass(frozen=True)
class _Take:
    """What is wanted of one chunk. number: of the chunk; width: its series; places: of the wanted ones among them;
    series: their numbers; ranks: of them among all wanted series of the stretch."""

    number: int
    width: int
    places: NDArray[np.intp]
    series: Numbers
    ranks: NDArray[np.intp]


class ChunkReader:
    """Reads chunks for one call of `Reader.blocks`: pods of one kind share the plan of what to read."""

    def __init__(self, connection: sqlite3.Connection, layouts: LayoutTable, wanted: SeriesFilter) -> None:
        self._connection = connection
        self._layouts = layouts
        self._wanted = wanted
        self._plans: dict[tuple[tuple[int, ...], bytes], list[_Take]] = {}

    def read(self, stretches: list[tuple[Stretch, slice]], matrix: Matrix) -> None:
        """Put the wanted series of these rows of the stretches of a target into its matrix."""
        plans = [self._plan(stretch) for stretch, _ in stretches]
        asked = [
            stretch.id * CHUNKS_PER_STRETCH + take.number
            for (stretch, _), plan in zip(stretches, plans, strict=True)
            for take in plan
        ]
        bodies = self._bodies(asked)
        for (stretch, inside), plan in zip(stretches, plans, strict=True):
            if not plan:
                continue
            rows = matrix.rows(stretch.times_ms[inside])
            length = len(stretch.times_ms)
            is_plain = matrix.has_one and len(stretch.layouts) == 1
            for take in plan:
                columns = take.ranks if is_plain else matrix.columns(take.series)
                places = take.places
                if not is_plain and (columns < 0).any():  # of a series that no row in the window has
                    places, columns = places[columns >= 0], columns[columns >= 0]
                body = bodies[stretch.id * CHUNKS_PER_STRETCH + take.number]
                values = unpack_chunk(body, take.width, length, places)
                matrix.fill(rows, columns, values if inside == slice(0, length) else values[:, inside])
            if len(stretch.layouts) > 1:
                self._mark_absent(stretch, inside, plan, matrix)

    def _bodies(self, asked: list[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for start in range(0, len(asked), _ASKED_AT_ONCE):
            part = tuple(asked[start : start + _ASKED_AT_ONCE])
            query = f"SELECT id, body FROM chunk WHERE id IN ({','.join('?' * len(part))})"
            rows = fetch(self._connection, query, part, int, bytes)
            found.update((number, chunk_data(number, body)) for number, body in rows)
        if len(found) != len(asked):
            raise DamagedError("a stretch has lost chunks")
        return found

    def _plan(self, stretch: Stretch) -> list[_Take]:
        """What to read of a stretch."""
        key = (stretch.layouts, stretch.chunk_of.tobytes())
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _PLANS_KEPT:
                self._plans.clear()
            series = stretch.series(self._layouts)
            wanted = np.zeros(len(series), bool)
            wanted[self._wanted.columns(series)] = True
            rank = np.cumsum(wanted) - 1
            plan = self._plans[key] = []
            for number in np.unique(stretch.chunk_of[wanted]).tolist():
                members = np.flatnonzero(stretch.chunk_of == number)
                places = np.flatnonzero(wanted[members])
                plan.append(_Take(number, len(members), places, series[members[places]], rank[members[places]]))
        return plan

    def _mark_absent(self, stretch: Stretch, inside: slice, plan: list[_Take], matrix: Matrix) -> None:
        """Take out what a chunk holds for rows whose scrape had no such series."""
        series = np.concatenate([take.series for take in plan])
        layout_of = stretch.layout_of[inside]
        times_ms = stretch.times_ms[inside]
        for place in np.unique(layout_of).tolist():
            there = np.zeros(len(self._layouts.keys), bool)
            own = self._layouts.series(stretch.layouts[place])
            there[own[own >= 0]] = True
            columns = matrix.columns(series[~there[series]])
            columns = columns[columns >= 0]
            if len(columns):
                matrix.fill(matrix.rows(times_ms[layout_of == place]), columns, STALE_BITS)
