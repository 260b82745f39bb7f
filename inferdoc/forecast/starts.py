"""How long replicas take to start, from history: the process's start time against the first page it served."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferdoc.forecast.fromsource import HistorySource
from inferdoc.forecast.series import DAY
from inferdoc.source.reads import Matcher

QUANTILE = 0.9
MIN_STARTS = 5
STEP = 30
LONGEST = 3600.0


@dataclass(frozen=True)
class Starts:
    """seconds: 90 % of the starts were faster (None = fewer than five were seen); count: starts seen."""

    seconds: float | None
    count: int


def cold_starts(source: HistorySource, end: int, days: int = 7, match: tuple[Matcher, ...] = ()) -> Starts:
    """Reads `process_start_time` of the last `days` days before `end` (Unix seconds). An engine serves its first page
    when the model is loaded, so first page - process start is the load time; image pull and scheduling come on top and
    are not seen."""
    found: dict[tuple[str, ...], float] = {}
    for begin in range(end - days * DAY, end, DAY):
        frame = source.read(["process_start_time"], begin, begin + DAY, STEP, match)
        if "process_start_time" not in frame:
            continue
        matrix = frame["process_start_time"]
        for entity, row in zip(matrix.entities, matrix.values, strict=True):
            for started in np.unique(row[np.isfinite(row)]):
                if started > begin:
                    first = float(frame.times[np.flatnonzero(row == started)[0]])
                    found.setdefault((*entity.member, f"{started:.0f}"), first - float(started))
    taken = [seconds for seconds in found.values() if 0 < seconds <= LONGEST]
    return Starts(float(np.quantile(taken, QUANTILE)) if len(taken) >= MIN_STARTS else None, len(taken))
