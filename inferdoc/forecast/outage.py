"""Drops that look like an outage: taken as gaps, because an outage learned as demand spoils the days after it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inferdoc.forecast.series import DAY, LoadSeries, stamp

MIN_MINUTES = 30.0
DROP = 0.1
FOREIGN_SHARE = 0.05
USUAL_LOW = 0.25
MIN_DAYS = 4
SPELLED_OUT = 3


def without_outages(series: LoadSeries) -> LoadSeries:
    """The series with suspicious drops as gaps, each with a note (at most three are spelled out). Of its tenants only
    what was collected in part: one without load needs no forecast."""
    clean = _without(series)
    parts = tuple(_without(part.before(series.end), silence=False) for part in series.parts)
    return replace(clean, parts=parts) if parts else clean


def _without(series: LoadSeries, silence: bool = True) -> LoadSeries:
    """Of one series.

    A drop is a run of bins below a tenth of the lower quartile of that time of day. It is taken for an outage when it
    touches a gap in the data (a bin that was only partly collected, a collector dying or coming back), or when it is
    complete silence of half an hour or more in a series that is zero less than one time in twenty outside of drops.
    Nights and weekends that are always quiet are inside their own quartile. silence: whether such silence counts."""
    low = _usual_low(series)
    with np.errstate(invalid="ignore"):
        drop = series.values < DROP * low
    mask = np.zeros(len(drop), dtype=bool)
    zeros, ordinary = series.values == 0, np.isfinite(series.values) & ~drop
    silence_is_foreign = silence and bool(ordinary.any()) and zeros[ordinary].mean() < FOREIGN_SHARE
    bad = []
    for a, b in _runs(drop):
        silent = bool(zeros[a:b].all()) and (b - a) * series.step >= MIN_MINUTES * 60
        if _touches_gap(series.values, a, b) or (silent and silence_is_foreign):
            mask[a:b] = True
            bad.append(f"{stamp(series.start + a * series.step)} to {stamp(series.start + b * series.step)}")
    if not bad:
        return series
    rest = f" and {len(bad) - SPELLED_OUT} more" if len(bad) > SPELLED_OUT else ""
    listed = ", ".join(bad[:SPELLED_OUT])
    return series.with_gaps(mask, f"load that looks like an outage is taken as a gap: {listed}{rest}")


def _usual_low(series: LoadSeries) -> np.ndarray:
    """float64[n]: lower quartile over the days of each bin's time of day; 0 where fewer than four days are known."""
    width = max(1, DAY // series.step)
    count = len(series.values)
    table = np.full((-(-count // width), width), np.nan)
    table.reshape(-1)[:count] = series.values
    ordered = np.sort(table, axis=0)
    hits = np.isfinite(ordered).sum(axis=0)
    place = np.floor(USUAL_LOW * np.maximum(hits - 1, 0)).astype(np.int64)
    low = np.where(hits >= MIN_DAYS, ordered[place, np.arange(width)], 0.0)
    return np.tile(low, len(table))[:count]


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _touches_gap(values: np.ndarray, a: int, b: int) -> bool:
    return (a > 0 and bool(np.isnan(values[a - 1]))) or (b < len(values) and bool(np.isnan(values[b])))
