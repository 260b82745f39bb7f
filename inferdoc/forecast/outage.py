"""Silences that look like an outage: taken as gaps, because an outage learned as demand spoils the days after it."""

from __future__ import annotations

import numpy as np

from inferdoc.forecast.series import LoadSeries, stamp

MIN_MINUTES = 30.0
LONGER_THAN_USUAL = 4.0
OTHER_ZEROS = 0.01


def without_outages(series: LoadSeries) -> LoadSeries:
    """The series with suspicious runs of exact zeros as gaps, each with a note.

    A run is suspicious when silence is foreign to the series: it lasts at least half an hour and four times as long as
    the longest ordinary run of zeros, and bins outside such runs are zero less than once in a hundred. A job that rests
    every night or at weekends has many long silences and is left alone."""
    runs = _zero_runs(series.values)
    if not runs:
        return series
    least = MIN_MINUTES * 60 / series.step
    lengths = np.array([b - a for a, b in runs])
    order = np.sort(lengths)
    suspicious = np.zeros(len(runs), dtype=bool)
    for length in order[::-1]:
        rest = order[order < length]
        usual = int(rest.max()) if len(rest) else 0
        if length >= max(least, LONGER_THAN_USUAL * max(usual, 1)):
            others = int(rest.sum())
            known = int(np.isfinite(series.values).sum() - lengths[lengths >= length].sum())
            if known > 0 and others / known < OTHER_ZEROS and (lengths >= length).sum() <= 3:
                suspicious = lengths >= length
                break
    result = series
    for (a, b), bad in zip(runs, suspicious, strict=True):
        if bad:
            mask = np.zeros(len(series.values), dtype=bool)
            mask[a:b] = True
            begin, until = stamp(series.start + a * series.step), stamp(series.start + b * series.step)
            result = result.with_gaps(mask, f"silence from {begin} until {until} looks like an outage: taken as a gap")
    return result


def _zero_runs(values: np.ndarray) -> list[tuple[int, int]]:
    zero = np.concatenate([[False], values == 0, [False]])
    edges = np.flatnonzero(np.diff(zero.astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
