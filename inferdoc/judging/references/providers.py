"""What else a window without a known cause can be compared with, nearest first.

A fault that is older than the window and its history looks like a steady state. So a window without a cause is compared
with a stored baseline, with short intervals further back at which users waited much less (and not just as long at the
same hour yesterday), with the first minutes of the source, and, where the source started lately, with what its counters
showed then. Each provider answers None where it has nothing better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Family, Pool
from inferdoc.fleet.speeds import as_labelled
from inferdoc.judging.model import BaselineKind
from inferdoc.judging.reading import LEAST_HISTORY_MS
from inferdoc.judging.references.lifetime import Lifetime
from inferdoc.judging.references.stored import StoredBaseline, mismatch, place, read, read_header, stored_names
from inferdoc.judging.session import Lead, Session
from inferdoc.source.frame import SignalFrame
from inferdoc.source.reads import Grid


def stored(session: Session) -> StoredBaseline | None:
    """The stored baseline for a window without history: the default one, else the first by name, of the same pools and
    release. None where the window has a history or nothing fits; why nothing fits becomes a warning of the source."""
    folder, view = session.options.stored, session.context.view
    if folder is None or not view.units or view.begin >= session.context.clock.least_baseline:
        return None
    refusals: list[str] = []
    chosen = _first(folder, {as_labelled(m.pool) for m in view.fleet.members}, session.older_than, refusals)
    if chosen is None and refusals:
        text = f"no history before the window, and no stored baseline for it: {'; '.join(refusals)}"
        session.source.warnings += [] if text in session.source.warnings else [text]
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


HOUR_MS = 3_600_000
FELT = ("ttft_mean", "e2e_mean", "itl_mean", "tpot_request_mean", "waiting")
WORSE = 1.5
"""Much worse: the ratio that the recipes query of a time to first token."""
FAR_WORSE = 2 * WORSE
"""Worse even if it is one quantity alone and more arrives."""
LEAST_WORSE = {"ttft_mean": 0.1, "e2e_mean": 0.5, "itl_mean": 0.01, "tpot_request_mean": 0.01, "waiting": 2.0}
"""What a user can notice: seconds, requests."""
ARRIVALS = "arrival_rate"
LEVELS = (*FELT, ARRIVALS)
MORE_LOAD = 1.3
"""Where so much more arrives than earlier, longer waits are no fault that started since, and earlier the fleet may not
have been in use yet."""
BLOCK_MS, REACH_MS = 30 * 60_000, 8 * HOUR_MS
"""What lies before the history is read coarsely, for so long, and looked at in blocks."""
COARSE_MS = 60_000
DAYS: tuple[tuple[BaselineKind, int], ...] = (("same-hour-yesterday", 24 * HOUR_MS), ("last-week", 7 * 24 * HOUR_MS))
"""How long before the window's own end the block of an earlier day ends."""
SAME = 1.2
"""At most so much worse than at the same hour yesterday is the rhythm of the day."""

LEAST_KNOWN = 0.25
"""Of the steps of a block: where fewer have a value, a deviation finds no baseline in it."""

Place = tuple[Family, str]
"""A pod, or under an empty name all pods of a model: those of before may have had other names."""
Levels = dict[Place, dict[str, float]]


def earlier_span(session: Session) -> Lead | None:
    """The nearest block at which users of a pod, or of a model, waited much less than in the window, and as long as
    before it: a block on the way up is part of the climb, and one at the edge of the change may hold some of it. Reads
    a few signals, coarsely, of what the source holds."""
    view, grid = session.context.view, session.frame.grid
    now = _levels(session.frame, view.frame.begin) if view.units else {}
    if not now:
        return None
    days = [(kind, [span]) for kind, back in DAYS for span in [_block(grid, grid.end_ms - back)]]
    blocks = [_block(grid, grid.start_ms - back) for back in range(0, REACH_MS, BLOCK_MS)]
    yesterday, week = (_levels_of(session, spans)[0] for _, spans in days)
    odd = [place for place in now if not yesterday or _much_worse(now[place], _of(yesterday, place), SAME)]
    levels = _levels_of(session, blocks)
    for nearest, farther in pairwise(zip(blocks, levels, strict=True)):
        (span, then), (before, earlier) = nearest, farther
        better = [place for place in odd if _much_worse(now[place], then.get(place, {}), WORSE)]
        steady = [place for place in better if not _worse(then[place], earlier.get(place, {}), SAME)]
        if steady:
            as_good = any(place in earlier and not _worse(earlier[place], then[place], SAME) for place in steady)
            span = before if as_good else span
            return "history", (span.start_ms, span.end_ms)
    for (kind, (span,)), then in zip(days, (yesterday, week), strict=True):
        if any(_much_worse(now[place], then.get(place, {}), WORSE) for place in odd):
            return kind, (span.start_ms, span.end_ms)
    return None


def _block(grid: Grid, end_ms: int) -> Grid:
    count = max(2, min(BLOCK_MS, grid.end_ms - grid.start_ms) // grid.step_ms)
    return replace(grid, start_ms=end_ms - (count - 1) * grid.step_ms, count=count)


def _levels_of(session: Session, blocks: list[Grid]) -> list[Levels]:
    """The levels of blocks, newest first, which are read at once and coarsely."""
    begin, end = blocks[-1].start_ms, blocks[0].end_ms
    if "up" not in session.source.names(begin, end):
        return [{} for _ in blocks]
    step = max(COARSE_MS, session.frame.grid.step_ms)
    grid = replace(session.frame.grid, start_ms=begin, step_ms=step, count=(end - begin) // step + 1)
    frame = session.read(LEVELS, grid)
    steps = [np.searchsorted(grid.times_ms, (block.start_ms, block.end_ms + 1)).tolist() for block in blocks]
    return [_levels(frame, first, stop, LEAST_KNOWN * (stop - first)) for first, stop in steps]


def _levels(frame: SignalFrame, first: int, stop: int | None = None, least: float = 1) -> Levels:
    """The median of what users wait for, and of what arrives, by pod and by model, between two steps; least: of so many
    values."""
    parts: dict[tuple[Place, str], list[np.ndarray]] = {}
    for name in LEVELS:
        for entity, row in zip(frame[name].entities, frame[name].values, strict=True) if name in frame else ():
            family, inside = (entity.get("cluster"), entity.get("namespace"), entity.get("model_name")), row[first:stop]
            for pod in {"", entity.pod}:
                parts.setdefault(((family, pod), name), []).append(inside[np.isfinite(inside)])
    levels: Levels = {}
    for (where, name), rows in parts.items():
        row = np.concatenate(rows)
        if len(row) >= least:
            levels.setdefault(where, {})[name] = float(np.median(row))
    return levels


def _of(levels: Levels, place: Place) -> Mapping[str, float]:
    """What a pod showed; of one that was not there yet, what its model did."""
    return levels.get(place) or levels.get((place[0], ""), {})


def _much_worse(now: Mapping[str, float], then: Mapping[str, float], ratio: float) -> bool:
    """Whether two of the quantities are worse, or one where no more arrives than then, or one by far."""
    by = _worse(now, then, ratio)
    least = 1 if ARRIVALS in now and now[ARRIVALS] <= MORE_LOAD * then.get(ARRIVALS, 0) else 2
    return len(by) >= least or any(now[name] >= FAR_WORSE * then[name] for name in by)


def _worse(now: Mapping[str, float], then: Mapping[str, float], ratio: float) -> list[str]:
    """What users wait for that is worse by the ratio, and by what a user can notice."""
    both = [name for name in FELT if name in now and name in then]
    return [n for n in both if now[n] >= ratio * then[n] and now[n] - then[n] >= LEAST_WORSE[n]]


HEAD_WINDOWS = 2
"""A rate needs a window, and a median more than one that stands apart."""


def first_minutes(session: Session) -> Lead | None:
    """The first minutes of what was read, where a pod was better in what users wait for, at no less load. A change is
    looked for once a baseline is long enough to be distinguished from; what changes before that, minutes after a server
    was installed or lost its data, leaves nothing but a steady state that is bad."""
    view, clock = session.context.view, session.context.clock
    if view.lead is not None or not view.units:
        return None
    head = max(HEAD_WINDOWS * clock.window_steps, clock.out_steps)
    if head >= clock.least_baseline or view.steps < 2 * clock.least_baseline:
        return None
    parts = ((0, head), (clock.least_baseline, None))
    then, now = (_levels(session.frame, first, stop) for first, stop in parts)
    pods = [place for place in now if place[1] and place in then]
    arrivals = [
        (then[pod][ARRIVALS], now[pod][ARRIVALS]) for pod in pods if ARRIVALS in then[pod] and ARRIVALS in now[pod]
    ]
    has_grown = sum(later for _, later in arrivals) > MORE_LOAD * sum(before for before, _ in arrivals)
    if has_grown or not any(_worse(now[pod], then[pod], WORSE) for pod in pods):
        return None
    first = replace(session.frame.grid, count=head)
    start_ms = first.start_ms
    earlier_ms = first.end_ms - (clock.least_baseline - 1) * first.step_ms
    if "up" in session.source.names(earlier_ms, start_ms - first.interval_ms):
        start_ms = earlier_ms  # nothing is compared with less than a baseline
    return "history" if head <= view.begin else "calm-before", (start_ms, first.end_ms)


FIRST_SCRAPES = 2
"""Intervals within which every target that was there is scraped once."""
BEFORE_MS = 3_600_000
"""Nothing in so long before: the source started then, and was not away for a while."""


def since_source_start(session: Session) -> Lead | None:
    """What counters stood at when the source started, where that is less than the least history before the end of the
    window; else None. What a fleet was like for a shorter time than it was watched is no past of it: most of it would
    be the start."""
    grid = session.frame.grid
    first = [int(one.times_ms[0]) for one in session.scrapes if len(one.times_ms)]
    start_ms = min(first, default=None)
    if start_ms is None or grid.end_ms - start_ms > LEAST_HISTORY_MS:
        return None
    if "up" in session.source.names(start_ms - BEFORE_MS, start_ms - grid.interval_ms):
        return None
    return Lifetime(start_ms, FIRST_SCRAPES * grid.interval_ms, (grid.end_ms - start_ms) / 1000)


PROVIDERS: tuple[Callable[[Session], Lead | None], ...] = (stored, earlier_span, first_minutes, since_source_start)


def references(session: Session, *, of_an_earlier_day: bool) -> Iterator[Lead]:
    """What each provider has, looked for when it is needed. of_an_earlier_day: what the window shows is the rhythm of
    the traffic, so that no better times say anything."""
    for provider in PROVIDERS:
        if of_an_earlier_day and provider in (earlier_span, first_minutes):
            continue
        found = provider(session)
        if found is not None:
            yield found
