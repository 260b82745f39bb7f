"""Planned events: for a while the load is a multiple of what it would be.

Users announce what no history shows: a launch, a campaign, a migration. An event multiplies the forecast of its hours.
A past event is treated as a gap: learned as demand, it would come back a week later.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.series import LoadSeries, stamp
from inferdoc.times import length_of

FACTOR = re.compile(r"[x×](\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class PlannedEvent:
    """From start to end, Unix seconds, the load is `factor` times the usual one."""

    start: int
    end: int
    factor: float
    title: str = ""

    @property
    def text(self) -> str:
        """In words: `Launch: x3 from 2026-12-01T09:00:00Z to 2026-12-01T11:00:00Z`."""
        head = f"{self.title}: " if self.title else ""
        return f"{head}x{self.factor:g} from {stamp(self.start)} to {stamp(self.end)}"


def event_of(text: str, zone: ZoneInfo) -> PlannedEvent:
    """An event written as `2026-12-01T09:00,2h,x3`: when it begins on the clock of the zone (or with an offset of its
    own), how long it lasts, and by what the load is multiplied. Raises InferdocError."""
    parts = [part.strip() for part in text.split(",")]
    factor = FACTOR.fullmatch(parts[2]) if len(parts) == 3 else None
    if factor is None:
        raise InferdocError(f"--event {text}: write when, how long and how much: 2026-12-01T09:00,2h,x3")
    try:
        begin = datetime.fromisoformat(parts[0])
    except ValueError as fault:
        raise InferdocError(f"--event {text}: `{parts[0]}` is not a time; write 2026-12-01T09:00") from fault
    start = round((begin if begin.tzinfo else begin.replace(tzinfo=zone)).timestamp())
    return checked(PlannedEvent(start, start + round(length_of(parts[1], "--event")), float(factor[1])))


def checked(event: PlannedEvent) -> PlannedEvent:
    """The event. Raises InferdocError where it lasts no time."""
    if event.end <= event.start:
        raise InferdocError(f"event {event.text}: it ends before it begins")
    return event


def without_events(series: LoadSeries, events: Collection[PlannedEvent]) -> LoadSeries:
    """The series with the events of its past as gaps, each with a note."""
    for event in events:
        mask = _inside(series.start, series.step, len(series.values), event) > 0
        if np.isfinite(series.values[mask]).any():
            series = series.with_gaps(mask, f"a planned event of the past is taken as a gap: {event.text}")
    return series


def factors(start: int, step: int, count: int, events: Collection[PlannedEvent]) -> np.ndarray:
    """float64[count]: by what each bin of a forecast is multiplied; a bin that an event covers in part, in part."""
    made = np.ones(count)
    for event in events:
        made *= 1.0 + (event.factor - 1.0) * _inside(start, step, count, event)
    return made


def _inside(start: int, step: int, count: int, event: PlannedEvent) -> np.ndarray:
    """float64[count]: the share of each bin that lies within an event."""
    begins = start + step * np.arange(count, dtype=np.float64)
    return np.asarray(np.clip(np.minimum(begins + step, event.end) - np.maximum(begins, event.start), 0.0, None) / step)
