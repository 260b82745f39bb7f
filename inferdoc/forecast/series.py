"""A load series: one number per bin on an even UTC grid, with NaN where nothing is known; its unit, and its outages.

Prefill works on prompt tokens that it computes (those found in a cache cost nothing), decode on tokens that it
generates. A number of one kind says nothing about the other, so each load and each rate carries its unit, and the units
are compared before anything is divided."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

import numpy as np

from inferdoc.errors import InferdocError, SourceError
from inferdoc.times import rfc3339
from inferdoc.words import some


class LoadUnit(StrEnum):
    """Units of load, per second."""

    REQUESTS = "requests/s"
    PROMPT = "prompt tokens/s"
    GENERATED = "generated tokens/s"
    OF_FILE = "per second"
    """A file of loads does not say what it counts."""


BY_ROLE: dict[str, tuple[LoadUnit, ...]] = {
    "prefill": (LoadUnit.PROMPT,),
    "decode": (LoadUnit.GENERATED,),
    "both": (LoadUnit.PROMPT, LoadUnit.GENERATED),
}
"""The load that the replicas of a role work on; of several, the one that needs most replicas counts."""

GIVEN = re.compile(r"(?P<number>[0-9][0-9.]*(?:e[+-]?[0-9]+)?)\s*(?P<unit>[a-z]+(?:\s+[a-z]+)*\s*/\s*s)", re.IGNORECASE)
GIVEN_UNITS = tuple(unit for unit in LoadUnit if unit is not LoadUnit.OF_FILE)


@dataclass(frozen=True)
class Rate:
    """A rate per second, of one kind of load."""

    per_second: float
    unit: LoadUnit

    def __str__(self) -> str:
        return f"{self.per_second:.4g} {self.unit.value}"


@dataclass(frozen=True)
class Load:
    """A load over time. values: float64[n], per second, of one kind."""

    values: np.ndarray
    unit: LoadUnit

    def over(self, rate: Rate) -> np.ndarray:
        """float64[n]: how many times a replica's rate. Raises InferdocError where the two are of different kinds, or
        the rate is no positive number."""
        if rate.unit != self.unit:
            raise InferdocError(f"a load in {self.unit.value} cannot be divided by a capacity in {rate.unit.value}")
        if not (rate.per_second > 0 and math.isfinite(rate.per_second)):
            raise InferdocError(f"capacity per replica {rate.per_second:g} is not a positive number")
        return self.values / rate.per_second


def rate_of(text: str, where: str) -> Rate:
    """`4000 generated tokens/s` as a rate; InferdocError naming the option when it is none."""
    match = GIVEN.fullmatch(text.strip())
    named = None if match is None else re.sub(r"\s*/\s*", "/", " ".join(match["unit"].lower().split()))
    unit = next((unit for unit in GIVEN_UNITS if unit.value == named), None)
    try:
        number = float(match["number"]) if match is not None else 0.0
    except ValueError:
        number = 0.0
    if unit is None or not (number > 0 and math.isfinite(number)):
        known = ", ".join(unit.value for unit in GIVEN_UNITS)
        raise InferdocError(f"{where} `{text}`: write a number above 0 and its unit, one of {known}")
    return Rate(number, unit)


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
    """One series without its outages. A drop is a run of bins below a tenth of the lower quartile of that time of day.
    It is taken for an outage when it touches a gap in the data (a bin that was only partly collected, a collector dying
    or coming back), or when it is complete silence of half an hour or more in a series that is zero less than one time
    in twenty outside of drops. Nights and weekends that are always quiet are inside their own quartile. silence:
    whether such silence counts."""
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
    return series.with_gaps(mask, f"load that looks like an outage is taken as a gap: {some(bad, SPELLED_OUT)}")


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
