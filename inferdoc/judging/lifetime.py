"""What an engine was like since it started, as its first page tells.

Counters and histograms hold everything since the process began, so a box that nobody scraped before has a past: the
mean time to first token of its life, the length of its prompts, the share of its cache hits.

The counters of the first page are laid out evenly over a stretch before it, at two speeds. What reads the same at both
does not depend on how long the process runs (quotients, means, quantiles, and what stands at zero), and is kept.

What reads differently is a rate. Where the page says when the process began, its mean over that life is kept, and by
Little's law the mean of what ran and what waited. These are means over days and nights, so they can excuse a load that
is higher now, or speak of it; that something is less now than in such a mean says nothing (`Past.means`).
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
from inferdoc.judging.shift import LEAST_BLOCKS
from inferdoc.source.assemble import read_signals
from inferdoc.source.frame import Earlier, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid, Matcher
from inferdoc.source.store_source import StoreSource
from inferdoc.store.store import Store

CUMULATIVE = frozenset({"counter", "histogram", "summary"})
SPEEDS = (1.0, 2.0)
SAME = 1e-6
EDGE_MS = 1
"""A grid ends so much after its newest sample."""
START = "process_start_time_seconds"
SHORTEST_LIFE_SECONDS = 120.0
"""The mean over less is that of a warm-up."""
RAN = ("prefill_time_mean", "decode_time_mean")
LITTLE = {
    "running": RAN,
    "running_mean": RAN,
    "waiting": ("queue_time_mean",),
    "waiting_capacity": ("queue_time_mean",),
}
"""Little's law: the mean number in a place is requests per second times the seconds that each spends there. All that
waited is the most that can have waited for capacity."""
ARRIVED = ("arrival_rate",)
"""Over a life as many arrive as finish."""


@dataclass(frozen=True)
class FirstPage:
    """The first page of a target: labels of the target, what it answered, and when (milliseconds since 1970)."""

    labels: Mapping[str, str]
    page: Page
    at_ms: int

    @property
    def life_seconds(self) -> float | None:
        """Since the process began; None where the page does not tell, or has only just begun."""
        starts = [v for one, v in zip(self.page.layout.series, self.page.values, strict=True) if one.name == START]
        life = self.at_ms / 1000 - max(starts) if starts else 0.0
        return life if life >= SHORTEST_LIFE_SECONDS else None


@dataclass(frozen=True)
class Past:
    """frame: the signals since the start of each process; means: those that are means over days and nights."""

    frame: SignalFrame
    means: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Lifetime:
    """The first pages of all targets, in the place of a history."""

    pages: tuple[FirstPage, ...]

    def lead(self, frame: SignalFrame, wanted: Iterable[str], catalogue: Catalogue, match: tuple[Matcher, ...]) -> Past:
        """The signals since the start of each process, ready for `prepend`, on as many steps as a calm, and a mean of
        one, must have. The first rates of the frame, whose windows reach back before the first page, are put right."""
        clock = Clock(frame.grid.step_ms / 1000, frame.grid.interval_ms / 1000, 1)
        count = max(clock.least_calm, (LEAST_BLOCKS + 1) * (frame.grid.rate_ms // frame.grid.step_ms) + 1)
        grid = replace(frame.grid, start_ms=frame.grid.start_ms - count * frame.grid.step_ms, count=count)
        names = list(wanted)
        with TemporaryDirectory() as folder:
            slow, fast, real = (
                self._read(Path(folder) / f"{s}.db", s, grid, names, catalogue, match) for s in (*SPEEDS, None)
            )
        means = set()
        for name, matrix in slow.signals.items():
            same = np.isclose(matrix.values, fast[name].values, rtol=SAME, atol=0.0)
            paced = Earlier(real[name].entities, real[name].values) if name in real else Earlier([], matrix.values[:0])
            gap = np.full(grid.count, np.nan)
            rates = np.vstack([paced.own(entity, gap) for entity in matrix.entities] or [gap[:0]])
            matrix.values = np.where(same, matrix.values, rates)
            if (~same & np.isfinite(rates)).any():
                means.add(name)
        _from_first_page(frame, means)
        counted = _by_conservation(slow) if means else {}
        slow.signals |= counted
        return Past(slow, frozenset(means | counted.keys()))

    def _read(
        self,
        path: Path,
        speed: float | None,
        grid: Grid,
        names: list[str],
        catalogue: Catalogue,
        match: tuple[Matcher, ...],
    ) -> SignalFrame:
        """speed: of the counters, in shares of what they hold; None: that at which they came to hold it."""
        before = 4 * grid.rate_ms // grid.step_ms + 1
        steps = before + grid.count
        with Store.open(path, "w") as store:
            for first in self.pages:
                life = first.life_seconds
                if speed is None and life is None:
                    continue
                page = _cumulative(first.page)
                with store.writer.round():
                    for step in range(steps):
                        at = grid.end_ms - EDGE_MS - (steps - 1 - step) * grid.step_ms
                        share = step * grid.step_ms / 1000 / life if speed is None and life is not None else 0.0
                        share = share if speed is None else speed * step / (max(SPEEDS) * steps)
                        values = page.values * share
                        store.writer.append(dict(first.labels), at, Page(page.layout, values))
        source = StoreSource(path)
        try:
            return read_signals(source, names, grid, catalogue.signals, Aliases(catalogue.exporters.values()), match)
        finally:
            source.close()


def _from_first_page(frame: SignalFrame, rates: Iterable[str]) -> None:
    """Take rates over the time since the first page, as long as that is shorter than their window: what came before
    it was not seen, and is no time without work."""
    step_ms, width_ms = frame.grid.step_ms, frame.grid.rate_ms
    for name in rates:
        rows = frame[name].values if name in frame else np.empty((0, frame.grid.count))
        for row in rows:
            first = int(np.isfinite(row).argmax())
            since = step_ms * (np.arange(len(row)) - first + 1.5)  # a rate is extrapolated by half an interval
            row[first:] *= np.maximum(1.0, width_ms / since[first:])


def _by_conservation(past: SignalFrame) -> dict[str, SignalMatrix]:
    """What ran, waited and arrived on average, of each engine whose requests are counted."""
    if "request_rate" not in past:
        return {}
    rate, gap = past["request_rate"], np.full(past.grid.count, np.nan)
    found = dict.fromkeys(ARRIVED, SignalMatrix(rate.entities, rate.values))
    for name, spent in LITTLE.items():
        if all(each in past for each in spent):
            rows = [Earlier(past[each].entities, past[each].values) for each in spent]
            seconds = [np.sum([row.own(entity, gap) for row in rows], axis=0) for entity in rate.entities]
            found[name] = SignalMatrix(rate.entities, rate.values * np.vstack(seconds))
    return found


def _cumulative(page: Page) -> Page:
    """The counters and histograms of a page."""
    layout = page.layout
    kept = [
        place
        for place, series in enumerate(layout.series)
        if layout.type_of(series.name) in CUMULATIVE and not series.name.endswith("_created")
    ]
    return Page(Layout([layout.series[place] for place in kept], layout.types), page.values[kept])
