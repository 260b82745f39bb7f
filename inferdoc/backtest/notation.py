"""Series in the notation of `promtool test rules`: a value per step of a grid, gaps and runs written short."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from inferdoc.backtest.recording import Points, ScrapedSeries

FINEST_MS, COARSEST_MS = 1000, 5000
PER_SCRAPE = 3
"""Steps of the grid between two scrapes: fine enough that targets scraped at odds stay so."""


def grid_ms(recording: ScrapedSeries) -> int:
    """The step of the grid, milliseconds: a third of the shortest usual distance of two samples, 1 to 5 s."""
    near = [float(np.median(np.diff(p.times))) for p in recording.series if len(p.times) > 2]
    finest = min(near, default=float(COARSEST_MS * PER_SCRAPE)) / PER_SCRAPE
    return int(min(max(finest // 1000 * 1000, FINEST_MS), COARSEST_MS))


def openmetrics(recording: ScrapedSeries) -> Iterator[str]:
    """The lines of OpenMetrics text with timestamps; marks of staleness, which it has no word for, are left out."""
    for points in sorted(recording.series, key=lambda each: each.name):
        name = series_text(points.name, points.labels)
        for at, value, stale in zip(points.times.tolist(), points.values.tolist(), points.stale.tolist(), strict=True):
            if not stale:
                yield f"{name} {_number(value)} {at / 1000:.3f}\n"
    yield "# EOF\n"


def input_series(recording: ScrapedSeries, begin_ms: int, step_ms: int) -> list[dict[str, str]]:
    """The recording as `input_series`; its begin is the test's time 0. Samples before it are left out."""
    found = []
    for points in recording.series:
        values = _values(points, begin_ms, step_ms)
        if values:
            found.append({"series": series_text(points.name, points.labels), "values": values})
    return found


def series_text(name: str, labels: Iterable[tuple[str, str]]) -> str:
    """A series as PromQL and the text formats write it."""
    return f"{name}{{{','.join(f'{key}={_quoted(value)}' for key, value in labels)}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _values(points: Points, begin_ms: int, step_ms: int) -> str:
    slots = np.rint((points.times - begin_ms) / step_ms).astype(int)
    said: list[str] = []
    last = -1
    for slot, value, stale in zip(slots.tolist(), points.values.tolist(), points.stale.tolist(), strict=True):
        if slot <= last:
            continue
        gap = slot - last - 1
        if gap:
            said.append("_" if gap == 1 else f"_x{gap}")
        said.append("stale" if stale else _number(value))
        last = slot
    return " ".join(said)


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
