"""Shapes the replicas required at each minute into a floor that people can review and clusters can follow."""

from __future__ import annotations

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.prewarm.defaults import WINDOWS
from inferdoc.prewarm.week import MINUTES, MINUTES_PER_DAY

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
