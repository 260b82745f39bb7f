"""What an engine was like since it started, from its first page.

Counters and histograms hold everything since the process started, so a box that nobody scraped before has a past: the
mean time to first token of its life, the length of its prompts, the share of its cache hits.

The counters of the first page are laid out evenly over a time range before it, at two speeds. What reads the same at
both does not depend on how long the process runs (quotients, means, quantiles, and what stands at zero), and is kept.

What reads differently is a rate. Where the page says when the process started, its mean over that life is kept, and by
Little's law the mean of what ran and what waited. These are means over days and nights, so they can excuse a load that
is higher now, or speak of it; that something is less now than in such a mean says nothing (`Past.means`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs

from inferdoc.catalogue.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Level,
    Move,
    Not,
    OfParts,
    Presence,
    Witnesses,
    leaves,
)
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.judging.clock import Clock
from inferdoc.judging.context import quiet
from inferdoc.judging.deviation import LEAST_BLOCKS
from inferdoc.judging.fold import Cause
from inferdoc.judging.view import View
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
        needed: Iterable[str],
        catalogue: Catalogue,
        match: tuple[Matcher, ...] = (),
    ) -> Past:
        """The signals since the start of each process, ready for `prepend`, on as many steps as a baseline, and a mean
        of one, must have. The first rates of the frame, whose windows reach back before the first page, are put right.
        Raises SourceError."""
        clock = Clock(frame.grid.step_ms / 1000, frame.grid.interval_ms / 1000, 1)
        count = max(clock.least_baseline, (LEAST_BLOCKS + 1) * (frame.grid.rate_ms // frame.grid.step_ms) + 1)
        grid = replace(frame.grid, start_ms=frame.grid.start_ms - count * frame.grid.step_ms, count=count)
        names, aliases = list(needed), catalogue.aliases
        counters = self._first(source, frame, match)
        span = count * frame.grid.step_ms / 1000
        paces: tuple[Rise, ...] = (*(over_seconds(span / speed) for speed in SPEEDS), over_life)
        slow, fast, real = (
            read_signals(SteadyRates(counters, pace), names, grid, catalogue.signals, aliases, match) for pace in paces
        )
        if self.least_seconds:
            idle = _idle(slow, frame, span)
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


def _idle(past: SignalFrame, frame: SignalFrame, span: float) -> set[Who]:
    """Who had hardly worked by its first page, however long it ran. span: seconds over which `past` lays out what
    was counted; how long that took is not known, and as long as it would take now at the least."""
    long = quiet(past["e2e_mean"].values) if "e2e_mean" in past else None
    idle: set[Who] = set()
    if long is None:
        return idle
    for name in WORK:
        if name in past and name in frame:
            counted, now = _by_member(past[name]), _by_member(frame[name])
            idle |= {who for who, rate in counted.items() if rate * span < now.get(who, 0.0) * LEAST_LENGTHS * long}
    return idle


def _by_member(rates: SignalMatrix) -> dict[Who, float]:
    """The usual rate of each member, over all its series."""
    usual: dict[Who, float] = {}
    for entity, row in zip(rates.entities, rates.values, strict=True):
        usual[entity.member] = usual.get(entity.member, 0.0) + (quiet(row) or 0.0)
    return usual


def _leave_out(past: SignalFrame, idle: set[Who]) -> None:
    """Remove them from it."""
    for matrix in past.signals.values():
        matrix.values[[entity.member in idle for entity in matrix.entities]] = np.nan


def _from_first_page(frame: SignalFrame, rates: Iterable[str]) -> None:
    """Take rates over the time since the first page, as long as that is shorter than their window: what came before
    it was not seen, and is no time without work. So with the events of a window: each was seen in fewer windows than
    it would have been in, and a time range of them holds more than a window's share of their sum."""
    for name in rates:
        if name in frame:
            _span(frame[name].values, frame)
    for matrix in frame.signals.values():
        if matrix.counts is not None:
            _span(matrix.counts, frame)


def _span(rows: np.ndarray, frame: SignalFrame) -> None:
    """Bring sums over windows that started before the first page to those of a whole window. rows: float64[R, T]."""
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


QUIET = Move(signal="arrival_rate", ratio=0.95, up=False, average=True)
"""A quiet hour: less arrives than on average over days and nights."""
MORE_MADE = Move(signal="generation_tokens_rate", ratio=1.1, up=True, share_of=0.5)
MUCH_MORE = 1.5
"""Own choice: as much as the recipes query of a wait before they call it late."""

NOTHING: frozenset[str] = frozenset()
MoveFilter = Callable[[Move], Condition | None]
"""What is required at first look in the place of a move; None: nothing."""


@dataclass(frozen=True)
class FirstLook:
    """What a first look can be required. known_signals: signals whose past is known; means: those of which a mean over
    days and nights is: less than that says nothing; brief: too little was seen for two means of rate windows."""

    known_signals: frozenset[str]
    means: frozenset[str]
    brief: bool

    @classmethod
    def of(cls, view: View) -> FirstLook:
        """What the first look at these series can be required."""
        known_signals = {
            name for name, one in view.frame.signals.items() if np.isfinite(one.values[:, : view.lead_steps]).any()
        }
        brief = view.steps - view.begin <= 2 * view.window_steps
        return cls(frozenset(known_signals), view.lead_means, brief)

    def exactly(self, move: Move) -> Condition | None:
        """The move itself, where its past is known; where too little was seen for means, of the values. Less than in a
        mean over days and nights counts where no less arrives."""
        if move.signal not in self.known_signals or (self.excused(move) and QUIET.signal not in self.known_signals):
            return None
        required = self._in_time(move)
        return AllOf((required, Not(self._in_time(QUIET)))) if self.excused(move) else required

    def _in_time(self, move: Move) -> Move:
        return structs.replace(move, average=False) if self.brief else move

    def widely(self, move: Move) -> Condition | None:
        """The move, or that of the median: the fault that is looked at is a part of the life, and moves its mean at
        once and its median last. What runs rises with whatever slows the engine: it speaks of a larger batch only where
        more tokens come out as well."""
        required, median = self.exactly(move), move.signal.removesuffix("_mean") + "_p50"
        if (
            required is not None
            and move.up
            and LITTLE.get(move.signal) == RAN
            and MORE_MADE.signal in self.known_signals
        ):
            return AllOf((required, MORE_MADE))
        if required is None or not move.up or not move.signal.endswith("_mean") or median not in self.known_signals:
            return required
        return AnyOf((required, structs.replace(move, signal=median, average=False)))

    def excuse(self, move: Move) -> Condition | None:
        """A move whose absence is required: more work excuses slower answers. A mean over hours without work is less
        than what was usual while there was some, so it takes more than a little above it. How much runs or waits is no
        work that came: whatever slows the engine raises it."""
        if move.signal in LITTLE:
            return None
        if move.signal in self.means and move.up:
            move = structs.replace(move, ratio=max(move.ratio, MUCH_MORE))
        return self.exactly(move)

    def known(self, query: MoveFilter) -> MoveFilter:
        """For what speaks for or against a cause: unknown pasts stay in, as what is unknown."""
        return lambda move: query(move) if move.signal in self.known_signals else move

    def excused(self, move: Move) -> bool:
        """Whether it would compare a quiet hour with a mean over days and nights."""
        return move.signal in self.means and not move.up


def absolute(recipes: Mapping[str, Recipe], look: FirstLook) -> dict[str, Recipe]:
    """The recipes without what compares a signal with a past that nobody knows. Where a symptom is lost, a level of the
    same signal must speak for it (the cache is full, if not fuller than before): else the recipe is left out, since
    what is left would fit too much. So would a symptom of which only the impact is left, or what other symptoms show:
    pages that are written slowly together with slow tokens are a sign of the host, slow tokens are none."""
    found = {}
    for name, recipe in recipes.items():
        within_not = look.excuse if recipe.kind == "unexplained" else look.exactly
        symptoms: list[Condition] = []
        lost: list[Condition] = []
        for one in recipe.symptoms:
            known_signals = _signals((*recipe.harm, *(other for other in recipe.symptoms if other is not one)))
            symptoms += _kept([one], look.widely, within_not, known_signals)
            if not _kept([one], look.exactly, look.exactly, known_signals):
                lost.append(one)
        harm = _kept(recipe.harm, look.widely, within_not)
        seen = {leaf.signal for one in symptoms for leaf in leaves(one) if isinstance(leaf, Level)}
        if symptoms and harm and all(_vouched(one, seen) for one in lost):
            around, excuse = look.known(look.exactly), look.known(look.excuse)
            unless = _kept(recipe.unless, around, excuse)
            support, proof = (_kept(each, around, around) for each in (recipe.support, recipe.proof))
            kept = structs.replace(recipe, symptoms=tuple(symptoms), harm=harm, unless=unless)
            found[name] = structs.replace(kept, support=support, proof=proof)
    return found


def _vouched(condition: Condition, levels: set[str]) -> bool:
    """Whether levels of the same signals, by name, speak for a condition in the place of its moves: for all of what
    belongs together, for one of alternatives."""
    if isinstance(condition, AllOf | Witnesses):
        return all(_vouched(part, levels) for part in condition.parts if not isinstance(part, Not))
    if isinstance(condition, OfParts):
        return any(_vouched(part, levels) for part in condition.parts)
    return not levels.isdisjoint(condition.signals)


def doubted(roots: Iterable[Cause], recipes: Mapping[str, Recipe], look: FirstLook) -> None:
    """Lower the certainty: possible where not all of a recipe could be required, or where it rests on a mean over days
    and nights, else likely at most."""
    for root in roots:
        whole = recipes.get(root.recipe.id)
        for match in root.matches:
            rests = {one.outcome.signal for one in match.evidence if one.role == "symptom"}
            if whole is None or not _whole(whole, match.recipe, look) or rests.intersection(look.means):
                match.certainty = "possible"
            elif match.certainty == "proven":
                match.certainty = "likely"
        doubted((*root.effects, *root.load_changes), recipes, look)


def _whole(recipe: Recipe, required: Recipe, look: FirstLook) -> bool:
    """Whether all moves among the symptoms of a recipe could be required."""
    moves = {leaf.signal for one in recipe.symptoms for leaf in leaves(one) if isinstance(leaf, Move)}
    return moves <= look.known_signals and len(required.symptoms) == len(recipe.symptoms)


def _kept(
    conditions: Iterable[Condition], query: MoveFilter, within_not: MoveFilter, known_signals: frozenset[str] = NOTHING
) -> tuple[Condition, ...]:
    pruned = (_pruned(condition, query, within_not, known_signals) for condition in conditions)
    return tuple(condition for condition in pruned if condition is not None)


def _pruned(
    condition: Condition, query: MoveFilter, within_not: MoveFilter, known_signals: frozenset[str]
) -> Condition | None:
    """The condition with its moves as they are required; None where nothing is left, or of parts that belong together
    only what is absent, what other pods show, or what `known` (the signals of others) shows."""
    if isinstance(condition, Move):
        return query(condition)
    if not isinstance(condition, OfParts):
        return condition
    if isinstance(condition, Not):
        part = _pruned(condition.part, within_not, within_not, NOTHING)
        return None if part is None else structs.replace(condition, part=part)
    pruned = [(part, _pruned(part, query, within_not, known_signals)) for part in condition.parts]
    parts = tuple(kept for _, kept in pruned if kept is not None)
    if not parts or parts == condition.parts:
        return condition if parts else None
    left = _signals(part for part, kept in pruned if kept is not None)
    if isinstance(condition, AllOf) and len(parts) < len(pruned) and left <= known_signals:
        return None
    return structs.replace(condition, parts=parts)


def _signals(conditions: Iterable[Condition]) -> frozenset[str]:
    """The signals of a pod that speak for conditions: not those whose absence is required."""
    found: set[str] = set()
    for one in conditions:
        if isinstance(one, OfParts):
            found |= NOTHING if isinstance(one, Not) else _signals(one.parts)
        elif one.scope == "own" and not (isinstance(one, Presence) and not one.there):
            found.update(one.signals)
    return frozenset(found)
