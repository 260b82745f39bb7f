"""Input of an audit: series of a window in parts, busy steps, and current settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from inferdoc.catalogue.signal import Signal, Tiers
from inferdoc.catalogue.slo import Slo
from inferdoc.config_sections import PodSection
from inferdoc.fleet.members import UNKNOWN_TIER, Pool
from inferdoc.judging.deviation import FEWEST_OBSERVATIONS
from inferdoc.judging.order import ranked_rows, row_percentile, rows_of
from inferdoc.judging.view import Unit, View
from inferdoc.source.base import InfoSeries
from inferdoc.source.frame import Entity

SETTINGS = "vllm:cache_config_info"
GPU_SIGNAL = "gpu_util"
RUNNING = "running"
WORK = (RUNNING, "generation_tokens_rate", "prompt_tokens_rate")
"""Any of them says how much a unit has to do; a prefill pod is often caught with nothing running."""
BUSY_CLOCK = "sm_clock_busy"
ENDS = ("request_rate", "first_token_rate")
"""What counts the requests of a unit."""


@dataclass
class Watched:
    """view: the series; settings: per unit, label -> (value, share of the window in which it stood); pods: what the
    configuration says of them; slos: the objectives."""

    view: View
    signals: Mapping[str, Signal]
    tiers: Tiers
    settings: Mapping[Unit, Mapping[str, tuple[str, float]]]
    pods: Sequence[PodSection] = ()
    slos: Sequence[Slo] = ()
    _quiet: dict[Unit, bool] = field(default_factory=dict)
    _of_gpus: dict[tuple[Unit, str], np.ndarray | None] = field(default_factory=dict)

    def number(self, name: str, tier: str = UNKNOWN_TIER) -> float:
        """A named limit, that of a tier where it has one of its own."""
        return self.tiers.limit(name, tier)

    def values(self, unit: Unit, signal: str) -> np.ndarray | None:
        """A signal of a unit: float64[T], or None. Of a GPU signal the mean over the GPUs of its pod, of a bit mask
        the bits of any of them."""
        declared = self.signals.get(signal)
        if declared is not None and declared.level == "gpu":
            if (unit, signal) not in self._of_gpus:
                rows = list(self.view.gpus(unit, signal).values())
                combine = bits_of_rows if declared.unit == "bits" else mean_of_rows
                self._of_gpus[unit, signal] = combine(rows) if rows else None
            return self._of_gpus[unit, signal]
        series = self.view.get(unit, signal)
        return None if series is None else series.values

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return self.view.steps * self.view.step_seconds

    @property
    def pools(self) -> list[Pool]:
        """The pools, in the order in which their pods stand."""
        return list(self._by_pool)

    def units(self, pool: Pool) -> list[Unit]:
        """The units of a pool."""
        return self._by_pool.get(pool, [])

    @cached_property
    def _by_pool(self) -> dict[Pool, list[Unit]]:
        found: dict[Pool, list[Unit]] = {}
        for unit in self.view.units:
            found.setdefault(unit.member.pool, []).append(unit)
        return found

    @cached_property
    def fastest_clock(self) -> dict[Pool, np.ndarray]:
        """Clock of the busy GPUs of the fastest pod of each pool that shows any, MHz: float64[T]."""
        rows = {pool: [self.values(unit, BUSY_CLOCK) for unit in units] for pool, units in self._by_pool.items()}
        seen = {pool: [row for row in each if row is not None] for pool, each in rows.items()}
        return {pool: np.fmax.reduce(each) for pool, each in seen.items() if each}

    def requests(self, unit: Unit) -> float | None:
        """Requests that ended in the window, or reached their first token; None where neither is visible."""
        for name in ENDS:
            values = self.values(unit, name)
            if values is not None:
                return float(np.nansum(values) * self.view.step_seconds)
        return None

    def quiet(self, unit: Unit) -> bool:
        """Whether a unit had too little traffic in the window to say how it works. Few requests that kept it at work
        for most of the window say enough: they are few because they take long."""
        if unit not in self._quiet:
            count = self.requests(unit)
            few = count is not None and count < self.number("standing_requests")
            self._quiet[unit] = few and not (count and count >= FEWEST_OBSERVATIONS and self._works_mostly(unit))
        return self._quiet[unit]

    def _works_mostly(self, unit: Unit) -> bool:
        running = self.values(unit, RUNNING)
        return running is not None and bool(np.mean(running > 0) > self.number("standing_share"))

    def busy(self, unit: Unit) -> np.ndarray:
        """bool[T]: where a unit has more to do than a share of its own peak. A night is not busy."""
        return np.asarray(self._busy[self._row_of[unit]])

    def busy_in_any(self, groups: Sequence[Sequence[Unit]]) -> np.ndarray:
        """bool[groups, T]: where any unit of a group is busy."""
        rows = [self._row_of[unit] for units in groups for unit in units]
        starts = np.cumsum([0, *map(len, groups[:-1])])
        return np.asarray(np.logical_or.reduceat(self._busy[rows], starts, axis=0))

    @cached_property
    def _row_of(self) -> dict[Unit, int]:
        return {unit: row for row, unit in enumerate(self.view.units)}

    @cached_property
    def _busy(self) -> np.ndarray:
        found = np.zeros((len(self.view.units), self.view.steps), dtype=bool)
        for name in WORK:
            rows = {row: work for unit, row in self._row_of.items() if (work := self.values(unit, name)) is not None}
            if rows:
                values = rows_of(list(rows.values()))
                known = ~np.isnan(values)
                peaks = row_percentile(ranked_rows(values, known), known.sum(axis=1), 0.95)
                least = self.number("standing_busy") * peaks[:, np.newaxis]
                found[list(rows)] |= np.isfinite(values) & (values > 0) & (values >= least)
        return found

    @property
    def least_seconds(self) -> float:
        """Length of the shortest window that shows what persists."""
        return self.number("standing_least_parts") * self._least_part * self.view.step_seconds

    @property
    def _least_part(self) -> int:
        """Steps of two rate windows: what a rate holds of its neighbour is the smaller half of such a part."""
        return 2 * self.view.window_steps

    def parts(self) -> list[slice]:
        """The parts of the window whose means are judged, none shorter than the least."""
        steps = max(-(-self.view.steps // int(self.number("standing_parts"))), self._least_part)
        return [slice(first, first + steps) for first in range(0, self.view.steps - steps + 1, steps)]

    def in_parts(self, values: np.ndarray) -> np.ndarray:
        """float64[n, T] cut into the parts of the window: float64[n, parts, steps of a part]."""
        parts = self.parts()
        if not parts:
            return np.empty((len(values), 0, 0))
        return values[:, : parts[-1].stop].reshape(len(values), len(parts), -1)

    def gpus(self, unit: Unit) -> int | None:
        """GPUs of a unit's pod, shared among its engines: what the configuration says, else what the GPU exporter joins
        to the pod; None where neither does."""
        engines = sum(1 for other in self.view.units if other.member.key == unit.member.key)
        for section in self.pods:
            if section.gpus is not None and _fits(section.pod, unit.member.pod):
                return max(1, section.gpus // engines)
        count = len(self.view.gpus(unit, GPU_SIGNAL))
        return max(1, count // engines) if count else None


def _fits(pattern: str, pod: str) -> bool:
    import re

    return re.fullmatch(pattern, pod) is not None


def mean_of_rows(rows: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of the finite values of rows at every step, float64[T]; NaN where none is."""
    if len(rows) == 1:
        return np.where(np.isfinite(rows[0]), rows[0], np.nan)
    stacked = np.vstack(rows)
    count = np.isfinite(stacked).sum(axis=0)
    total = np.nansum(stacked, axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def bits_of_rows(rows: Sequence[np.ndarray]) -> np.ndarray:
    """The bits that any row has at every step, as a number: float64[T]; NaN where no row has a value."""
    known = np.isfinite(rows)
    mask = np.bitwise_or.reduce(np.where(known, rows, 0).astype(np.int64))
    return np.where(known.any(axis=0), mask.astype(np.float64), np.nan)


def settings_of(view: View, infos: Sequence[InfoSeries]) -> dict[Unit, dict[str, tuple[str, float]]]:
    """Label -> (value that stood longest, share of the window) of the settings page of each unit."""
    stood: dict[tuple[tuple[str, str, str], str], dict[str, dict[str, int]]] = {}
    for series in infos:
        entity = Entity.of_labels(series.labels)
        steps = int(np.isfinite(series.values).sum())
        labels = stood.setdefault((entity.member, entity.engine), {})
        for name, value in series.labels.items():
            counts = labels.setdefault(name, {})
            counts[value] = counts.get(value, 0) + steps
    found: dict[Unit, dict[str, tuple[str, float]]] = {}
    for unit in view.units:
        labels = stood.get((unit.member.key, unit.engine)) or stood.get((unit.member.key, "")) or {}
        for name, counts in labels.items():
            value, steps = max(counts.items(), key=lambda item: item[1])
            total = sum(counts.values())
            if total:
                found.setdefault(unit, {})[name] = value, steps / total
    return found
