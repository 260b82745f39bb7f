"""How far the signals of a pod moved from their calm, and from what like pods and like GPUs show at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from inferdoc.catalogue.signal import Signal
from inferdoc.judging.deviation import IQR_TO_SIGMA
from inferdoc.judging.order import median, medians_of_others, percentiles
from inferdoc.judging.view import Unit, View

LEAST_CALM, LEAST_SEEN = 8, 3
"""Values that a signal needs in the calm part and in the episode."""
LEAST_SPREAD = 0.02
"""Of the calm median: quantities that hardly move would otherwise turn the last digit into a hundred sigmas."""
FLOOR_SIGMAS = 3.0
"""The smallest change that can matter (the signal's floor) counts as so many sigmas at least."""
FARTHEST = 50.0
"""Sigmas beyond which farther says no more."""
SWITCHES = ("bool", "settings")
"""Units of what is either so or not, or as it was set: one step is as far as it goes."""
NO_MECHANISM = (
    "missing_scrapes",
    "duplicate_targets",
    "lost_signals",
    "scrape_duration",
    "process_start_time",
    "settings_identity",
    "image_identity",
    "nixl_xfer_total",
)
"""Signals about the telemetry itself, times of day, numbers that only stand for something, and counts since the start,
which grow by themselves."""


@dataclass(frozen=True)
class Track:
    """One signal of one unit, or of one of its GPUs: values in its unit, and sigmas from its calm, float64[T]."""

    part: str
    values: np.ndarray
    sigmas: np.ndarray

    def typical(self, steps: slice) -> float:
        """The median of the sigmas."""
        return typical(self.sigmas[steps])


@dataclass(frozen=True)
class Apart:
    """A GPU beside the others of its pod. sigmas: how far their difference left its own calm, signed; own, usual:
    medians in the episode, in the signal's unit."""

    part: str
    sigmas: float
    own: float
    usual: float


@dataclass(frozen=True)
class Episode:
    """split: the first step of it; last: its last step."""

    split: int
    last: int

    @property
    def steps(self) -> slice:
        """Its steps."""
        return slice(self.split, self.last + 1)


def typical(sigmas: np.ndarray) -> float:
    """The median of what is known, 0 where nothing is."""
    seen = sigmas[np.isfinite(sigmas)]
    return median(seen) if len(seen) else 0.0


def sigmas_of(row: np.ndarray, signal: Signal, episode: Episode) -> np.ndarray | None:
    """Deviations from the calm median over the calm spread; None for too few values."""
    calm = row[: episode.split][np.isfinite(row[: episode.split])]
    if len(calm) < LEAST_CALM or np.isfinite(row[episode.steps]).sum() < LEAST_SEEN:
        return None
    low, middle, high = percentiles(np.sort(calm), (0.25, 0.5, 0.75))
    if signal.unit in SWITCHES:
        return np.asarray(np.clip((row - middle) * FARTHEST, -FARTHEST, FARTHEST))
    least = max(LEAST_SPREAD * abs(middle), signal.floor / FLOOR_SIGMAS)
    spread = max((high - low) / IQR_TO_SIGMA, float(calm.std()) / 2, least)
    if spread <= 0:
        spread = 1.0 if not np.nanmax(np.abs(row)) else float(np.nanmax(np.abs(row))) / FARTHEST
    return np.asarray(np.clip((row - middle) / spread, -FARTHEST, FARTHEST))


def tracks(view: View, signals: Mapping[str, Signal], unit: Unit, episode: Episode) -> dict[str, Track]:
    """Every signal that says something about a unit in both parts; of several GPUs the one that moved farthest."""
    found = {}
    for name in view.frame.signals:
        signal = signals.get(name)
        if signal is None or name in NO_MECHANISM:
            continue
        each = [
            Track(part, row, sigmas)
            for part, row in _rows(view, signal, name, unit).items()
            if (sigmas := sigmas_of(row, signal, episode)) is not None
        ]
        if each:
            found[name] = max(each, key=lambda t: abs(t.typical(episode.steps)))
    return found


def _rows(view: View, signal: Signal, name: str, unit: Unit) -> Mapping[str, np.ndarray]:
    if signal.level == "gpu":
        return view.gpus(unit, name)
    series = view.get(unit, name)
    return {} if series is None else {"": series.values}


def gpus_apart(view: View, signal: Signal, name: str, unit: Unit, episode: Episode) -> Apart | None:
    """The GPU of a unit that stands off the others of its pod most. They work in lockstep, so that a difference among
    them is a fault of one of them whatever the load is."""
    rows = view.gpus(unit, name) if signal.level == "gpu" else {}
    if len(rows) < 2:
        return None
    found = [_beside(part, row, rest, signal, episode) for part, row, rest in _with_rest(rows)]
    return max((one for one in found if one is not None), key=lambda one: abs(one.sigmas), default=None)


def units_apart(
    view: View, signal: Signal, name: str, hit: Sequence[Unit], others: Sequence[Unit], episode: Episode
) -> list[float]:
    """How far each hit unit stands off its like, sigmas."""
    if signal.level not in ("engine", "target"):
        return []
    rows = {unit: s.values for unit in (*hit, *others) if (s := view.get(unit, name)) is not None}
    if len(rows) < 2:
        return []
    found = [_beside("", row, rest, signal, episode) for unit, row, rest in _with_rest(rows) if unit in hit]
    return [one.sigmas for one in found if one is not None]


Key = TypeVar("Key")


def _with_rest(rows: Mapping[Key, np.ndarray]) -> Iterator[tuple[Key, np.ndarray, np.ndarray]]:
    """Every row with the median of the others."""
    usual = medians_of_others(np.vstack(list(rows.values())))
    for (key, row), rest in zip(rows.items(), usual, strict=True):
        yield key, row, rest


def _beside(part: str, row: np.ndarray, rest: np.ndarray, signal: Signal, episode: Episode) -> Apart | None:
    sigmas = sigmas_of(row - rest, signal, episode)
    if sigmas is None:
        return None
    return Apart(part, typical(sigmas[episode.steps]), typical(row[episode.steps]), typical(rest[episode.steps]))
