"""Combines the candidate paths by their recent errors, with residual quantiles measured on the same back-tested
days."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from inferdoc.forecast.bands import Residuals
from inferdoc.forecast.baselines import last_week, yesterday
from inferdoc.forecast.calendar import Rows
from inferdoc.forecast.likedays import like_days
from inferdoc.forecast.paths import PATHS, Folded, Path, fill_gaps
from inferdoc.forecast.residual import corrections

FOLDS = 10
PSEUDO_DAYS = 0.5
MIN_KNOWN = 0.5
TINY = 1e-12

TRIAL_HALF_LIFE = 8.0
"""Days after which a look at a path counts half: longer than for the bands, since which path suits a load changes less
often than how far it errs."""

CANDIDATES: dict[str, Path] = {**PATHS, "like-days": like_days, "yesterday": yesterday, "last-week": last_week}

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
    """center: float64[F, P] in square-root space; weights: name -> share on the first day; past: float64[K, F, P], what
    the same weights would have said on the back-tested days; residuals: actual minus past."""

    center: np.ndarray
    weights: dict[str, float]
    residuals: Residuals
    trials: Trials
    past: np.ndarray


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
                paths[name][k, :seen] = np.maximum(made, 0.0)
    return Trials(actual, paths)


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
    shares: dict[str, float] = {}
    for lead in range(ahead):
        weights = _weights(trials, lead, list(candidates))
        shares = shares or weights
        center[lead] = sum(share * candidates[name][lead] for name, share in weights.items())
        past[:, lead] = blend({n: trials.paths[n][:, lead] for n in weights}, weights)
    now, then = corrections(trials.actual[:, 0] - past[:, 0], rows.minutes)
    center[0] = np.maximum(center[0] + now, 0.0)
    past[:, 0] = np.maximum(past[:, 0] + then, 0.0)
    residuals = Residuals(np.where(np.isfinite(past), trials.actual - past, np.nan), rows.minutes)
    return Combination(center, shares, residuals, trials, past)


def _weights(trials: Trials, lead: int, names: list[str]) -> dict[str, float]:
    """Shares by exp(-n/2 x mean log error ratio against `day`), newer days counting more: the posterior of each path
    when the days are n independent looks at it (n = sum of the days' weights). The errors of lead day `lead` are those
    of the folds that have it; without any, those of the last lead day that has."""
    usable = trials.usable
    while lead > 0 and not np.isfinite(trials.actual[usable, lead]).any():
        lead -= 1
    age = np.flatnonzero(usable) - lead
    recent = 0.5 ** (np.maximum(age, 0) / TRIAL_HALF_LIFE)
    with np.errstate(invalid="ignore"):
        mse = {n: _rowmean((trials.actual[usable, lead] - trials.paths[n][usable, lead]) ** 2) for n in names}
    score: dict[str, float] = {}
    for name in names:
        if name == "day" or "day" not in mse:
            score[name] = 0.0
            continue
        ratio = np.log((mse[name] + TINY) / (mse["day"] + TINY))
        known = np.isfinite(ratio)
        score[name] = float((recent[known] * ratio[known]).sum() / (recent[known].sum() + PSEUDO_DAYS))
    looks = float(recent.sum())
    raw = {name: float(np.exp(-0.5 * looks * value)) for name, value in score.items()}
    total = sum(raw.values())
    return {name: value / total for name, value in raw.items()}


def _rowmean(values: np.ndarray) -> np.ndarray:
    hits = np.isfinite(values).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(hits > 0, np.nansum(values, axis=1) / hits, np.nan)


def blend(paths: dict[str, np.ndarray], weights: dict[str, float]) -> np.ndarray:
    """Weighted mean of paths float64[K, P]; where a path is missing, the others share its weight."""
    stacked = np.stack([paths[name] for name in weights])
    share = np.array(list(weights.values())).reshape(-1, *[1] * (stacked.ndim - 1))
    known = np.isfinite(stacked)
    total = np.where(known, share, 0.0).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, (np.where(known, stacked, 0.0) * share).sum(axis=0) / total, np.nan)
