"""What a holiday is like: so much of a Sunday and so much of the usual day of its weekday.

A list says when a holiday is, not how. Some loads rest as on a Sunday, some half as much, some do not notice, some fall
below every Sunday. Only the earlier holidays of the same load show that, and they are few: a least squares over them is
drawn to the Sunday with the weight of half a holiday (Zellner's g-prior)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from inferdoc.forecast.calendar import WEEK, Rows, since_sunday

PSEUDO_HOLIDAYS = 0.5
"""Weight of the prior, a Sunday, in holidays: as the pseudo-day of the paths (`combine`)."""
MIN_KNOWN = 0.5


@dataclass(frozen=True)
class Likeness:
    """sunday, usual: what a holiday takes of either forecast, in square-root space; spread: standard deviation of a
    holiday's level about that, as a share of it; None = half of what lies between the two; seen: how many earlier
    holidays say so; of_sunday: load of such a holiday over that of a Sunday."""

    sunday: float = 1.0
    usual: float = 0.0
    spread: float | None = None
    seen: int = 0
    of_sunday: float = 1.0

    def on(self, center: np.ndarray, near: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """float64[H] and float64[H]: the forecast of each step, of holidays as they are, and the standard deviation of
        what is not known of these (elsewhere 0). center: float64[F, P], the forecast as if there were none; near: what
        the newest errors added to it, which a holiday takes over and its Sunday does not; square-root space."""
        row, col = rows.row, rows.col
        sunday = np.maximum((center - near)[rows.stand_in[row, col], col] + near[row, col], 0.0)
        usual = center[row, col]
        holiday = rows.holiday_ahead[row, col]
        made = np.where(holiday, self.blend(sunday, usual), usual)
        unknown = np.abs(usual - sunday) / 2 if self.spread is None else self.spread * made
        return made, np.where(holiday, unknown, 0.0)

    def blend(self, sunday: np.ndarray, usual: np.ndarray) -> np.ndarray:
        return np.asarray(self.sunday * sunday + self.usual * usual)

    @property
    def text(self) -> str:
        """In words: `Sundays`, or what earlier holidays were of one."""
        if not self.seen:
            return "Sundays"
        return f"{self.of_sunday:.2g} of a Sunday's load, by {self.seen} earlier one{'s' * (self.seen > 1)}"


@dataclass(frozen=True)
class _Holiday:
    """load, sunday, usual: float64[n], square-root space: the holiday, the Sundays next to it and the same day of the
    weeks next to it, bin by bin."""

    load: np.ndarray
    sunday: np.ndarray
    usual: np.ndarray


def likeness_of(rows: Rows) -> Likeness:
    """What the holidays among the rows were like."""
    seen = _holidays(rows)
    if not seen:
        return Likeness()
    made = _fitted(seen)
    left = [_level_error(holiday, _fitted([h for h in seen if h is not holiday])) for holiday in seen]
    apart = [abs(h.usual.mean() - h.sunday.mean()) / 2 / max(float(h.load.mean()), 1e-9) for h in seen]
    prior = PSEUDO_HOLIDAYS * float(np.mean(np.square(apart)))
    spread = float(np.sqrt((np.square(left).sum() + prior) / (len(seen) + PSEUDO_HOLIDAYS)))
    sundays = sum(float((holiday.sunday**2).mean()) for holiday in seen)
    level = sum(float((made.blend(holiday.sunday, holiday.usual) ** 2).mean()) for holiday in seen)
    return replace(made, spread=spread, seen=len(seen), of_sunday=level / sundays if sundays > 0 else 1.0)


def _level_error(holiday: _Holiday, likeness: Likeness) -> float:
    made = float(likeness.blend(holiday.sunday, holiday.usual).mean())
    return float(holiday.load.mean()) / made - 1.0 if made > 0 else 0.0


def _holidays(rows: Rows) -> list[_Holiday]:
    found = []
    days = rows.days[: rows.count]
    for day in np.unique(days[rows.holiday]).tolist():
        row, col = np.nonzero((days == day) & rows.holiday)
        away = int(since_sunday(np.array(day)))
        sunday = _beside(rows, row, col, (-away, WEEK - away))
        usual = _beside(rows, row, col, (-WEEK, WEEK))
        load = rows.on_holiday[row, col]
        known = np.isfinite(load) & np.isfinite(sunday) & np.isfinite(usual)
        if known.mean() >= MIN_KNOWN and len(row) >= MIN_KNOWN * rows.width:
            found.append(_Holiday(load[known], sunday[known], usual[known]))
    return found


def _beside(rows: Rows, row: np.ndarray, col: np.ndarray, away: tuple[int, int]) -> np.ndarray:
    """The mean of the bins so many days before and after; where one is a holiday or not there, of a week further."""
    found = np.full((len(away), len(row)), np.nan)
    for line, distance in zip(found, away, strict=True):
        for further in (0, int(np.copysign(WEEK, distance))):
            at = row + distance + further
            missing = np.isnan(line) & (at >= 0) & (at < rows.count)
            line[missing] = rows.z[at[missing], col[missing]]
    hits = np.isfinite(found).sum(axis=0)
    return np.where(hits > 0, np.nansum(found, axis=0) / np.maximum(hits, 1), np.nan)


def _fitted(seen: list[_Holiday]) -> Likeness:
    """Non-negative least squares over the holidays, each of the same weight, drawn to (1, 0)."""
    gram, side = np.zeros((2, 2)), np.zeros(2)
    for holiday in seen:
        both = np.stack([holiday.sunday, holiday.usual])
        gram += both @ both.T / len(holiday.load)
        side += both @ holiday.load / len(holiday.load)
    if not seen or gram[0, 0] <= 0 or gram[1, 1] <= 0:
        return Likeness()
    gram, side = gram / len(seen), side / len(seen)
    share = PSEUDO_HOLIDAYS / (len(seen) + PSEUDO_HOLIDAYS)
    target = (1 - share) * side + share * gram[:, 0]
    sunday, usual = np.linalg.lstsq(gram, target, rcond=1e-9)[0].tolist()
    if usual < 0:
        sunday, usual = float(target[0] / gram[0, 0]), 0.0
    elif sunday < 0:
        sunday, usual = 0.0, float(target[1] / gram[1, 1])
    return Likeness(max(sunday, 0.0), max(usual, 0.0))
