"""The local week as 10,080 minutes, the form that every window, emitter and check is derived from, and the shaping of a
floor that people can review and clusters can follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.calendar import PROBE, local_seconds
from inferdoc.forecast.series import DAY
from inferdoc.prewarm import WINDOWS

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

    def covers(self, minute: int) -> bool:
        """Whether a minute of the week is inside."""
        return any((minute - day * MINUTES_PER_DAY - self.start) % MINUTES < self.length for day in self.days)

    @property
    def end_days(self) -> tuple[int, ...]:
        over = (self.start + self.length) // MINUTES_PER_DAY
        return tuple(sorted((day + over) % 7 for day in self.days))


def segments(floor: np.ndarray, base: int) -> list[WeekSegment]:
    """Segments of int64[10080] above `base`, by start; one over Sunday midnight is one segment. A constant floor has no
    segment."""
    if (floor == floor[0]).all():
        return []
    return sorted(differing_segments(np.full(MINUTES, base), np.maximum(floor, base)))


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
    times = int(begin.timestamp()) // 3600 * 3600 + PROBE * np.arange(days * DAY // PROBE + 1)
    offsets = local_seconds(times, zone) - times
    changed = np.flatnonzero(np.diff(offsets)).tolist()
    return [_jump(int(times[i + 1]), int(offsets[i]), int(offsets[i + 1])) for i in changed]


def _jump(moment: int, before: int, after: int) -> Jump:
    at = datetime.fromtimestamp(moment, UTC)
    first = at + timedelta(seconds=min(before, after))
    start = first.weekday() * MINUTES_PER_DAY + first.hour * 60 + first.minute
    return Jump(at, start, start + abs(after - before) // 60, after > before)


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


SLOT = 15
RAMP_MINUTES = 5
SIMPLER = 1.05
WEEK, WORKDAYS, REST = (0, 1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 4), (5, 6)


def ahead_of(need: np.ndarray, minutes: int) -> np.ndarray:
    """int64[n]: the highest need from each minute until `minutes` later, running on into the next week."""
    best = need.copy()
    done = 0
    while done < minutes:
        hop = min(max(1, done), minutes - done)
        best = np.maximum(best, np.roll(best, -hop))
        done += hop
    return best


def ramped(need: np.ndarray, ramp: int | None) -> np.ndarray:
    """The need raised so that no five minutes start more than `ramp` replicas: earlier minutes start sooner."""
    if ramp is None:
        return need
    slots = need.reshape(-1, RAMP_MINUTES).max(axis=1)
    twice = np.concatenate([slots, slots])
    for i in range(len(twice) - 2, -1, -1):
        twice[i] = max(twice[i], twice[i + 1] - ramp)
    return np.repeat(twice[: len(slots)], RAMP_MINUTES)


def merged_days(need: np.ndarray) -> np.ndarray:
    """Days given a common maximum where that costs at most 5 % more replica-hours: the whole week, else the working
    days, and the weekend."""
    days = need.reshape(7, MINUTES_PER_DAY)
    merged = days.copy()
    for group in (WEEK, WORKDAYS, REST):
        common = days[list(group)].max(axis=0)
        if common.sum() * len(group) <= SIMPLER * days[list(group)].sum():
            merged[list(group)] = common
            if group == WEEK:
                break
    return merged.reshape(-1)


def steps(need: np.ndarray, dwell: int, most: int = WINDOWS) -> np.ndarray:
    """int64[10080]: the simplest floor above `need` whose levels last at least `dwell` seconds and that costs at most 5
    % more replica-hours than the cheapest such floor. Changes fall on quarters of an hour. most: windows that may start
    on one day; fewer than the need has cost more."""
    slots = need.reshape(-1, SLOT).max(axis=1)
    least = max(1, -(-dwell // (SLOT * 60)))
    if (slots == slots[0]).all() or least * 2 > len(slots):
        return np.full(MINUTES, slots.max(), dtype=np.int64)
    days = slots.reshape(7, -1)
    if (days == days[0]).all() and least * 2 <= days.shape[1]:
        return np.repeat(np.tile(_simplest(days[0], least, most), 7), SLOT)
    return np.repeat(_simplest(slots, least, most), SLOT)


def _simplest(slots: np.ndarray, least: int, most: int) -> np.ndarray:
    """The floor of a cyclic day or week, cut where its lowest part ends; the price of a change is doubled while the
    floor stays within 5 % of the cheapest or starts more than `most` windows on some day."""
    turn = int(np.argmin(slots))
    turn = next(i % len(slots) for i in range(turn, turn + len(slots)) if slots[i % len(slots)] > slots[turn])
    line = np.roll(slots, -turn)
    best = _cheapest(line, least, 0.5)
    allowed = SIMPLER * best.sum()
    price = 1.0
    while price < line.max() * len(line):
        simpler = _cheapest(line, least, price)
        if simpler.sum() > allowed and starts_a_day(np.roll(best, turn)) <= most:
            break
        best, price = simpler, price * 2
    return np.asarray(np.roll(best, turn))


def starts_a_day(levels: np.ndarray) -> int:
    """The most windows (levels above the lowest) that begin on one day; levels: per quarter of an hour, around the
    clock of a day or a week."""
    begins = (levels != np.roll(levels, 1)) & (levels > levels.min())
    return int(begins.reshape(-1, MINUTES_PER_DAY // SLOT).sum(axis=1).max())


def _cheapest(line: np.ndarray, least: int, price: float) -> np.ndarray:
    """Levels of least sum plus `price` (in level times slots) per change. Dynamic programme over the last change:
    cost[j] = min over i of cost[i] + max(line[i:j]) x (j - i) + price."""
    count = len(line)
    cost = np.full(count + 1, np.inf)
    cost[0] = 0.0
    came = np.zeros(count + 1, dtype=np.int64)
    for j in range(least, count + 1):
        tops = np.maximum.accumulate(line[:j][::-1])[::-1]
        starts = np.arange(0, j - least + 1)
        total = cost[starts] + tops[starts] * (j - starts) + price
        best = int(np.argmin(total))
        cost[j], came[j] = total[best], best
    level = np.empty(count, dtype=np.int64)
    j = count
    while j > 0:
        i = int(came[j])
        level[i:j] = line[i:j].max()
        j = i
    return level


def within_budget(floor: np.ndarray, base: int, budget: float | None) -> tuple[np.ndarray, int | None]:
    """The floor cut at the highest level whose replica-hours in a week fit the budget, and that level (None = not
    cut)."""
    if budget is None or floor.sum() / 60 <= budget:
        return floor, None
    if base * MINUTES / 60 > budget:
        raise InferdocError(
            f"--budget {budget:g}: the minimum of {base} alone takes {base * MINUTES / 60:g} replica-hours a week; "
            "raise the budget or lower --min"
        )
    for top in range(int(floor.max()) - 1, base - 1, -1):
        cut = np.minimum(floor, top)
        if cut.sum() / 60 <= budget:
            return cut, top
    return np.full_like(floor, base), base
