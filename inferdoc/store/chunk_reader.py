"""Reading the requested columns of segments."""

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
from inferdoc.store.segments import CHUNKS_PER_SEGMENT, Segment, chunk_data

_ASKED_AT_ONCE = 500
_PLANS_KEPT = 256


@dataclass(frozen=True)
class _Take:
    """A request to one chunk. number: of the chunk; width: its series; places: of the requested ones among them;
    series: their numbers; ranks: of them among all requested series of the segment."""

    number: int
    width: int
    places: NDArray[np.intp]
    series: Numbers
    ranks: NDArray[np.intp]


class ChunkReader:
    """Reads chunks for one call of `Reader.blocks`: pods of one kind share the plan of what to read."""

    def __init__(self, connection: sqlite3.Connection, layouts: LayoutTable, selected: SeriesFilter) -> None:
        self._connection = connection
        self._layouts = layouts
        self._selected = selected
        self._plans: dict[tuple[tuple[int, ...], bytes], list[_Take]] = {}

    def read(self, segments: list[tuple[Segment, slice]], matrix: Matrix) -> None:
        """Put the requested series of these rows of the segments of a target into its matrix."""
        plans = [self._plan(segment) for segment, _ in segments]
        requested = [
            segment.id * CHUNKS_PER_SEGMENT + take.number
            for (segment, _), plan in zip(segments, plans, strict=True)
            for take in plan
        ]
        bodies = self._bodies(requested)
        for (segment, inside), plan in zip(segments, plans, strict=True):
            if not plan:
                continue
            rows = matrix.rows(segment.times_ms[inside])
            length = len(segment.times_ms)
            is_plain = matrix.has_one and len(segment.layouts) == 1
            for take in plan:
                columns = take.ranks if is_plain else matrix.columns(take.series)
                places = take.places
                if not is_plain and (columns < 0).any():  # of a series that no row in the window has
                    places, columns = places[columns >= 0], columns[columns >= 0]
                body = bodies[segment.id * CHUNKS_PER_SEGMENT + take.number]
                values = unpack_chunk(body, take.width, length, places)
                matrix.fill(rows, columns, values if inside == slice(0, length) else values[:, inside])
            if len(segment.layouts) > 1:
                self._mark_absent(segment, inside, plan, matrix)

    def _bodies(self, requested: list[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for start in range(0, len(requested), _ASKED_AT_ONCE):
            part = tuple(requested[start : start + _ASKED_AT_ONCE])
            query = f"SELECT id, body FROM chunk WHERE id IN ({','.join('?' * len(part))})"
            rows = fetch(self._connection, query, part, int, bytes)
            found.update((number, chunk_data(number, body)) for number, body in rows)
        if len(found) != len(requested):
            raise DamagedError("a segment has lost chunks")
        return found

    def _plan(self, segment: Segment) -> list[_Take]:
        """What to read of a segment."""
        key = (segment.layouts, segment.chunk_of.tobytes())
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _PLANS_KEPT:
                self._plans.clear()
            series = segment.series(self._layouts)
            selected = np.zeros(len(series), bool)
            selected[self._selected.columns(series)] = True
            rank = np.cumsum(selected) - 1
            plan = self._plans[key] = []
            for number in np.unique(segment.chunk_of[selected]).tolist():
                members = np.flatnonzero(segment.chunk_of == number)
                places = np.flatnonzero(selected[members])
                plan.append(_Take(number, len(members), places, series[members[places]], rank[members[places]]))
        return plan

    def _mark_absent(self, segment: Segment, inside: slice, plan: list[_Take], matrix: Matrix) -> None:
        """Take out what a chunk holds for rows whose scrape had no such series."""
        series = np.concatenate([take.series for take in plan])
        layout_of = segment.layout_of[inside]
        times_ms = segment.times_ms[inside]
        for place in np.unique(layout_of).tolist():
            there = np.zeros(len(self._layouts.keys), bool)
            own = self._layouts.series(segment.layouts[place])
            there[own[own >= 0]] = True
            columns = matrix.columns(series[~there[series]])
            columns = columns[columns >= 0]
            if len(columns):
                matrix.fill(matrix.rows(times_ms[layout_of == place]), columns, STALE_BITS)
