"""Limits changes of a schedule: people review them, and pods move. What the previous plan covers well enough is
kept."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from inferdoc.prewarm.plan import PlanRow, PoolRow, WindowRow, pool_plan
from inferdoc.prewarm.week import DAYS, MINUTES, WeekSegment, WeekWindow, clock


@dataclass(frozen=True)
class FormerPool:
    """A pool in the previous plan. floor: int64[10080]."""

    plan_id: str
    row: PoolRow
    floor: np.ndarray


def former_pool(plan: PlanRow | None, name: str, zone: str) -> FormerPool | None:
    """The pool in the previous plan; None if it was missing or had another time zone."""
    row = next((row for row in plan.pools if row.name == name), None) if plan is not None else None
    if plan is None or row is None or row.zone != zone or row.forecast.abstained:
        return None
    return FormerPool(plan.plan_id, row, pool_plan(row).floor)


def differing_segments(first: np.ndarray, second: np.ndarray) -> list[WeekSegment]:
    """The segments in which two floors (int64[10080]) differ, both constant within each; replicas: of the second."""
    differs = first != second
    edges = np.flatnonzero((first != np.roll(first, 1)) | (second != np.roll(second, 1)))
    found = []
    for i, begin in enumerate(edges.tolist()):
        if differs[begin]:
            end = int(edges[(i + 1) % len(edges)])
            found.append(WeekSegment(begin, end if end > begin else end + MINUTES, int(second[begin])))
    if not len(edges) and differs.all():
        found.append(WeekSegment(0, MINUTES, int(second[0])))
    return found


def settled_with(
    former: FormerPool, floor: np.ndarray, required: np.ndarray, price: float
) -> tuple[np.ndarray, list[str]]:
    """The floor with the former one in each time range where that meets `required` and a change would save less than
    `price` replica-hours a week; and a note. required: int64[10080], the minimum of each minute."""
    made, kept = floor.copy(), 0
    differs = np.flatnonzero(floor != former.floor)
    if not len(differs):
        return made, []
    runs = np.split(differs, np.flatnonzero(np.diff(differs) > 1) + 1)
    if len(runs) > 1 and runs[0][0] == 0 and runs[-1][-1] == MINUTES - 1:
        runs = [np.concatenate([runs[-1], runs[0]]), *runs[1:-1]]
    for run in runs:
        saved = float((former.floor[run] - floor[run]).sum()) / 60
        if (former.floor[run] >= required[run]).all() and saved < price:
            made[run] = former.floor[run]
            kept += 1
    note = f"{kept} time range(s) stay as in plan {former.plan_id}: a change would save under {price:g} replica-hours"
    return made, [note] if kept else []


def with_moves(row: PoolRow, former: FormerPool) -> PoolRow:
    """The pool with the value of the previous plan and its reason in the reason of each window."""
    plan = pool_plan(row)
    windows = [
        msgspec.structs.replace(written, reason=f"{written.reason}{_moved(window, former)}")
        for window, written in zip(plan.windows, row.windows, strict=True)
    ]
    return msgspec.structs.replace(row, windows=windows)


def _moved(window: WeekWindow, former: FormerPool) -> str:
    levels_inside = [former.floor[(d * 1440 + window.start + np.arange(window.length)) % MINUTES] for d in window.days]
    around = [
        former.floor[[(d * 1440 + window.start - 1) % MINUTES, (d * 1440 + window.start + window.length) % MINUTES]]
        for d in window.days
    ]
    levels = np.unique(np.concatenate(levels_inside)).tolist()
    same = levels == [window.replicas]
    if same and all((edges != window.replicas).all() for edges in around):
        return ""
    if same:
        return f"; plan {former.plan_id} kept {window.replicas} for longer"
    old = min(former.row.windows, key=lambda w: (abs(w.replicas - max(levels)), w.start), default=None)
    was = f"{levels[0]}" if len(levels) == 1 else f"{levels[0]} to {levels[-1]}"
    why = "" if old is None or levels == [former.row.base] else f" ({_first(old)})"
    return f"; plan {former.plan_id} had {was} then{why}"


def _first(window: WindowRow) -> str:
    """The reason without its part about the previous plan."""
    return window.reason.partition("; plan ")[0]


def span_words(days: tuple[int, ...], segment: WeekSegment) -> str:
    """`mon-fri 07:30-08:15`."""
    names = [DAYS[day] for day in days]
    run = len(days) > 2 and days == tuple(range(days[0], days[0] + len(days)))
    text = f"{names[0]}-{names[-1]}" if run else ",".join(names)
    return f"{text} {clock(segment.start)[4:]}-{clock(segment.end)[4:]}"
