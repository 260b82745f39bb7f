"""Shares of few events, read over windows that hold enough of them: of five answers one is 20 %."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import numpy as np

from inferdoc.catalogue.signal import Reading
from inferdoc.catalogue.span import names_in
from inferdoc.source import formula
from inferdoc.source.plan import WIDTHS
from inferdoc.source.reads import Grid

MIN_OBSERVATIONS = 20
"""A quantile or share of fewer says nothing; the window is doubled twice before giving up."""


def enough_events(reading: Reading, terms: Mapping[str, np.ndarray], grid: Grid) -> dict[str, np.ndarray]:
    """The terms of a share, float64[entities, times], each rate over the smallest window whose median, where there is
    traffic, holds enough of the events that the share is of; unchanged where they are no events."""
    events = _events(reading, terms)
    if events is None:
        return dict(terms)
    width = width_for(events * grid.rate_ms / 1000.0)
    apart = max(1, grid.rate_ms // grid.step_ms)
    return {
        name: _mean_of(rows, width, apart) if reading.terms[name].rate is not None else rows
        for name, rows in terms.items()
    }


def width_for(counts: np.ndarray) -> int:
    """By how much a window has to be wider so that the median one, where there is traffic, holds enough events.

    counts: events of one window each, of any shape."""
    seen = counts[counts > 0]
    if not seen.size:
        return WIDTHS[-1]
    median = float(np.median(seen))
    return next((width for width in WIDTHS if median * width >= MIN_OBSERVATIONS), WIDTHS[-1])


def _events(reading: Reading, terms: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Events a second that a share is of; None where it divides by something else."""
    below = formula.denominator(str(reading.formula))
    if below is None:
        return None
    names = names_in(ast.unparse(below))
    if not names or any(reading.terms[name].rate is None for name in names):
        return None
    return formula.evaluate(ast.unparse(below), terms)


def _mean_of(rows: np.ndarray, width: int, apart: int) -> np.ndarray:
    """Rates over a window as often as wide: the mean of those that end one window after the other, as far back as
    there are any; nothing where the newest is missing."""
    total, count = np.zeros_like(rows), np.zeros_like(rows)
    for back in range(0, min(width * apart, rows.shape[1]), apart):
        past = np.full_like(rows, np.nan)
        past[:, back:] = rows[:, : rows.shape[1] - back]
        known = ~np.isnan(past)
        total[known] += past[known]
        count += known
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(rows), np.nan, total / count)
