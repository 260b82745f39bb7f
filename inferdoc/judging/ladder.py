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


@dataclass(frozen=True)
class Rung:
    """A stretch to compare with: kind, and its grid."""

    kind: BaselineKind
    grid: Grid


def better_times(session: Session) -> Rung | None:
    """The nearest stretch at which users waited much less than in the window, or None. Reads a few signals of each
    stretch that the source holds."""
    view = session.context.view
    now = _levels(session.frame, view.frame.begin)
    rungs = [_rung(session, kind, back) for kind, back in RUNGS]
    held = [rung for rung in rungs if "up" in session.source.names(rung.grid.start_ms, rung.grid.end_ms)]
    if not now or not held:
        return None
    then = {rung: _levels(session.read(FELT, rung.grid), 0) for rung in held}
    for rung in held:
        if rung.kind == "same-hour-yesterday" and not _worse(now, then[rung], SAME):
            return None
    return next((rung for rung in held if _worse(now, then[rung], WORSE)), None)


def _rung(session: Session, kind: BaselineKind, back_ms: int) -> Rung:
    grid = session.frame.grid
    count = max(2, min(LONGEST_MS, grid.end_ms - grid.start_ms) // grid.step_ms)
    end_ms = grid.start_ms - back_ms if kind == "history" else grid.end_ms - back_ms
    return Rung(kind, replace(grid, start_ms=end_ms - (count - 1) * grid.step_ms, count=count))


def _levels(frame: SignalFrame, begin: int) -> dict[tuple[Family, str], float]:
    """The median of what users wait for, by model and signal, from a step on."""
    levels: dict[tuple[Family, str], list[np.ndarray]] = {}
    for name in FELT:
        for entity, row in zip(frame[name].entities, frame[name].values, strict=True) if name in frame else ():
            family = entity.get("cluster"), entity.get("namespace"), entity.get("model_name")
            levels.setdefault((family, name), []).append(row[begin:][np.isfinite(row[begin:])])
    rows = {key: np.concatenate(parts) for key, parts in levels.items()}
    return {key: float(np.median(row)) for key, row in rows.items() if len(row)}


def _worse(now: Mapping[tuple[Family, str], float], then: Mapping[tuple[Family, str], float], ratio: float) -> bool:
    """Whether some model is worse by the ratio, and by what a user can notice, in two of the quantities."""
    families = {family for family, _ in now}
    moved = {
        family: sum(
            now[family, name] >= ratio * then[family, name]
            and now[family, name] - then[family, name] >= LEAST_WORSE[name]
            for name in FELT
            if (family, name) in now and (family, name) in then
        )
        for family in families
    }
    return any(count >= 2 for count in moved.values())
