"""The load by tenant: each forecast by itself and added up, mixed with the forecast of the whole by the errors of both
on the days before.

A tenant's rhythm shows in its own series, and bursts of many tenants average out in the sum (Lütkepohl, Forecasting
contemporaneously aggregated processes, 1984). Which effect is larger depends on the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from inferdoc.forecast.bands import Residuals
from inferdoc.forecast.calendar import Rows
from inferdoc.forecast.combine import TRIAL_HALF_LIFE, Combination, combine
from inferdoc.forecast.series import LoadSeries
from inferdoc.forecast.shares import shares

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


def with_tenants(whole: Combination, rows: Rows, parts: Sequence[Rows]) -> Combination:
    """The forecast of the whole mixed with the sum of those of its tenants. Both are weighed as they are used: each is
    a combination that was fitted to the same days. parts: rows of each tenant, that end where those of the whole do."""
    each = [combine(part) for part in parts]
    center = _summed([one.center for one in each])
    steady = _summed([np.maximum(one.center - one.near, 0.0) for one in each])
    past = _summed([_as_long(one.past, len(whole.past)) for one in each])
    usable = whole.trials.usable
    off = whole.trials.actual[usable, 0] - np.stack([whole.past[usable, 0], past[usable, 0]])
    recent = 0.5 ** (np.flatnonzero(usable) / TRIAL_HALF_LIFE)
    together, apart = shares(np.where(np.isfinite(off), off, off[:1]), recent).tolist()
    mixed = np.where(np.isfinite(past), together * whole.past + apart * past, whole.past)
    return Combination(
        together * whole.center + apart * center,
        {**{name: share * together for name, share in whole.weights.items()}, APART: apart},
        Residuals(np.where(np.isfinite(mixed), whole.trials.actual - mixed, np.nan), rows.minutes),
        whole.trials,
        mixed,
        together * whole.near + apart * (center - steady),
        whole.fitted,
    )


def _summed(roots: Sequence[np.ndarray]) -> np.ndarray:
    """The square root of the sum of loads that are given as square roots."""
    return np.asarray(np.sqrt(np.sum(np.square(roots), axis=0)))


def _as_long(past: np.ndarray, folds: int) -> np.ndarray:
    """Of a tenant that is younger than the whole: it was not there, so that it added nothing."""
    missing = folds - len(past)
    return np.concatenate([past, np.zeros((missing, *past.shape[1:]))]) if missing > 0 else past[:folds]
