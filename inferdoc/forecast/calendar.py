"""The local calendar: days that begin at the forecast's origin on the local clock, and what a holiday is like.

A list says when a holiday is, not how. Some loads rest as on a Sunday, some half as much, some do not notice, some fall
below every Sunday. Only the earlier holidays of the same load show that, and they are few: a least squares over them is
drawn to the Sunday with the weight of half a holiday (Zellner's g-prior)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.series import DAY, LoadSeries

EPOCH = date(1970, 1, 1).toordinal()
WEEK = 7
PROBE = 900  # all zone transitions since 1970 fall on whole quarters of an hour (IANA tz database)


def zone_of(name: str) -> ZoneInfo:
    """The IANA zone of that name; InferdocError when there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as fault:
        raise InferdocError(
            f"time zone `{name}` does not exist; give an IANA name such as Europe/Berlin or UTC"
        ) from fault


@lru_cache(maxsize=200_000)
def _offset(quarter: int, zone: ZoneInfo) -> int:
    there = datetime.fromtimestamp(quarter * PROBE, UTC).astimezone(zone)
    delta = there.utcoffset()
    return 0 if delta is None else int(delta.total_seconds())


def local_seconds(times: np.ndarray, zone: ZoneInfo) -> np.ndarray:
    """int64[n]: the wall clock of Unix seconds `times`, as seconds since 1970-01-01 00:00 of the same clock."""
    hours, place = np.unique(times // 3600, return_inverse=True)
    before = np.array([_offset(int(h) * 4, zone) for h in hours], dtype=np.int64)
    after = np.array([_offset(int(h) * 4 + 3, zone) for h in hours], dtype=np.int64)
    offsets = before[place]
    for i in np.flatnonzero((before != after)[place]):
        offsets[i] = _offset(int(times[i]) // PROBE, zone)
    return times + offsets


@dataclass(frozen=True)
class Rows:
    """History and future folded into local days that begin at the origin's time of day.

    z: float64[R, P], square root of the load, NaN for gaps; row R-1 is the last day before the origin.
    holiday: bool[R, P], where that is a holiday on a working day, and therefore a gap.
    on_holiday: float64[R, P], what z would be there; NaN elsewhere.
    days: int64[R+F, P], the bin's local date, in days since 1970.
    resting: bool[R+F, P], whether that is a weekend day. A holiday on a working day is not: one of the past is filled
    as the usual day (`paths.fill_gaps`), one to come is forecast from that and from a Sunday (`Likeness`).
    stand_in: int64[F, P], the future row of the Sunday next to a holiday; elsewhere the bin's own.
    row, col: int64[H], place of each forecast step (row counts from 0 = the day that begins at the origin).
    minutes: minutes per column."""

    z: np.ndarray
    holiday: np.ndarray
    on_holiday: np.ndarray
    days: np.ndarray
    resting: np.ndarray
    stand_in: np.ndarray
    row: np.ndarray
    col: np.ndarray
    minutes: float

    @property
    def holiday_ahead(self) -> np.ndarray:
        """bool[F, P], whether that is a holiday on a working day."""
        return np.asarray(self.stand_in != np.arange(len(self.stand_in))[:, None])

    @property
    def count(self) -> int:
        return len(self.z)

    @property
    def width(self) -> int:
        return int(self.z.shape[1])

    @property
    def ahead(self) -> int:
        return len(self.resting) - len(self.z)


def fold(series: LoadSeries, zone: ZoneInfo, steps: int, holidays: Collection[date] = ()) -> Rows:
    """Rows of `series`, with `steps` forecast steps from its end. On a day of 25 hours the repeated hour is averaged,
    on one of 23 hours the missing hour stays empty."""
    width = max(1, round(DAY / series.step))
    future = series.end + series.step * np.arange(steps, dtype=np.int64)
    clock = local_seconds(np.concatenate([series.times, future]), zone)
    origin = int(local_seconds(np.array([series.end]), zone)[0])
    shifted = clock - origin
    row, col = np.divmod(shifted, DAY)
    col = np.minimum(col * width // DAY, width - 1)
    past = len(series.values)
    count = max(1, int(-row[0]) if past else 1)
    ahead_row = np.maximum(row[past:], 0)
    ahead = int(ahead_row.max()) + 1 if steps else 1
    begins = (np.arange(-count, ahead + WEEK)[:, None] * width + np.arange(width)[None, :]) * (DAY / width)
    days = np.floor((origin + begins) / DAY).astype(np.int64)
    holiday = np.isin(days, [day.toordinal() - EPOCH for day in holidays]) & ~_weekend(days)
    if not holiday[count : count + ahead].any():
        days, holiday = days[: count + ahead], holiday[: count + ahead]
    usable = (row[:past] < 0) & np.isfinite(series.values)
    flat = (row[:past][usable] + count) * width + col[:past][usable]
    total = np.bincount(flat, weights=np.sqrt(series.values[usable]), minlength=count * width)
    hits = np.bincount(flat, minlength=count * width)
    z = np.where(hits > 0, total / np.maximum(hits, 1), np.nan).reshape(count, width)
    on_holiday = np.where(holiday[:count], z, np.nan)
    z[holiday[:count]] = np.nan
    stand_in = _stand_in(days[count:], holiday[count:])
    minutes = DAY / width / 60
    return Rows(z, holiday[:count], on_holiday, days, _weekend(days), stand_in, ahead_row, col[past:], minutes)


def since_sunday(days: np.ndarray) -> np.ndarray:
    """How many days away the Sunday before is, 0 on a Sunday. days: int64, since 1970; day 0 was a Thursday."""
    return np.asarray((days + 4) % WEEK)


def _weekend(days: np.ndarray) -> np.ndarray:
    return np.asarray(since_sunday(days) % 6 == 0)


def _stand_in(days: np.ndarray, holiday: np.ndarray) -> np.ndarray:
    """int64[F, P]: the row whose forecast holds for each bin. days: int64[F, P], local days; holiday: bool[F, P]. A
    week beyond the last holiday is there, so that a Sunday is."""
    rows = np.broadcast_to(np.arange(len(days))[:, None], days.shape).copy()
    for row, col in np.argwhere(holiday):
        sundays = np.flatnonzero(since_sunday(days[:, col]) == 0)
        rows[row, col] = sundays[np.abs(sundays - row).argmin()]
    return rows


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
    """The likeness of the holidays among the rows."""
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
