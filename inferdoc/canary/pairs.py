"""What happened in both groups in the same windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from inferdoc.canary.arms import Arms
from inferdoc.catalogue.signal import Term
from inferdoc.forecast.fromsource import Key
from inferdoc.slo.history import History
from inferdoc.source.frame import Entity
from inferdoc.source.histograms import common_bounds
from inferdoc.source.plan import BY
from inferdoc.source.reads import Grid

WINDOW_MS = 60_000
"""A minute: of its requests it is counted how they go together (reference: capacity, section G)."""


@dataclass(frozen=True)
class ArmCounts:
    """Events by window in both groups. bad, of: float64[2, windows], the candidate first."""

    bad: np.ndarray
    of: np.ndarray

    def at(self, windows: np.ndarray) -> ArmCounts:
        """Those of some windows. windows: bool[windows]."""
        return ArmCounts(self.bad[:, windows], self.of[:, windows])

    @property
    def totals(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """(bad, of) of the candidate and of the stable group."""
        bad, of = self.bad.sum(axis=1), self.of.sum(axis=1)
        return (float(bad[0]), float(of[0])), (float(bad[1]), float(of[1]))


@dataclass
class ArmsWatched:
    """Both groups in an interval of a source."""

    history: History
    arms: Arms

    @cached_property
    def grid(self) -> Grid:
        """Windows of a minute, or of so many scrapes as an increase takes."""
        return self.history.grid(WINDOW_MS)

    def buckets(self, histogram: str) -> dict[float, np.ndarray]:
        """Bound -> float64[2, windows]: cumulative events of both groups; only bounds that all of their pods have, at
        all times, so that all count alike. Empty where a group has none, or no bound for all events."""
        found: tuple[list[Mapping[float, np.ndarray]], ...] = ([], [])
        for entity, cells in self.history.histograms(histogram, self.grid, BY["engine"]).items():
            for group, keys in zip(found, self.arms.keys(), strict=True):
                if entity.member in keys:
                    group.append(cells)
        if not all(found):
            return {}
        shared = common_bounds(cells for group in found for cells in group)
        if np.inf not in shared:
            return {}
        return {
            bound: np.stack([summed(np.nan_to_num(cells[bound]) for cells in group) for group in found])
            for bound in shared
        }

    def counted(self, term: Term) -> np.ndarray:
        """float64[2, windows]: events of both groups that a counter counts; zeros where nobody counted."""
        groups = self.arms.keys()
        rows = self.history.counts(term, self.grid, BY["engine"])
        return np.stack([self._of(rows, keys) for keys in groups])

    def _of(self, rows: Mapping[Entity, np.ndarray], keys: frozenset[Key]) -> np.ndarray:
        return summed(
            [np.zeros(self.grid.count), *(values for entity, values in rows.items() if entity.member in keys)]
        )


def summed(rows: Iterable[np.ndarray]) -> np.ndarray:
    """float64[windows]: several rows added up."""
    total: np.ndarray = np.sum(list(rows), axis=0)
    return total
