"""The local calendar: days that begin at the forecast's origin on the local clock, whatever daylight saving does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
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
    as the usual day (`paths.fill_gaps`), one to come is forecast from that and from a Sunday (`likeness`).
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
