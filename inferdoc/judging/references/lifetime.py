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

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.load import Catalogue
from inferdoc.judging.clock import Clock
from inferdoc.judging.context import quiet
from inferdoc.judging.shift import LEAST_BLOCKS
from inferdoc.source.assemble import read_signals
from inferdoc.source.base import Source
from inferdoc.source.first_counters import FirstCounters, Rise, SteadyRates, over_life, over_seconds
from inferdoc.source.frame import Earlier, SignalFrame, SignalMatrix
from inferdoc.source.reads import Matcher

SPEEDS = (1.0, 2.0)
SAME = 1e-6
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
WORK = ("request_rate", "router_request_rate")
"""Of engines, and of what stands before them."""
LEAST_LENGTHS = 20.0
"""Mean lengths of a request that a life with work lasts: one in so many still runs then, and is in no mean."""
Who = tuple[str, str, str]
"""Cluster, namespace and pod (`Entity.member`)."""


@dataclass(frozen=True)
class Past:
    """frame: the signals since the start of each process; means: those that are means over days and nights."""

    frame: SignalFrame
    means: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Lifetime:
    """What counters stood at when they were first scraped, in the place of a history. begin_ms, within_ms: where in the
    source that was (milliseconds since 1970, and from there on); None: in the window, whenever it was. least_seconds:
    of processes that ran at least so long by then, and not idly: what an engine finished in its first seconds of
    work is short, since what takes long still runs (0: of all). present: seconds before the first page that are taken
    to have been as the window shows: whoever looks because something is wrong comes later than it did, and what it did
    to the counters until then is no part of what was usual."""

    begin_ms: int | None = None
    within_ms: int | None = None
    least_seconds: float = 0.0
    present: float = 0.0

    def lead(
        self,
        source: Source,
        frame: SignalFrame,
        wanted: Iterable[str],
        catalogue: Catalogue,
        match: tuple[Matcher, ...] = (),
    ) -> Past:
        """The signals since the start of each process, ready for `prepend`, on as many steps as a calm, and a mean of
        one, must have. The first rates of the frame, whose windows reach back before the first page, are put right.
        Raises SourceError."""
        clock = Clock(frame.grid.step_ms / 1000, frame.grid.interval_ms / 1000, 1)
        count = max(clock.least_calm, (LEAST_BLOCKS + 1) * (frame.grid.rate_ms // frame.grid.step_ms) + 1)
        grid = replace(frame.grid, start_ms=frame.grid.start_ms - count * frame.grid.step_ms, count=count)
        names, aliases = list(wanted), Aliases(catalogue.exporters.values())
        counters = self._first(source, frame, match)
        stretch = count * frame.grid.step_ms / 1000
        paces: tuple[Rise, ...] = (*(over_seconds(stretch / speed) for speed in SPEEDS), over_life)
        slow, fast, real = (
            read_signals(SteadyRates(counters, pace), names, grid, catalogue.signals, aliases, match) for pace in paces
        )
        if self.least_seconds:
            idle = _idle(slow, frame, stretch)
            _leave_out(slow, idle)
            _leave_out(real, idle)
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

    def _first(self, source: Source, frame: SignalFrame, match: tuple[Matcher, ...]) -> FirstCounters:
        grid = frame.grid
        begin_ms = grid.start_ms - grid.interval_ms if self.begin_ms is None else self.begin_ms
        end_ms = grid.end_ms if self.within_ms is None else begin_ms + self.within_ms
        count = max(1, (end_ms - begin_ms) // grid.step_ms + 1)
        first = replace(grid, start_ms=begin_ms, count=count)
        return FirstCounters(source, first, match, self.least_seconds, self.present)


def _idle(past: SignalFrame, frame: SignalFrame, stretch: float) -> set[Who]:
    """Who had hardly worked by its first page, however long it ran. stretch: seconds over which `past` lays out what
    was counted; how long that took is not known, and as long as it would take now at the least."""
    long = quiet(past["e2e_mean"].values) if "e2e_mean" in past else None
    idle: set[Who] = set()
    if long is None:
        return idle
    for name in WORK:
        if name in past and name in frame:
            counted, now = _by_member(past[name]), _by_member(frame[name])
            idle |= {who for who, rate in counted.items() if rate * stretch < now.get(who, 0.0) * LEAST_LENGTHS * long}
    return idle


def _by_member(rates: SignalMatrix) -> dict[Who, float]:
    """The usual rate of each member, over all its series."""
    usual: dict[Who, float] = {}
    for entity, row in zip(rates.entities, rates.values, strict=True):
        usual[entity.member] = usual.get(entity.member, 0.0) + (quiet(row) or 0.0)
    return usual


def _leave_out(past: SignalFrame, idle: set[Who]) -> None:
    """Take what is told of them out of it."""
    for matrix in past.signals.values():
        matrix.values[[entity.member in idle for entity in matrix.entities]] = np.nan


def _from_first_page(frame: SignalFrame, rates: Iterable[str]) -> None:
    """Take rates over the time since the first page, as long as that is shorter than their window: what came before
    it was not seen, and is no time without work. So with the events of a window: each was seen in fewer windows than
    it would have been in, and a stretch of them holds more than a window's share of their sum."""
    for name in rates:
        if name in frame:
            _stretch(frame[name].values, frame)
    for matrix in frame.signals.values():
        if matrix.counts is not None:
            _stretch(matrix.counts, frame)


def _stretch(rows: np.ndarray, frame: SignalFrame) -> None:
    """Bring sums over windows that began before the first page to those of a whole window. rows: float64[R, T]."""
    step_ms, width_ms = frame.grid.step_ms, frame.grid.rate_ms
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
