"""How often a process was started again: since the data begin, and lately.

A crash is an event, not a level: where scrapes are a minute apart, an engine that ends and is back within two of them
shows in no scrape that fails for long, but the kubelet counted it and the process has another start time.
"""

from __future__ import annotations

import numpy as np

from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix

RESTART_SCRAPES = 3
"""An engine loads its model for longer than three scrapes; a network that drops a scrape or two is no restart."""
STARTED, UP, RESTARTS, BY_KUBELET = "process_start_time", "target_up", "restarts_total", "kubelet_restarts"
SHOWN = "running"
"""What every engine shows as long as it runs."""
LATELY = "restarts_lately"
RECENT_MS = 30 * 60_000
"""A container that crashes as soon as it serves is started again after a back-off of up to five minutes and the time
that its model takes to load (Kubernetes documentation: container restart policy): three times within half an hour."""
HOUR_MS = 60 * 60_000
JUST_NOW_MS = 5 * 60_000
"""The longest back-off: a container that stays up for longer was not ended by what ended it before."""


def of_processes(frame: SignalFrame) -> SignalMatrix | None:
    """How often the process of a target was started again since the data begin: by its start time, and where that is
    not shown, by scrapes that succeed again after some failed, or that show an engine again after some that did not (an
    agent such as Ray's responds for the processes of its node)."""
    engines = _engines_shown(frame)
    rows: dict[Entity, np.ndarray] = {}
    for name in (UP, STARTED):
        for entity, row in zip(frame[name].entities, frame[name].values, strict=True) if name in frame else ():
            steps = np.flatnonzero(np.isfinite(row))
            if len(steps):
                known = row[steps]
                again = came_back(known) if name == UP else later_starts(known)
                if name == UP and entity.member in engines:
                    again |= left_for_a_time(engines[entity.member][steps], known < 0.5)
                rows[entity] = np.full(len(row), np.nan)
                rows[entity][steps] = np.cumsum(again)
    return SignalMatrix(list(rows), np.vstack([*rows.values()])) if rows else None


def _engines_shown(frame: SignalFrame) -> dict[tuple[str, str, str], np.ndarray]:
    """By pod or target without a start time whether it shows any engine: bool[T]."""
    known = {entity.member for entity in frame[STARTED].entities} if STARTED in frame else set()
    shown: dict[tuple[str, str, str], np.ndarray] = {}
    for entity, row in zip(frame[SHOWN].entities, frame[SHOWN].values, strict=True) if SHOWN in frame else ():
        if entity.member not in known:
            shown[entity.member] = shown.get(entity.member, False) | np.isfinite(row)
    return shown


def came_back(up: np.ndarray) -> np.ndarray:
    """bool[n]: where scrapes succeed again after more failed than a lost scrape or two explain."""
    failed = np.concatenate(([0], np.cumsum(up < 0.5)))
    before = failed[:-1] - failed[np.maximum(np.arange(len(up)) - RESTART_SCRAPES, 0)]
    return (up >= 0.5) & (before >= RESTART_SCRAPES)


def left_for_a_time(shown: np.ndarray, failed: np.ndarray) -> np.ndarray:
    """bool[n]: from where an engine is not shown for more scrapes than get lost, before it is shown again. Where
    scrapes failed in between, its target was away, too, which `came_back` counts. shown, failed: bool[n]."""
    known = np.maximum.accumulate(np.where(shown, np.arange(len(shown)), -1))
    back = np.flatnonzero(shown)[1:]
    back = back[(known[back - 1] >= 0) & (back - known[back - 1] > RESTART_SCRAPES)]
    failures = np.cumsum(failed)
    back = back[failures[back] == failures[known[back - 1]]]
    gone = np.zeros(len(shown), dtype=bool)
    gone[known[back - 1] + 1] = True
    return gone


def later_starts(times: np.ndarray) -> np.ndarray:
    """bool[n]: where a process has another start time than at the step before. times: Unix s."""
    return np.asarray(np.diff(times, prepend=times[0]) > 1.0)


def recent(frame: SignalFrame, within_ms: int = RECENT_MS) -> SignalMatrix | None:
    """How often a container was started again within the last half hour, or so many milliseconds."""
    if RESTARTS not in frame:
        return None
    counts = frame[RESTARTS]
    return SignalMatrix(counts.entities, _lately(_rises(counts.values), within_ms // frame.grid.step_ms))


def engine_ends(frame: SignalFrame) -> SignalMatrix | None:
    """How often the kubelet started an engine again in its pod within the last minutes: a restart that it counted, near
    which the process that is scraped has another start time. Restarts of a sidecar leave the engine as it is."""
    if BY_KUBELET not in frame or STARTED not in frame:
        return None
    step_ms, rate_ms = frame.grid.step_ms, frame.grid.rate_ms
    started: dict[tuple[str, str, str], np.ndarray] = {}
    for entity, rises in zip(frame[STARTED].entities, _rises(frame[STARTED].values) > 1.0, strict=True):
        started[entity.member] = started.get(entity.member, False) | rises
    counts = frame[BY_KUBELET]
    entities, rows = [], []
    for entity, rises in zip(counts.entities, _rises(counts.values), strict=True):
        if entity.member in started:
            # The count rises when the container starts; its start time shows when its model is loaded.
            near = _lately(started[entity.member][::-1].astype(float)[np.newaxis], RECENT_MS // step_ms)[0, ::-1] > 0
            entities.append(entity)
            rows.append(np.where(near, rises, 0.0))
    if not rows:
        return None
    return SignalMatrix(entities, _lately(np.vstack(rows), max(JUST_NOW_MS, 2 * rate_ms) // step_ms))


def _rises(counts: np.ndarray) -> np.ndarray:
    """float64[R, T]: by how much a count is higher than when it was last seen; 0 where it is not, or was never seen."""
    known = np.isfinite(counts)
    last = np.maximum.accumulate(np.where(known, np.arange(counts.shape[1]), -1), axis=1)
    filled = np.where(last >= 0, np.take_along_axis(counts, np.maximum(last, 0), axis=1), np.nan)
    return np.asarray(np.maximum(np.nan_to_num(np.diff(filled, axis=1, prepend=np.nan)), 0.0))


def _lately(events: np.ndarray, steps: int) -> np.ndarray:
    """float64[R, T]: the sum of the events of the last so many steps."""
    total = np.cumsum(events, axis=1)
    before = np.zeros_like(total)
    before[:, steps:] = total[:, :-steps] if steps else total
    return np.asarray(total - before)
