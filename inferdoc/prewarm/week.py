"""The local week as 10,080 minutes: the one form every window, emitter and check is derived from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

MINUTES_PER_DAY = 1440
MINUTES = 7 * MINUTES_PER_DAY
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
GUARD_MINUTES = 5


@dataclass(frozen=True, order=True)
class WeekSegment:
    """A time range of the local week with one floor. start, end: minute of the week (Monday 00:00 = 0), start < end;
    end passes 10,080 for a range over Sunday midnight; replicas: the floor in it."""

    start: int
    end: int
    replicas: int


@dataclass(frozen=True)
class WeekWindow:
    """The same time range on several days. days: 0 = Monday of the start; start: minute of the day; length: minutes."""

    days: tuple[int, ...]
    start: int
    length: int
    replicas: int

    @property
    def end(self) -> int:
        """Minute of the day at which it ends."""
        return (self.start + self.length) % MINUTES_PER_DAY

    @property
    def end_days(self) -> tuple[int, ...]:
        over = (self.start + self.length) // MINUTES_PER_DAY
        return tuple(sorted((day + over) % 7 for day in self.days))


def segments(floor: np.ndarray, base: int) -> list[WeekSegment]:
    """Segments of int64[10080] above `base`, by start; one over Sunday midnight is one segment. A constant floor has no
    segment."""
    changes = np.flatnonzero(floor != np.roll(floor, 1))
    found = []
    for i, begin in enumerate(changes.tolist()):
        end = int(changes[(i + 1) % len(changes)])
        if floor[begin] > base:
            found.append(WeekSegment(begin, end if end > begin else end + MINUTES, int(floor[begin])))
    return sorted(found)


def grouped(parts: Iterable[WeekSegment]) -> list[WeekWindow]:
    """Segments with the same clock times and floor on several days as one window. Segments longer than a day stay
    separate, so that starts and ends always alternate."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for part in parts:
        day, start = divmod(part.start, MINUTES_PER_DAY)
        length = part.end - part.start
        key = (start, length, part.replicas)
        groups.setdefault(key, []).append(day)
    windows = []
    for (start, length, replicas), days in groups.items():
        if length >= MINUTES_PER_DAY:
            windows += [WeekWindow((day,), start, length, replicas) for day in sorted(days)]
        else:
            windows.append(WeekWindow(tuple(sorted(days)), start, length, replicas))
    return sorted(windows, key=lambda w: (w.days[0], w.start, w.replicas))


def floor_of(windows: Iterable[WeekWindow], base: int) -> np.ndarray:
    """int64[10080]: the highest floor of the windows that cover each minute, `base` elsewhere."""
    floor = np.full(MINUTES, base, dtype=np.int64)
    for window in windows:
        for day in window.days:
            begin = day * MINUTES_PER_DAY + window.start
            at = np.arange(begin, begin + window.length) % MINUTES
            floor[at] = np.maximum(floor[at], window.replicas)
    return floor


def minute_of_week(moment: float, zone: ZoneInfo) -> int:
    """The minute of the local week at Unix seconds `moment`."""
    there = datetime.fromtimestamp(moment, UTC).astimezone(zone)
    return there.weekday() * MINUTES_PER_DAY + there.hour * 60 + there.minute


@dataclass(frozen=True)
class Jump:
    """A change of the zone's clock. at: UTC; start, end: minutes of the local week that are skipped (`skipped`) or
    happen twice, end exclusive (end may pass 10,080)."""

    at: datetime
    start: int
    end: int
    skipped: bool


def jumps(zone: ZoneInfo, begin: datetime, days: int) -> list[Jump]:
    """The clock changes of `zone` within `days` after `begin`."""
    found = []
    here = begin.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    last = here + timedelta(days=days)
    before = here.astimezone(zone).utcoffset()
    while here < last:
        here += timedelta(hours=6)
        after = here.astimezone(zone).utcoffset()
        if after != before and before is not None and after is not None:
            moment = _exact(zone, here - timedelta(hours=6), here)
            found.append(_jump(moment, before, after))
        before = after
    return found


def _exact(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    start = low.astimezone(zone).utcoffset()
    while high - low > timedelta(minutes=1):
        middle = low + (high - low) / 2
        middle = middle.replace(second=0, microsecond=0)
        if middle.astimezone(zone).utcoffset() == start:
            low = middle
        else:
            high = middle
    return high


def _jump(at: datetime, before: timedelta, after: timedelta) -> Jump:
    old, new = at + before, at + after
    first, last = min(old, new), max(old, new)
    start = first.weekday() * MINUTES_PER_DAY + first.hour * 60 + first.minute
    return Jump(at, start, start + int((last - first).total_seconds() // 60), new > old)


def clear_of_jumps(floor: np.ndarray, zone: ZoneInfo, begin: datetime, days: int) -> tuple[np.ndarray, list[str]]:
    """The floor without any change at a local time that some clock change in the next `days` skips or repeats: the
    higher floor is widened over the skipped or repeated time. Also one line for each change that was moved."""
    clear = floor.copy()
    notes: dict[tuple[int, int], str] = {}
    found = {(jump.start, jump.end): jump for jump in jumps(zone, begin, days)}
    moved = True
    while moved:  # widening one range may move a change into another
        moved = False
        for (start, end), jump in found.items():
            inside = np.arange(start - 1, end) % MINUTES
            if (clear[inside] == clear[inside[0]]).all():
                continue
            wide = np.arange(start - GUARD_MINUTES, end) % MINUTES
            clear[wide] = clear[wide].max()
            moved = True
            what = "skips" if jump.skipped else "repeats"
            span = f"{clock(start)}-{clock(end)}"
            notes[start, end] = f"a change within {span} was widened: on {jump.at:%Y-%m-%d} the clock {what} that time"
    return clear, list(notes.values())


def clock(minute: int) -> str:
    """`sun 02:00` for a minute of the week."""
    day, rest = divmod(minute % MINUTES, MINUTES_PER_DAY)
    return f"{DAYS[day]} {rest // 60:02d}:{rest % 60:02d}"
