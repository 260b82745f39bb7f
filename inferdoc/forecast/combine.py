"""Combines the candidate paths by their recent errors, with residual quantiles measured on the same back-tested
days."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from inferdoc.forecast.bands import Residuals
from inferdoc.forecast.baselines import last_week
from inferdoc.forecast.calendar import Rows
from inferdoc.forecast.paths import PATHS, Folded, Path, fill_gaps, like_days
from inferdoc.forecast.result import CandidatePath
from inferdoc.forecast.shares import shares

MEMORY_MINUTES = 60.0
BLOCK_MINUTES = 5.0
MIN_DAYS = 3
MOST_OF_LEVEL = 0.4
"""Full corrections by the error of yesterday overshoot (own measurement, docs/forecast.md): at most so much of it."""


def burg(line: np.ndarray, order: int) -> np.ndarray:
    """float64[order]: AR coefficients of float64[n] (mean taken as 0) by Burg's method; zeros for a line without
    variance."""
    forward, backward = line[1:].copy(), line[:-1].copy()
    coefficients = np.zeros(0)
    for _ in range(order):
        power = float(forward @ forward + backward @ backward)
        reflection = 0.0 if power <= 1e-12 else 2.0 * float(forward @ backward) / power
        coefficients = np.concatenate([coefficients - reflection * coefficients[::-1], [reflection]])
        forward, backward = forward[1:] - reflection * backward[1:], backward[:-1] - reflection * forward[:-1]
    return coefficients


def corrections(past: np.ndarray, minutes: float) -> tuple[np.ndarray, np.ndarray]:
    """What to add to the forecast and to each back-tested day.

    past: float64[K, P], errors (actual minus forecast) of the first lead day, fold 0 the newest, NaN = unknown;
    minutes: per column. Returns float64[P] for the day after the data and float64[K, P] for the folds, each from older
    errors only (the coefficients are those of all folds). Zeros where fewer than three days of errors are known."""
    folds, width = past.shape
    now, then = np.zeros(width), np.zeros_like(past)
    size = _block(width, minutes)
    blocks = width // size
    order = max(2, round(MEMORY_MINUTES / (size * minutes)))
    if np.isfinite(past).any(axis=1).sum() < MIN_DAYS or blocks <= order:
        return now, then
    line = _blocks(past[::-1].reshape(-1), size)
    response = _response(burg(line, order), blocks)
    levels = _levels(past)
    for k in range(-1, folds - 1):
        newest = line[: (folds - 1 - k) * blocks][-order:]
        step = np.repeat(response @ newest, size) + levels[k + 1]
        if k < 0:
            now = step
        else:
            then[k] = step
    return now, then


def _levels(past: np.ndarray) -> np.ndarray:
    """float64[K]: what the mean error of each day lets expect of the day after it, by an autoregression of the first
    order whose coefficient is drawn half-way to nothing; 0 where the day is unknown."""
    known = np.isfinite(past)
    means = np.where(known, past, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    followed, power = float(means[:-1] @ means[1:]), float(means[1:] @ means[1:])
    share = followed / (2.0 * power) if power > 0 else 0.0
    return np.asarray(np.clip(share, 0.0, MOST_OF_LEVEL) * means)


def _block(width: int, minutes: float) -> int:
    near = max(1, round(BLOCK_MINUTES / minutes))
    return next(size for size in range(near, 0, -1) if width % size == 0)


def _blocks(line: np.ndarray, size: int) -> np.ndarray:
    parts = line.reshape(-1, size)
    known = np.isfinite(parts)
    hits = known.sum(axis=1)
    return np.asarray(np.where(known, parts, 0.0).sum(axis=1) / np.maximum(hits, 1))


def _response(ar: np.ndarray, steps: int) -> np.ndarray:
    """float64[steps, order]: what each of the newest values (oldest first) adds to each later step."""
    order = len(ar)
    line = np.zeros((order + steps, order))
    line[:order] = np.eye(order)
    for i in range(order, order + steps):
        line[i] = ar @ line[i - order : i][::-1]
    return line[order:]


FOLDS = 10
MIN_KNOWN = 0.5

TRIAL_HALF_LIFE = 8.0
"""Half-life in days of the path errors: longer than for the bands, because the best path changes less often than the
size of its errors."""

CANDIDATES: dict[str, Path] = {**PATHS, "like-days": like_days, "last-week": last_week}
"""Without yesterday and the flat level: they miss every change between working days and weekend."""

Fitted = Callable[[Folded], Path | None]
"""A path that is fitted to the whole history once; None where it cannot be."""


@dataclass
class Trials:
    """Back-tested days. actual: float64[K, F, P], NaN where unknown or beyond the data; paths: name -> float64[K, F, P]
    (all NaN where the path had too little history); fold k=0 is the newest day."""

    actual: np.ndarray
    paths: dict[str, np.ndarray]

    @property
    def usable(self) -> np.ndarray:
        """bool[K]: folds of which at least half of the first day is known."""
        first: np.ndarray = np.isfinite(self.actual[:, 0]).mean(axis=1) >= MIN_KNOWN
        return first

    @property
    def folds(self) -> int:
        return int(self.usable.sum())


@dataclass
class Combination:
    """center: float64[F, P] in square-root space; weights: name -> share on the first day; past: float64[K, F, P], the
    forecast of the same weights on the back-tested days; residuals: actual minus past; near: float64[F, P], what of
    center the newest errors added; fitted: the models that were fitted, for people."""

    center: np.ndarray
    weights: dict[str, float]
    residuals: Residuals
    trials: Trials
    past: np.ndarray
    near: np.ndarray
    fitted: str = ""


def run_trials(folded: Folded, ahead: int, candidates: Mapping[str, Path], folds: int = FOLDS) -> Trials:
    """Forecasts each of the last `folds` days from the days before it, by each candidate."""
    count, width = folded.count, folded.rows.width
    folds = max(0, min(folds, count - 1))
    actual = np.full((max(folds, 1), ahead, width), np.nan)
    paths = {name: np.full(actual.shape, np.nan) for name in candidates}
    for k in range(folds):
        upto = count - 1 - k
        seen = min(ahead, k + 1)
        actual[k, :seen] = folded.rows.z[upto : upto + seen]
        for name, path in candidates.items():
            made = path(folded, upto, seen)
            if made is not None:
                paths[name][k, :seen] = np.where(new_kind(folded.rows, upto, seen), np.nan, np.maximum(made, 0.0))
    return Trials(actual, paths)


def new_kind(rows: Rows, upto: int, ahead: int) -> np.ndarray:
    """bool[F, P]: bins from row `upto` on of a kind of day (working, weekend) that no row before `upto` had at that
    time, and that some have by now: how they were forecast says nothing of now."""
    resting, known = rows.resting[: rows.count], np.isfinite(rows.z)
    target, found = rows.resting[upto : upto + ahead], np.zeros((ahead, rows.width), dtype=bool)
    for kind in (False, True):
        seen = known & (resting == kind)
        found |= (target == kind) & ~seen[:upto].any(axis=0) & seen.any(axis=0)
    return found


def combine(rows: Rows, fitted: Mapping[str, Fitted] | None = None) -> Combination:
    """The combination for the days after the last row. fitted: further paths by name."""
    folded = Folded(rows, fill_gaps(rows))
    ahead = rows.ahead
    further = {name: path for name, fit in (fitted or {}).items() if (path := fit(folded)) is not None}
    paths = CANDIDATES | further
    trials = run_trials(folded, ahead, paths)
    latest = {name: path(folded, rows.count, ahead) for name, path in paths.items()}
    candidates = {name: np.maximum(made, 0.0) for name, made in latest.items() if made is not None}
    center = np.empty((ahead, rows.width))
    past = np.full_like(trials.actual, np.nan)
    first: dict[str, float] = {}
    for lead in range(ahead):
        weights = _weights(trials, lead, list(candidates))
        first = first or weights
        center[lead] = sum(share * candidates[name][lead] for name, share in weights.items())
        past[:, lead] = blend({n: trials.paths[n][:, lead] for n in weights}, weights)
    now, then = corrections(trials.actual[:, 0] - past[:, 0], rows.minutes)
    near = np.zeros_like(center)
    near[0] = now
    center[0] = np.maximum(center[0] + now, 0.0)
    past[:, 0] = np.maximum(past[:, 0] + then, 0.0)
    residuals = Residuals(np.where(np.isfinite(past), trials.actual - past, np.nan), rows.minutes)
    fitted_text = ", ".join(getattr(path, "text", name) for name, path in further.items())
    return Combination(center, first, residuals, trials, past, near, fitted_text)


def candidates(trials: Trials, weights: Mapping[str, float]) -> list[CandidatePath]:
    """The paths by weight, with what each was off on the first day of the back-tested ones."""
    off, errors = {}, {}
    actual = trials.actual[trials.usable, 0]
    for name in weights.keys() & trials.paths.keys():
        path = trials.paths[name][trials.usable, 0]
        if np.isfinite(actual - path).any():
            off[name], errors[name] = actual - path, float(np.nanmean(np.abs(actual**2 - path**2)))
    found = []
    for name in sorted(off, key=lambda name: -weights[name]):
        alike = {other: _correlation(off[name], off[other]) for other in off if other != name}
        like = max(alike, key=lambda other: alike[other], default="")
        found.append(CandidatePath(name, weights[name], errors[name], like, alike.get(like, 0.0)))
    return found


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Of errors about zero, since a common bias is alike too; 0 where either is none."""
    both = np.isfinite(one) & np.isfinite(other)
    power = float((one[both] ** 2).sum() * (other[both] ** 2).sum())
    return float((one[both] * other[both]).sum() / power**0.5) if power > 0 else 0.0


def _weights(trials: Trials, lead: int, names: list[str]) -> dict[str, float]:
    """Share of each path on lead day `lead`, newer days counting more. The errors are those of the folds that have it;
    without any, those of the last lead day that has. A day that a path could not forecast says of it what it says of
    `day`."""
    usable = trials.usable
    while lead > 0 and not np.isfinite(trials.actual[usable, lead]).any():
        lead -= 1
    age = np.flatnonzero(usable) - lead
    recent = 0.5 ** (np.maximum(age, 0) / TRIAL_HALF_LIFE)
    left = np.stack([trials.actual[usable, lead] - trials.paths[name][usable, lead] for name in names])
    usual = left[names.index("day")] if "day" in names else np.full(left.shape[1:], np.nan)
    share = shares(np.where(np.isfinite(left), left, usual), recent)
    return dict(zip(names, share.tolist(), strict=True))


def blend(paths: dict[str, np.ndarray], weights: dict[str, float]) -> np.ndarray:
    """Weighted mean of paths float64[K, P]; where a path is missing, the others share its weight."""
    stacked = np.stack([paths[name] for name in weights])
    share = np.array(list(weights.values())).reshape(-1, *[1] * (stacked.ndim - 1))
    known = np.isfinite(stacked)
    total = np.where(known, share, 0.0).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, (np.where(known, stacked, 0.0) * share).sum(axis=0) / total, np.nan)
