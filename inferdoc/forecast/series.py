"""A load series: one number per bin on an even UTC grid, with NaN where nothing is known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from inferdoc.errors import SourceError
from inferdoc.times import rfc3339

Kind = Literal["amount", "rate"]

DAY = 86_400
MAX_BINS = 20_000_000


@dataclass(frozen=True)
class LoadSeries:
    """Load of one pool. start: Unix seconds of the first bin's beginning; step: seconds per bin; values: float64[n],
    NaN for a gap, never negative; kind: `amount` (total inside the bin) or `rate` (mean inside the bin); unit: of the
    values, for people; name: of the pool; notes: what the reader of the data had to decide, one line each; parts: the
    same load by tenant, of the whole history, whatever part of it this is."""

    start: int
    step: int
    values: np.ndarray
    kind: Kind = "amount"
    unit: str = "per bin"
    name: str = ""
    notes: tuple[str, ...] = field(default=())
    parts: tuple[LoadSeries, ...] = field(default=(), repr=False)

    @property
    def end(self) -> int:
        """Unix seconds just after the last bin: where a forecast begins."""
        return self.start + self.step * len(self.values)

    @property
    def times(self) -> np.ndarray:
        """int64[n], Unix seconds of the beginning of each bin."""
        return self.start + self.step * np.arange(len(self.values), dtype=np.int64)

    @property
    def days(self) -> float:
        """Length from the first to the last known value, in days."""
        known = np.flatnonzero(np.isfinite(self.values))
        return 0.0 if len(known) == 0 else float((known[-1] - known[0] + 1) * self.step / DAY)

    def before(self, moment: int, max_days: float | None = None) -> LoadSeries:
        """The bins that end at or before `moment` (Unix seconds), at most the newest `max_days`. A moment after the
        end extends the series by gaps, so that `end` is the first bin edge at or after `moment`."""
        count = -((self.start - moment) // self.step) if moment > self.end else (moment - self.start) // self.step
        if count > len(self.values):
            values = np.concatenate([self.values, np.full(count - len(self.values), np.nan)])
        else:
            values = self.values[: max(count, 0)]
        first = 0
        if max_days is not None:
            first = max(0, len(values) - round(max_days * DAY / self.step))
        return replace(self, start=self.start + first * self.step, values=values[first:])

    def with_gaps(self, mask: np.ndarray, note: str = "") -> LoadSeries:
        """The same series with NaN where `mask` (bool[n]) holds."""
        values = self.values.copy()
        values[mask] = np.nan
        return replace(self, values=values, notes=(*self.notes, note) if note else self.notes)

    def gaps(self) -> list[tuple[int, int]]:
        """Runs of NaN between the first and the last known value: [(from, until)], Unix seconds."""
        known = np.flatnonzero(np.isfinite(self.values))
        if len(known) == 0:
            return []
        jumps = np.flatnonzero(np.diff(known) > 1)
        edge = self.start
        return [(edge + self.step * int(known[i] + 1), edge + self.step * int(known[i + 1])) for i in jumps]

    def gap_share(self) -> float:
        """Share of NaN between the first known value and the end (0..1); 1.0 when nothing is known."""
        known = np.flatnonzero(np.isfinite(self.values))
        return 1.0 if len(known) == 0 else 1.0 - len(known) / (len(self.values) - int(known[0]))

    def coarser(self, step: int, from_end: bool = False) -> LoadSeries:
        """The series in bins of `step` seconds, a multiple of the present step: sums for amounts, means for rates. A
        bin with any gap is scaled up from the part that is known when at least half of it is, else it is a gap. The
        bins begin at multiples of `step`, or end where the series ends (`from_end`)."""
        factor = step // self.step
        if factor * self.step != step or factor < 1:
            raise ValueError(f"{step} s is no multiple of {self.step} s")
        lead = -len(self.values) % factor if from_end else (self.start // self.step) % factor
        tail = -(lead + len(self.values)) % factor
        padded = np.concatenate([np.full(lead, np.nan), self.values, np.full(tail, np.nan)]).reshape(-1, factor)
        known = np.isfinite(padded).sum(axis=1)
        total = np.nansum(padded, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(known * 2 >= factor, total / known, np.nan)
        values = mean * factor if self.kind == "amount" else mean
        return replace(self, start=self.start - lead * self.step, step=step, values=values)


def stamp(seconds: float) -> str:
    """RFC 3339 in UTC."""
    return rfc3339(seconds)


def on_grid(times: np.ndarray, values: np.ndarray, kind: Kind, where: str) -> LoadSeries:
    """Rows (times: float64[n] Unix seconds, ascending, distinct; values: float64[n], NaN = gap) on an even grid. The
    step is the most common distance, the phase the most common remainder; rows off the grid are summed (amounts) or
    averaged (rates) into the bin they fall in. Raises SourceError if the step is unclear."""
    if len(times) < 2:
        raise SourceError(f"{where}: {len(times)} data row(s); a step needs at least two different timestamps")
    gaps, counts = np.unique(np.round(np.diff(times)).astype(np.int64), return_counts=True)
    usable = gaps > 0
    if not usable.any():
        raise SourceError(
            f"{where}: timestamps less than a second apart; give at least one row per second or coarser bins"
        )
    step = int(gaps[usable][np.argmax(counts[usable])])
    phases, votes = np.unique(np.round(times).astype(np.int64) % step, return_counts=True)
    phase = int(phases[np.argmax(votes)])
    bins = np.floor((np.round(times, 3) - phase) / step).astype(np.int64)
    first, count = int(bins[0]), int(bins[-1] - bins[0] + 1)
    if count > MAX_BINS:
        raise SourceError(
            f"{where}: a step of {step} s over {count * step / DAY:.0f} days is {count} bins; aggregate the rows first"
        )
    known = np.isfinite(values)
    place = (bins - first)[known]
    rows = np.bincount(place, minlength=count)
    total = np.bincount(place, weights=values[known], minlength=count)
    with np.errstate(invalid="ignore"):
        merged = total if kind == "amount" else total / np.maximum(rows, 1)
    merged = np.where(rows > 0, merged, np.nan)
    unit = "per bin" if kind == "amount" else "rate"
    return LoadSeries(start=first * step + phase, step=step, values=merged, kind=kind, unit=unit)
