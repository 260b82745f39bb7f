"""The candidate paths of the combination, and the baselines that every forecast is scored against.

Each path carries the day and the week in its own simple way. All work in square-root space on local days
(`calendar.Rows`) and see only rows before `upto`. Each returns float64[F, P] for the F days from row `upto` on, or None
when the history is too short. How they are combined: docs/forecast.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from inferdoc.forecast.calendar import WEEK, Rows, since_sunday

BLOCK_MINUTES = 30.0
DAILY_WAVES, WEEKEND_WAVES = 8, 6
DAILY_RIDGE, WEEKEND_RIDGE, WEEKDAY_RIDGE = 1e-3, 0.05, 0.2
"""Pseudo-days at zero of each coefficient."""
HALF_LIFE = 14.0


class DayKindRegression:
    """In blocks of half an hour, B a day. x: float64[R+F, B, C], regressors; z: float64[R, B], square root of the load,
    NaN for gaps; size: columns of `rows` in a block."""

    def __init__(self, rows: Rows, filled: np.ndarray) -> None:
        """filled: float64[R, P], the load of `rows` with its gaps filled where that can be."""
        self.size = block_size(rows.width, rows.minutes, BLOCK_MINUTES)
        self.blocks = rows.width // self.size
        self.z = block_means(filled.reshape(-1), self.size).reshape(rows.count, self.blocks)
        self.x, self._penalty = _regressors(rows, self.size)
        self._products = self._normal_equations()

    def fit(self, upto: int) -> np.ndarray:
        """float64[C]: coefficients by ridge regression on rows before `upto`, newer rows counting more."""
        grams, sides = self._products
        weight = 0.5 ** (np.arange(upto, 0, -1) / HALF_LIFE)
        gram, side = np.tensordot(weight, grams[:upto], axes=1), weight @ sides[:upto]
        return np.asarray(np.linalg.solve(gram + np.diag(self._penalty), side))

    def left(self, upto: int, fit: np.ndarray) -> np.ndarray:
        """float64[upto * B]: what the regression leaves of the rows before `upto`, NaN for gaps."""
        return np.asarray((self.z[:upto] - self.x[:upto] @ fit).reshape(-1))

    def path(self, upto: int, ahead: int, fit: np.ndarray, rest: np.ndarray | float = 0.0) -> np.ndarray:
        """float64[ahead, P]: the regression on the rows from `upto` on. rest: float64[ahead * B], added to it."""
        line = (self.x[upto : upto + ahead] @ fit).reshape(-1) + rest
        centres = (np.arange(len(line)) + 0.5) * self.size - 0.5
        return np.asarray(np.interp(np.arange(len(line) * self.size), centres, line)).reshape(ahead, -1)

    def _normal_equations(self) -> tuple[np.ndarray, np.ndarray]:
        """Per row: float64[R, C, C] and float64[R, C]."""
        known = np.isfinite(self.z)
        x = np.where(known[:, :, None], self.x[: len(self.z)], 0.0)
        return x.transpose(0, 2, 1) @ x, np.einsum("rbc,rb->rc", x, np.where(known, self.z, 0.0))


def _regressors(rows: Rows, size: int) -> tuple[np.ndarray, np.ndarray]:
    """float64[R+F, B, C] and the ridge of each, float64[C]."""
    middle = slice(size // 2, None, size)
    days, resting = rows.days[: len(rows.resting), middle], rows.resting[:, middle]
    blocks = days.shape[1]
    angle = 2 * np.pi * (np.arange(blocks) + 0.5) / blocks
    waves = min(DAILY_WAVES, (blocks - 1) // 2)
    daily = np.stack([np.ones(blocks), *(f(k * angle) for k in range(1, waves + 1) for f in (np.sin, np.cos))], axis=1)
    weekend = daily[:, : 1 + 2 * min(WEEKEND_WAVES, waves)] * resting[:, :, None]
    weekday = days[:, :, None] % WEEK == np.arange(WEEK)
    x = np.concatenate([np.broadcast_to(daily, (*days.shape, daily.shape[1])), weekend, weekday], axis=2)
    ridges = (DAILY_RIDGE, WEEKEND_RIDGE, WEEKDAY_RIDGE)
    counts = (daily.shape[1], weekend.shape[2], WEEK)
    penalty = blocks * np.concatenate([np.full(n, ridge) for n, ridge in zip(counts, ridges, strict=True)])
    return x, penalty


def block_size(width: int, minutes: float, target_minutes: float) -> int:
    """Columns per block: as near to `target_minutes` as divides the day."""
    near = max(1, round(target_minutes / minutes))
    return next(size for size in range(near, 0, -1) if width % size == 0)


def block_means(line: np.ndarray, size: int) -> np.ndarray:
    """Means over blocks of `size` values, NaN left out."""
    parts = line.reshape(-1, size)
    known = np.isfinite(parts).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.where(known > 0, np.nansum(parts, axis=1) / np.maximum(known, 1), np.nan)


SMOOTH_MINUTES = 25.0
DAY_HALF_LIFE = 1.0
WEEK_HALF_LIFE = 14.0
LEVEL_SHARE = 0.5
DAY_FADE_MINUTES, HOUR_FADE_MINUTES = 2 * 1440.0, 120.0
TYPE_WEIGHTS = (1.0, 0.5, 0.25)
LEVEL_HALF_LIFE, LEVEL_TURNS = 1.5, 4
LEAST_LEVEL = 1e-6


@dataclass
class Folded:
    """Rows plus what several paths share. z: float64[R, P] with gaps filled from earlier rows where possible."""

    rows: Rows
    z: np.ndarray

    @property
    def count(self) -> int:
        return self.rows.count

    @cached_property
    def flat_level(self) -> float:
        known = self.z[np.isfinite(self.z)]
        return float(known.mean()) if len(known) else 0.0

    @cached_property
    def rhythm(self) -> DayKindRegression:
        return DayKindRegression(self.rows, self.z)


def smooth(rows: np.ndarray, minutes: float) -> np.ndarray:
    """float64[F, P]: each row averaged over SMOOTH_MINUTES, running on into its neighbours; NaN are left out."""
    taps = max(1, round(SMOOTH_MINUTES / minutes) // 2 * 2 + 1)
    if taps == 1:
        return rows
    half = taps // 2
    line = rows.reshape(-1)
    padded = np.concatenate([line[-half:], line, line[:half]])
    known = np.isfinite(padded)
    total = np.convolve(np.where(known, padded, 0.0), np.ones(taps), mode="valid")
    hits = np.convolve(known.astype(np.float64), np.ones(taps), mode="valid")
    with np.errstate(invalid="ignore"):
        return np.where(hits > 0, total / np.maximum(hits, 1), np.nan).reshape(rows.shape)


def weighted_mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean over axis 0 with `weights` (broadcast against values), NaN left out; NaN where nothing is known."""
    known = np.isfinite(values)
    weight = np.where(known, weights, 0.0)
    total = weight.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(total > 0, (np.where(known, values, 0.0) * weight).sum(axis=0) / total, np.nan))


def _filled(profile: np.ndarray, fallback: float) -> np.ndarray:
    if not np.isnan(profile).any():
        return profile
    known = np.isfinite(profile)
    if not known.any():
        return np.full_like(profile, fallback)
    line = profile.reshape(-1)
    at = np.arange(len(line))
    good = np.isfinite(line)
    return np.asarray(np.interp(at, at[good], line[good], period=len(line))).reshape(profile.shape)


def _level(folded: Folded, upto: int) -> float:
    recent = folded.z[max(0, upto - WEEK) : upto]
    known = recent[np.isfinite(recent)]
    return float(known.mean()) if len(known) else folded.flat_level


def flat(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The mean of the last seven days: the yardstick of skill."""
    return np.full((ahead, folded.rows.width), _level(folded, upto))


def day(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The same time of day, newer days counting more."""
    if upto < 1:
        return None
    age = np.arange(upto, 0, -1, dtype=np.float64)[:, None]
    profile = weighted_mean(folded.z[:upto], 0.5 ** (age / DAY_HALF_LIFE))
    profile = smooth(profile[None, :], folded.rows.minutes)
    return np.repeat(_filled(profile, _level(folded, upto)), ahead, axis=0)


def _week_rows(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    if upto < WEEK:
        return None
    out = np.empty((ahead, folded.rows.width))
    for lead in range(ahead):
        target = upto + lead
        older = np.arange(target - WEEK * (1 + lead // WEEK), -1, -WEEK)
        age = (target - older).astype(np.float64)[:, None]
        out[lead] = weighted_mean(folded.z[older], 0.5 ** (age / WEEK_HALF_LIFE))
    return out


def week(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The same time of the week, newer weeks counting more."""
    rows = _week_rows(folded, upto, ahead)
    return None if rows is None else _filled(smooth(rows, folded.rows.minutes), _level(folded, upto))


def week_level(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """`week`, moved by half of yesterday's mean deviation from its own weekly profile: follows shifts of level."""
    base, own = week(folded, upto, ahead), _week_rows(folded, upto - 1, 1) if upto > WEEK else None
    if base is None or own is None:
        return None
    gap = folded.z[upto - 1] - own[0]
    shift = float(np.nanmean(gap)) if np.isfinite(gap).any() else 0.0
    return np.asarray(base + LEVEL_SHARE * shift)


def day_type(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The last three days of the same kind (working day, weekend), column by column."""
    if upto < 2:
        return None
    resting = folded.rows.resting
    out = np.empty((ahead, folded.rows.width))
    newest_first = folded.z[:upto][::-1]
    for lead in range(ahead):
        same = (resting[:upto][::-1] == resting[upto + lead]) & np.isfinite(newest_first)
        rank = np.cumsum(same, axis=0)
        weight = np.zeros(same.shape)
        for place, share in enumerate(TYPE_WEIGHTS, start=1):
            weight[same & (rank == place)] = share
        out[lead] = weighted_mean(newest_first, weight)
    return _or_day(out, folded, upto)


def _or_day(path: np.ndarray, folded: Folded, upto: int) -> np.ndarray | None:
    """The path, smoothed, and `day` where it has no value; None if that is most of it."""
    if np.isnan(path).mean() > 0.5:
        return None
    path, base = smooth(path, folded.rows.minutes), day(folded, upto, len(path))
    return path if base is None else np.where(np.isfinite(path), path, base)


def day_level(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The profile of the kind of day times the level of the last days: a weekend at twice the load rises twice as much.

    Each day is its level times its profile, by alternating least squares. Levels are smoothed over the days, so that
    the lasting difference between working days and weekends is in the profiles."""
    if upto < 2:
        return None
    z, resting, days = folded.z[:upto], folded.rows.resting, np.arange(upto)
    near = 0.5 ** (np.abs(days[:, None] - days) / LEVEL_HALF_LIFE)
    newer = 0.5 ** ((upto - days[:, None]) / WEEK_HALF_LIFE)
    level = np.ones(upto)
    for _ in range(LEVEL_TURNS):
        working, weekend = (
            weighted_mean(np.where(resting[:upto] == kind, z / level[:, None], np.nan), newer) for kind in (False, True)
        )
        usual = np.where(resting[:upto], weekend, working)
        known = np.isfinite(z) & np.isfinite(usual)
        power = np.where(known, usual, 0.0) ** 2
        seen = power.any(axis=1)
        own = np.where(known, z * usual, 0.0).sum(axis=1) / np.where(seen, power.sum(axis=1), np.nan)
        level = np.maximum(weighted_mean(own[:, None], near), LEAST_LEVEL)
    out = np.where(resting[upto : upto + ahead], weekend, working) * level[-1]
    return _or_day(out, folded, upto)


def harmonics(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """Regression on the time of day by kind of day, with what is left of the last day and the last hour fading away."""
    if upto < 3:
        return None
    rhythm = folded.rhythm
    fit = rhythm.fit(upto)
    path = rhythm.path(upto, ahead, fit)
    left = folded.z[upto - 1] - rhythm.path(upto - 1, 1, fit)[0]
    known = np.isfinite(left)
    if not known.any():
        return path
    of_day = float(left[known].mean())
    hour = left[-max(1, round(60 / folded.rows.minutes)) :]
    of_hour = float(np.nanmean(hour)) - of_day if np.isfinite(hour).any() else 0.0
    lead_minutes = (np.arange(ahead * folded.rows.width) + 0.5).reshape(path.shape) * folded.rows.minutes
    return np.asarray(
        path + of_day * np.exp(-lead_minutes / DAY_FADE_MINUTES) + of_hour * np.exp(-lead_minutes / HOUR_FADE_MINUTES)
    )


Path = Callable[[Folded, int, int], np.ndarray | None]

PATHS: dict[str, Path] = {
    "day": day,
    "week": week,
    "week+level": week_level,
    "harmonics": harmonics,
    "day-type": day_type,
    "day-level": day_level,
}


def fill_gaps(rows: Rows) -> np.ndarray:
    """float64[R, P]: z with gaps filled from the profile of earlier rows plus the row's own known deviation from it, so
    that a gap in the peak does not drag the profile of later days down. Rows with less than half known stay as they
    are; a holiday is as a week before, so that it does not come back a week later, moved by half of what its level lay
    beyond Sunday's and the usual one: that a list does not explain, and it may last."""
    z = rows.z.copy()
    for r in range(WEEK, rows.count):
        if rows.holiday[r].any():
            z[r] = np.where(rows.holiday[r], np.maximum(z[r - WEEK] + LEVEL_SHARE * _beyond(rows, z, r), 0.0), z[r])
    at = np.arange(rows.width)
    for r in range(1, rows.count):
        known = np.isfinite(z[r])
        if known.all() or known.sum() * 2 < rows.width:
            continue
        age = np.arange(r, 0, -1, dtype=np.float64)[:, None]
        profile = weighted_mean(z[:r], 0.5 ** (age / DAY_HALF_LIFE))
        left = z[r] - profile
        anchor = np.isfinite(left)
        if not anchor.any():
            continue
        patch = profile + np.interp(at, at[anchor], smooth(left[None, :], rows.minutes)[0][anchor])
        z[r] = np.where(known, z[r], np.maximum(patch, 0.0))
    return z


def _beyond(rows: Rows, z: np.ndarray, row: int) -> float:
    """How far the holiday in a row lay above, or below, both the same day of the week before and the Sunday before."""
    col = np.flatnonzero(rows.holiday[row])
    sunday = z[row - since_sunday(rows.days[row, col]), col]
    both = np.stack([rows.on_holiday[row, col], sunday, z[row - WEEK, col]])
    known = np.isfinite(both).all(axis=0)
    if not known.any():
        return 0.0
    load, *explained = both[:, known].mean(axis=1).tolist()
    return float(load - np.clip(load, min(explained), max(explained)))


NEIGHBOURS, MIN_DAYS, MIN_KNOWN = 4, 3, 0.5
OTHER_KIND = 8.0
"""How far away a day of another kind is, in usual distances: a working day before a weekend is like another one."""
NEAREST = 0.1
"""Added to distances, so that one almost identical day does not get all the weight."""


def like_days(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """float64[F, P]: the mean of what followed the days most like the last one, each moved by half of what lay between
    the levels of the two. Alike are days of small squared distance, and of the same kind (working or resting), as
    also the days after them. None where fewer than three days can be compared."""
    z, resting, last = folded.z, folded.rows.resting, folded.z[upto - 1]
    distances, kinds, gaps, rows = list[float](), list[float](), list[float](), list[int]()
    for row in range(upto - ahead):
        left = last - z[row]
        known = np.isfinite(left)
        if known.mean() >= MIN_KNOWN:
            distances.append(float((left[known] ** 2).mean()))
            gaps.append(float(left[known].mean()))
            pairs = ((row, upto - 1), (row + 1, upto))
            kinds.append(sum(float((resting[one] != resting[other]).mean()) for one, other in pairs))
            rows.append(row)
    base = day(folded, upto, ahead)
    if len(rows) < MIN_DAYS or base is None:
        return None
    usual = float(np.median(distances)) or 1.0
    far = np.array(distances) / usual + OTHER_KIND * np.array(kinds)
    nearest = np.argsort(far, kind="stable")[:NEIGHBOURS]
    followed = np.stack([z[rows[i] + 1 : rows[i] + 1 + ahead] + LEVEL_SHARE * gaps[i] for i in nearest])
    path = weighted_mean(followed, (1.0 / (far[nearest] + NEAREST))[:, None, None])
    return smooth(np.where(np.isfinite(path), np.maximum(path, 0.0), base), folded.rows.minutes)


RECENT_WEEKS = 4


def last_value(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The newest known bin, carried on."""
    known = folded.rows.z[:upto]
    known = known[np.isfinite(known)]
    return np.full((ahead, folded.rows.width), known[-1]) if len(known) else None


def yesterday(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """The last day, repeated."""
    if upto < 1 or not np.isfinite(folded.z[upto - 1]).any():
        return None
    return np.repeat(_filled(folded.z[upto - 1 : upto], folded.flat_level), ahead, axis=0)


def _same_time_of_week(folded: Folded, upto: int, ahead: int, weeks: int) -> np.ndarray | None:
    """The mean of the same bin over so many weeks."""
    if upto < WEEK:
        return None
    out = np.empty((ahead, folded.rows.width))
    for lead in range(ahead):
        newest = upto + lead - WEEK * (1 + lead // WEEK)
        older = np.arange(newest, -1, -WEEK)[:weeks]
        out[lead] = weighted_mean(folded.z[older] ** 2, np.ones((len(older), 1)))
    return np.asarray(np.sqrt(_filled(out, folded.flat_level**2)))


last_week: Path = partial(_same_time_of_week, weeks=1)
"""The same bin one week ago."""

BASELINES: dict[str, Path] = {
    "last-value": last_value,
    "yesterday": yesterday,
    "last-week": last_week,
    "time-of-week": partial(_same_time_of_week, weeks=RECENT_WEEKS),
    "flat": flat,
}
