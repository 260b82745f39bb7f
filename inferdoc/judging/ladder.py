"""Further back than the history before a window: where was it better?

A fault that is older than the window and its history looks like a steady state. So a window without a finding is held
against short stretches further back, by what users wait for; where it was much better then, and not just as bad at the
same hour yesterday, that stretch becomes the baseline and the window is judged again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from inferdoc.judging.model import BaselineKind
from inferdoc.judging.session import Session
from inferdoc.source.frame import SignalFrame
from inferdoc.source.reads import Grid

HOUR_MS = 3_600_000
FELT = ("ttft_mean", "e2e_mean", "itl_mean", "waiting")
WORSE = 1.5
"""Much worse: the ratio that the recipes ask of a time to first token."""
FAR_WORSE = 2 * WORSE
"""Worse even if it is one quantity alone: prompts that are computed anew delay first tokens and little else."""
LEAST_WORSE = {"ttft_mean": 0.1, "e2e_mean": 0.5, "itl_mean": 0.01, "waiting": 2.0}
"""What a user can notice: seconds, requests."""
LONGEST_MS = 30 * 60_000
RUNGS: tuple[tuple[BaselineKind, int], ...] = (
    ("history", 1 * HOUR_MS),
    ("history", 2 * HOUR_MS),
    ("history", 4 * HOUR_MS),
    ("history", 8 * HOUR_MS),
    ("same-hour-yesterday", 24 * HOUR_MS),
    ("last-week", 7 * 24 * HOUR_MS),
)
"""How long before the history a stretch ends; for a day and a week, before the window's own end."""
SAME = 1.2
"""At most so much worse than at the same hour yesterday is the rhythm of the day."""

Family = tuple[str, str, str]
Place = tuple[Family, str]
"""A pod, or under an empty name all pods of a model: those of before may have had other names."""
Levels = dict[Place, dict[str, float]]


@dataclass(frozen=True)
class Rung:
    """A stretch to compare with: kind, and its grid."""

    kind: BaselineKind
    grid: Grid


def better_times(session: Session) -> Rung | None:
    """The nearest stretch at which users of a pod, or of a model, waited much less than in the window, or None. Reads a
    few signals of each stretch that the source holds."""
    view = session.context.view
    now = _levels(session.frame, view.frame.begin)
    rungs = [_rung(session, kind, back) for kind, back in RUNGS]
    held = [rung for rung in rungs if "up" in session.source.names(rung.grid.start_ms, rung.grid.end_ms)]
    if not now or not held:
        return None
    then = {rung: _levels(session.read(FELT, rung.grid), 0) for rung in held}
    yesterday = next((then[rung] for rung in held if rung.kind == "same-hour-yesterday"), None)
    odd = set(now) if not yesterday else {place for place in now if _worse(now[place], _of(yesterday, place), SAME)}
    return next(
        (rung for rung in held if any(_worse(now[place], then[rung].get(place, {}), WORSE) for place in odd)), None
    )


def _rung(session: Session, kind: BaselineKind, back_ms: int) -> Rung:
    grid = session.frame.grid
    count = max(2, min(LONGEST_MS, grid.end_ms - grid.start_ms) // grid.step_ms)
    end_ms = grid.start_ms - back_ms if kind == "history" else grid.end_ms - back_ms
    return Rung(kind, replace(grid, start_ms=end_ms - (count - 1) * grid.step_ms, count=count))


def _levels(frame: SignalFrame, begin: int) -> Levels:
    """The median of what users wait for, by pod and by model, from a step on."""
    parts: dict[tuple[Place, str], list[np.ndarray]] = {}
    for name in FELT:
        for entity, row in zip(frame[name].entities, frame[name].values, strict=True) if name in frame else ():
            family = entity.get("cluster"), entity.get("namespace"), entity.get("model_name")
            for pod in {"", entity.pod}:
                parts.setdefault(((family, pod), name), []).append(row[begin:][np.isfinite(row[begin:])])
    levels: Levels = {}
    for (place, name), rows in parts.items():
        row = np.concatenate(rows)
        if len(row):
            levels.setdefault(place, {})[name] = float(np.median(row))
    return levels


def _of(levels: Levels, place: Place) -> Mapping[str, float]:
    """What a pod showed; of one that was not there yet, what its model did."""
    return levels.get(place) or levels.get((place[0], ""), {})


def _worse(now: Mapping[str, float], then: Mapping[str, float], ratio: float) -> bool:
    """Whether two of the quantities are worse, or one by far."""
    by = worse(now, then, ratio)
    return len(by) >= 2 or any(now[name] >= FAR_WORSE * then[name] for name in by)


def worse(now: Mapping[str, float], then: Mapping[str, float], ratio: float) -> list[str]:
    """What users wait for that is worse by the ratio, and by what a user can notice."""
    both = [name for name in FELT if name in now and name in then]
    return [n for n in both if now[n] >= ratio * then[n] and now[n] - then[n] >= LEAST_WORSE[n]]
