"""What an engine was like since it started, as its first page tells.

Counters and histograms hold everything since the process began, so a box that nobody scraped before has a past: the
mean time to first token of its life, the length of its prompts, the share of its cache hits. Rates it has not: an
average over days and nights is nobody's rate. Nor has it gauges.

The counters of the first page are laid out evenly over a stretch before it, at two speeds. What reads the same at both
does not depend on how long the process runs (quotients, means, quantiles, and what stands at zero), and is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.load import Catalogue
from inferdoc.collect.samples import Layout, Page
from inferdoc.judging.clock import Clock
from inferdoc.source.assemble import read_signals
from inferdoc.source.frame import SignalFrame
from inferdoc.source.reads import Grid, Matcher
from inferdoc.source.store_source import StoreSource
from inferdoc.store.store import Store

CUMULATIVE = frozenset({"counter", "histogram", "summary"})
SPEEDS = (1.0, 2.0)
SAME = 1e-6
EDGE_MS = 1
"""A grid ends so much after its newest sample."""


@dataclass(frozen=True)
class FirstPage:
    """The first page of a target: labels of the target, and what it answered."""

    labels: Mapping[str, str]
    page: Page


@dataclass(frozen=True)
class Lifetime:
    """The first pages of all targets, in the place of a history."""

    pages: tuple[FirstPage, ...]

    def lead(
        self, frame: SignalFrame, wanted: Iterable[str], catalogue: Catalogue, match: tuple[Matcher, ...]
    ) -> SignalFrame:
        """The signals since the start of each process, ready for `prepend`, on as many steps as a calm must have."""
        clock = Clock(frame.grid.step_ms / 1000, frame.grid.interval_ms / 1000, 1)
        grid = replace(frame.grid, start_ms=frame.grid.start_ms - clock.least_calm * frame.grid.step_ms)
        grid = replace(grid, count=clock.least_calm)
        names = list(wanted)
        with TemporaryDirectory() as folder:
            slow, fast = (self._read(Path(folder) / f"{s}.db", s, grid, names, catalogue, match) for s in SPEEDS)
        for name, matrix in slow.signals.items():
            same = np.isclose(matrix.values, fast[name].values, rtol=SAME, atol=0.0)
            matrix.values = np.where(same, matrix.values, np.nan)
        return slow

    def _read(
        self,
        path: Path,
        speed: float,
        grid: Grid,
        names: list[str],
        catalogue: Catalogue,
        match: tuple[Matcher, ...],
    ) -> SignalFrame:
        before = 4 * grid.rate_ms // grid.step_ms + 1
        steps = before + grid.count
        with Store.open(path, "w") as store:
            for first in self.pages:
                page = _cumulative(first.page)
                with store.writer.round():
                    for step in range(steps):
                        at = grid.end_ms - EDGE_MS - (steps - 1 - step) * grid.step_ms
                        values = page.values * (speed * step / (max(SPEEDS) * steps))
                        store.writer.append(dict(first.labels), at, Page(page.layout, values))
        source = StoreSource(path)
        try:
            return read_signals(source, names, grid, catalogue.signals, Aliases(catalogue.exporters.values()), match)
        finally:
            source.close()


def _cumulative(page: Page) -> Page:
    """The counters and histograms of a page."""
    layout = page.layout
    kept = [
        place
        for place, series in enumerate(layout.series)
        if layout.type_of(series.name) in CUMULATIVE and not series.name.endswith("_created")
    ]
    return Page(Layout([layout.series[place] for place in kept], layout.types), page.values[kept])
