"""Combines the candidate paths by their recent errors, with residuals measured on the same back-tested days.

Shares follow the errors of the mixture: scored one by one, two paths with the same errors take twice the share of one
with other errors (Bates and Granger, The combination of forecasts, 1969). With several tenants, the sum of their
forecasts is mixed in: a tenant's rhythm shows in its own series, and bursts of many average out in the sum (Lütkepohl,
Forecasting contemporaneously aggregated processes, 1984)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferdoc.forecast.bands import Residuals
from inferdoc.forecast.calendar import Rows
from inferdoc.forecast.paths import (
    PATHS,
    Folded,
    Path,
    block_means,
    block_size,
    fill_gaps,
    last_week,
    like_days,
    weighted_mean,
)
from inferdoc.forecast.result import CandidatePath
from inferdoc.forecast.series import LoadSeries

LOOKS_A_DAY = 4.0
"""Independent samples of the path errors in a day, six hours each. By the degrees of freedom of a day's squared error
(Satterthwaite) loads have 1.6 to 6, 3.5 in the mean (docs/forecast.md)."""
PSEUDO_DAYS = 0.5
TURNS, STILL = 200, 1e-4
TINY = 1e-12


def shares(left: np.ndarray, recent: np.ndarray) -> np.ndarray:
    """float64[N], sum 1: the minimum of looks/2 x mean log squared error of the mixture + relative entropy to equal
    shares; for a mixture that is one path alone, its posterior. left: float64[N, K, P], what each path was off on each
    day, NaN where unknown; recent: float64[K], what each day counts."""
    known = np.isfinite(left).all(axis=0)
    hits = known.sum(axis=1)
    used = hits > 0
    share = np.full(len(left), 1.0 / len(left))
    if not used.any():
        return share
    off = np.where(known, left, 0.0)[:, used]
    squares = np.einsum("ikp,jkp->kij", off, off) / hits[used, None, None] + TINY
    part = recent[used] / (recent[used].sum() + PSEUDO_DAYS)
    looks = LOOKS_A_DAY * float(recent[used].sum())
    stride, best = 1.0 / looks, _cost(share, squares, part, looks)
    for _ in range(TURNS):
        toward = squares @ share
        slope = looks * part @ (toward / (toward @ share)[:, None])
        step = (1 - stride) * np.log(np.maximum(share, TINY)) - stride * slope
        further = np.exp(step - step.max())
        further /= further.sum()
        cost = _cost(further, squares, part, looks)
        if cost > best:
            stride /= 2
            continue
        moved = np.abs(further - share).max()
        share, best = further, cost
        if moved < STILL * stride:
            break
    return share


def _cost(share: np.ndarray, squares: np.ndarray, part: np.ndarray, looks: float) -> float:
    off = float(part @ np.log(np.maximum(squares @ share @ share, TINY)))
    return 0.5 * looks * off + float(share @ np.log(np.maximum(share, TINY)))


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
    """Corrections of the forecast and of each back-tested day by the newest errors.

    past: float64[K, P], errors (actual minus forecast) of the first lead day, fold 0 the newest, NaN = unknown;
    minutes: per column. Returns float64[P] for the day after the data and float64[K, P] for the folds, each from older
    errors only (the coefficients are those of all folds). Zeros where fewer than three days of errors are known."""
    folds, width = past.shape
    now, then = np.zeros(width), np.zeros_like(past)
    size = block_size(width, minutes, BLOCK_MINUTES)
    blocks = width // size
    order = max(2, round(MEMORY_MINUTES / (size * minutes)))
    if np.isfinite(past).any(axis=1).sum() < MIN_DAYS or blocks <= order:
        return now, then
    line = np.nan_to_num(block_means(past[::-1].reshape(-1), size))
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
class MethodForecast:
    """The forecast of a method. method: its name for the output; center: float64[F, P], square-root space; past:
    float64[K, F, P], the forecast of the back-tested days of `trials`; weights: share of each path on the first day;
    notes: one line each; near: float64[F, P], the part of center from the newest errors (None = nothing); fitted: the
    models that were fitted, for people."""

    method: str
    center: np.ndarray
    past: np.ndarray
    trials: Trials
    minutes: float
    weights: dict[str, float]
    notes: tuple[str, ...] = ()
    unproven: np.ndarray | None = None
    near: np.ndarray | None = None
    fitted: str = ""

    @property
    def added(self) -> np.ndarray:
        """`near`, zeros where it is nothing."""
        return np.zeros_like(self.center) if self.near is None else self.near

    @property
    def residuals(self) -> Residuals:
        """Errors of the back-tested days; without any, `unproven`: how the newest known day swings about its own level
        (float64[1, F, P]), so that a history too short to test still gets a band."""
        found = self.trials.actual - self.past
        if self.unproven is not None and not np.isfinite(found).any():
            found = self.unproven
        return Residuals(found, self.minutes)


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


def combine(rows: Rows, fitted: Mapping[str, Fitted] | None = None) -> MethodForecast:
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
    text = ", ".join(getattr(path, "text", name) for name, path in further.items())
    return MethodForecast("combination", center, past, trials, rows.minutes, first, near=near, fitted=text)


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
    """The correlation of errors about zero, so that a common bias counts; 0 if either is all zero."""
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
    return weighted_mean(stacked, share)


APART = "tenants apart"
MOST = 10
"""Tenants with a forecast of their own; the others share one."""


def largest(parts: Sequence[LoadSeries]) -> list[LoadSeries]:
    """The tenants with most load, the others summed."""
    ordered = sorted(parts, key=lambda part: float(np.nansum(part.values)), reverse=True)
    separate, others = ordered[:MOST], ordered[MOST:]
    if not others:
        return separate
    return [*separate, replace(others[0], values=np.sum([part.values for part in others], axis=0), name="others")]


def with_tenants(whole: MethodForecast, parts: Sequence[Rows]) -> MethodForecast:
    """The forecast of the whole mixed with the sum of those of its tenants. Both are weighed as they are used: each is
    a combination that was fitted to the same days. parts: rows of each tenant, that end where those of the whole do."""
    each = [combine(part) for part in parts]
    center = _summed([one.center for one in each])
    steady = _summed([np.maximum(one.center - one.added, 0.0) for one in each])
    past = _summed([_as_long(one.past, len(whole.past)) for one in each])
    usable = whole.trials.usable
    off = whole.trials.actual[usable, 0] - np.stack([whole.past[usable, 0], past[usable, 0]])
    recent = 0.5 ** (np.flatnonzero(usable) / TRIAL_HALF_LIFE)
    together, apart = shares(np.where(np.isfinite(off), off, off[:1]), recent).tolist()
    mixed = np.where(np.isfinite(past), together * whole.past + apart * past, whole.past)
    return replace(
        whole,
        center=together * whole.center + apart * center,
        past=mixed,
        weights={**{name: share * together for name, share in whole.weights.items()}, APART: apart},
        near=together * whole.added + apart * (center - steady),
    )


def _summed(roots: Sequence[np.ndarray]) -> np.ndarray:
    """The square root of the sum of loads that are given as square roots."""
    return np.asarray(np.sqrt(np.sum(np.square(roots), axis=0)))


def _as_long(past: np.ndarray, folds: int) -> np.ndarray:
    """The past of a tenant that is younger than the whole, with zeros before it existed."""
    missing = folds - len(past)
    return np.concatenate([past, np.zeros((missing, *past.shape[1:]))]) if missing > 0 else past[:folds]
