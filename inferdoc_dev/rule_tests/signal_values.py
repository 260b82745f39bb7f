"""What a test case wants of the signals of a rule, and values that give it: just beyond a limit or just short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise, permutations, product, tee

from inferdoc.catalogue.conditions import Fact, Level, Move, Odd, Presence, Slope, Stall
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.observation import Dictionary
from inferdoc.catalogue.signal import Signal
from inferdoc.catalogue.span import Span, span
from inferdoc.judging.conditions.render import FEWEST_EVENTS
from inferdoc_dev.rule_tests import limits
from inferdoc_dev.rule_tests.limits import Course
from inferdoc_dev.rule_tests.raw_series import PHASES, Key, World

MARGIN = 0.04
"""A case lies this share beyond or short of the limit it is about: near enough that a changed limit shows."""
LEAST = 1e-3
"""What misses a limit lies this share of the usual value beside it at least, beyond what a sum of samples rounds."""
RAMP_SECONDS = 3600.0
"""How far a ramp may go while the case is watched."""
ORDERS_TRIED = 4
MOVES_TRIED = 60
"""Some limits on one signal exclude each other; the search then ends here."""


@dataclass(frozen=True)
class Want:
    """One simple condition and whether it is to hold in the faulty state. at: of its limits the one that decides, just
    met or, where the condition is not to hold, the only one missed; near: the signal is brought close to its limit even
    if it is well off already."""

    condition: Fact
    holds: bool
    at: str | None = None
    near: bool = False

    def suits(self, met: dict[str, bool]) -> bool:
        """Whether the limits met are the required ones."""
        if self.holds:
            return all(met.values())
        if self.at is None:
            return not all(met.values())
        return self.at in met and all(holding != (name == self.at) for name, holding in met.items())

    def decides(self, course: Course, catalogue: Catalogue, close: bool) -> bool:
        """Whether the limit that is to decide is the one just met, or missed by more than sums of samples round and,
        where this must be `close`, by so little that half of the limit would be met; where the condition has no such
        limit, any may."""
        if not self.near:
            return True
        edges = dict(zip(("factor", "by"), limits.edges(self.condition, course.healthy, catalogue), strict=False))
        edge = edges.get(self.at or "") if len(edges) == 2 else None
        if edge is None:
            return True
        away = abs(course.fault - edge)
        if self.holds:
            return away <= 1.5 * MARGIN * abs(edge)
        return away > LEAST * max(course.healthy, abs(edge)) and (not close or away <= abs(edge - course.healthy) / 4)


def build(catalogue: Catalogue, signals: Sequence[str], wants: Sequence[Want], low: float = 1.0) -> World | None:
    """A world with these signals in which every want is met; None where no course of the raw series gives it.
    low: the share of their usual pace at which counters begin."""
    by_signal: dict[str, list[Want]] = {}
    gone = {w.condition.signal for w in wants if isinstance(w.condition, Presence) and not w.holds}
    for want in wants:
        if isinstance(want.condition, Presence):
            continue
        for name in want.condition.signals:
            by_signal.setdefault(name, [])
        by_signal[want.condition.signal].append(want)
    fresh, free = (_Attempt(catalogue, by_signal, news, low) for news in (True, False))
    if any(next(free.courses(name), None) is None for name, group in by_signal.items() if group):
        return None
    bare = World(catalogue)
    fewest = sorted(by_signal, key=lambda name: len(list(bare.levers(name))))
    orders = dict.fromkeys((*islice(permutations(fewest), ORDERS_TRIED), tuple(by_signal)))
    absolute = any(want.holds and isinstance(want.condition, Level) for want in wants)
    for attempt in (fresh, free) if absolute else (free,):
        for order in orders:
            world = attempt.world(signals, order, gone)
            if world is not None:
                return world
    return None


@dataclass(frozen=True)
class _Attempt:
    """One try to bring about all wants. news: what is to hold in the faulty state must not hold while all is
    healthy."""

    catalogue: Catalogue
    wants: dict[str, list[Want]]
    news: bool
    low: float = 1.0

    def world(self, signals: Iterable[str], order: Sequence[str], gone: set[str]) -> World | None:
        """gone: signals that are to be absent, with the series that others may share with them."""
        world = World(self.catalogue)
        for name in signals:
            if name not in gone:
                world.add(name)
        for raw in world.raw.values():
            if raw.kind == "counter":
                raw.healthy, raw.fault = raw.healthy * self.low, raw.fault * self.low
        for name in gone:
            for key in list(world.levers(name)):
                world.remove(key)
        stalled = (w for group in self.wants.values() for w in group if w.at == "work")
        idle = {w.condition.work for w in stalled if isinstance(w.condition, Stall)}
        for name in sorted(idle):
            for lever in world.levers(name):  # what runs and what waits
                if lever in world.raw:
                    world.raw[lever] = replace(world.raw[lever], healthy=0.0, fault=0.0)
        return world if self.settled(world, order, frozenset(), [MOVES_TRIED]) else None

    def settled(self, world: World, order: Sequence[str], pinned: frozenset[Key], left: list[int]) -> bool:
        """Bring one signal after the other to its required value, without touching what an earlier one moved; go back
        to the next course of the one before where that fails."""
        if not order:
            return all(self.met(world, name) for name in self.wants)
        name, rest = order[0], order[1:]
        near = any(want.near for want in self.wants[name])
        if not near and self.met(world, name) and self.settled(world, rest, pinned, left):
            return True
        levers = [key for key in dict.fromkeys(world.levers(name)) if key in world.raw and key not in pinned]
        if not levers:
            return self.met(world, name) and self.settled(world, rest, pinned, left)
        for course in self.courses(name):
            for lever in levers:
                left[0] -= 1
                if left[0] < 0:
                    return False
                before = replace(world.raw[lever])
                fits = self.moved(world, name, lever, course) and self.met(world, name)
                if fits and self.settled(world, rest, pinned | {lever}, left):
                    return True
                world.raw[lever] = before
        return False

    def moved(self, world: World, name: str, lever: Key, course: Course) -> bool:
        raw = world.raw[lever]
        raw.ramp = course.ramp
        if not all(world.move(name, phase, getattr(course, phase), lever) for phase in PHASES):
            return False
        if course.swing is None:
            return True
        raw.swing = raw.healthy
        return world.move(name, "swing", course.swing, lever)

    def met(self, world: World, name: str) -> bool:
        wants = self.wants[name]
        if next(world.levers(name)) not in world.raw:
            return not any(want.holds for want in wants)
        try:
            raw = world.raw[next(world.levers(name))]
            swing = world.value(name, "swing")
            healthy = world.value(name, "healthy")
            course = Course(healthy, world.value(name, "fault"), raw.ramp, None if swing == healthy else swing)
            work = [world.value(c.work, "fault") if isinstance(c, Stall) else 0.0 for c in (w.condition for w in wants)]
            if self.catalogue.signals_of_rules[name].unit == "ratio" and any(
                _above(w.condition) and w.holds for w in wants
            ):
                events = world.events(name, "fault")
                if events is not None and events * course.fault < FEWEST_EVENTS * (1 + MARGIN):
                    return False
        except ZeroDivisionError:
            return False
        if self.news and self.stale(name, course):
            return False
        return all(_suits(want, course, at, self.catalogue) for want, at in zip(wants, work, strict=True))

    def courses(self, name: str) -> Iterator[Course]:
        """Courses of one signal that meet its conditions, the plainest first."""
        found = _courses(self.catalogue, name, tuple(self.wants[name]))
        return (course for course in found if not self.stale(name, course)) if self.news else found

    def stale(self, name: str, course: Course) -> bool:
        """Whether something that is to be true was true before the fault."""
        holding = (w.condition for w in self.wants[name] if w.holds and isinstance(w.condition, Level))
        return any(all(limits.met(c, course, course.healthy, 0.0, self.catalogue).values()) for c in holding)


def _courses(catalogue: Catalogue, name: str, wants: tuple[Want, ...]) -> Iterator[Course]:
    """Courses of one signal that meet its conditions, in all cases with the same conditions."""
    known = _known(catalogue.dictionary)
    if (name, wants) not in known:
        (known[name, wants],) = tee(_worked_out(catalogue, name, wants), 1)
    return copy(known[name, wants])


@lru_cache(maxsize=4)
def _known(dictionary: Dictionary) -> dict[tuple[str, tuple[Want, ...]], Iterator[Course]]:
    """Of each signal a `tee` that is never drawn from: its copies share what any of them has worked out. dictionary:
    that of the catalogue, which is itself equal to another one whose files were read at another time."""
    return {}


def _worked_out(catalogue: Catalogue, name: str, wants: tuple[Want, ...]) -> Iterator[Course]:
    signal = catalogue.signals_of_rules[name]
    slopes = [
        w.condition.per_second * (1 + MARGIN if w.holds else 1 - MARGIN)
        for w in wants
        if isinstance(w.condition, Slope)
    ]
    swings = any(w.at == "swing" and not w.holds for w in wants)
    work = 0.0 if any(w.at == "work" for w in wants) else 1.0
    missed = any(want.near and not want.holds for want in wants)
    low, top = _within(signal, wants, catalogue)
    healthy_values = [healthy for healthy in _healthy_values(catalogue, signal, wants) if max(low, 0) <= healthy <= top]
    for close, healthy in product((True, False) if missed else (False,), healthy_values):
        for fault in _faults(catalogue, signal, wants, healthy):
            edge = fault * (1 + MARGIN if fault > healthy else 1 - MARGIN)
            swing = _tidy(limits.swing_for(healthy, edge)) if swings else None
            course = Course(healthy, fault, slopes[-1] if slopes else 0.0, swing)
            fits = swing is None or swing >= 0
            decides = fits and all(want.decides(course, catalogue, close) for want in wants)
            if decides and all(_suits(want, course, work, catalogue) for want in wants):
                yield course


def _suits(want: Want, course: Course, work: float, catalogue: Catalogue) -> bool:
    """Whether a course is as required from the beginning of the fault to the end of a ramp."""
    ends = (course.fault, course.fault + course.ramp * RAMP_SECONDS) if course.ramp else (course.fault,)
    return all(want.suits(limits.met(want.condition, course, value, work, catalogue)) for value in ends)


def _healthy_values(catalogue: Catalogue, signal: Signal, wants: Sequence[Want]) -> Iterator[float]:
    plain = 0.5 if signal.unit == "ratio" else max(1.0, _tidy(signal.floor * 10))
    if signal.unit in ("s", "s/token"):
        plain = _tidy(signal.floor * 10)
    if signal.unit == "bool":
        plain = 1.0 if signal.harm == "down" else 0.0
    found = [limits.limit_of(w.condition, catalogue) for w in wants]
    given = [limit for limit in found if limit is not None]
    below = any(isinstance(w.condition, Level) and not w.condition.up for w in wants)
    for limit in given:
        yield from ((_tidy(limit * 1.5), _tidy(limit * 1.1)) if below else (_tidy(limit * 0.5), _tidy(limit * 0.94)))
    yield plain
    yield from (_tidy(plain * factor) for factor in (0.1, 10, 0.5, 2, 100))
    yield from (_tidy(healthy) for want in wants for healthy in _beside_crossing(want, signal, catalogue))
    yield from (_tidy(limit * (1 + side * MARGIN)) for limit in given for side in (-1, 1))
    yield 0.0


def _beside_crossing(want: Want, signal: Signal, catalogue: Catalogue) -> Iterator[float]:
    """Healthy values below and above that at which the two limits of a comparison meet: beyond it the factor
    decides."""
    if not isinstance(want.condition, Move | Odd):
        return
    (factor, up), by = limits.factor_of(want.condition), limits.least_move(want.condition, catalogue)
    if factor == 1.0 or not by:
        return
    crossing, (low, high) = by / abs(factor - 1.0), span(signal)
    least, most = (low, high / factor) if up else (max(low, 0.0) + by, high)
    yield from ((crossing + least) / 2, (crossing + min(most, 3 * crossing)) / 2, 0.9 * crossing, 1.1 * crossing)


def _within(signal: Signal, wants: Sequence[Want], catalogue: Catalogue) -> Span:
    """What the signal can take; a share of which nothing else is required is at most 1."""
    given = [limits.limit_of(want.condition, catalogue) or 0.0 for want in wants]
    low, top = span(signal)
    return low, min(top, 1.0) if signal.unit == "ratio" and max(given, default=0.0) < 1.0 else top


def _faults(catalogue: Catalogue, signal: Signal, wants: Sequence[Want], healthy: float) -> Iterator[float]:
    low, top = _within(signal, wants, catalogue)
    edges = [edge for want in wants for edge in _edges(want, healthy, catalogue)]
    found = [_tidy(edge * (1 + side * MARGIN)) for edge in edges for side in (1, -1)]
    found += [1.0] if 0.0 in edges else []
    found += [healthy, 0.0, *(_tidy(edge * far) for edge in edges for far in (10, 100))]
    found += [0.01] if any(isinstance(w.condition, Stall) for w in wants) else []
    found += [_tidy(edge * (1 + side * MARGIN / 4)) for edge in edges for side in (1, -1)]
    found += [(one + other) / 2 for one, other in pairwise(edges)]
    yield from (value for value in found if max(low, 0) <= value <= top)


def _edges(want: Want, healthy: float, catalogue: Catalogue) -> list[float]:
    """The limits of a condition in figures, first the one that is to decide."""
    found = limits.edges(want.condition, healthy, catalogue)
    return found[::-1] if want.at == "by" else found


def _above(condition: Fact) -> bool:
    return isinstance(condition, Level) and condition.up


def _tidy(value: float) -> float:
    """Three digits, so that numbers in annotations read the same on every machine."""
    return float(f"{value:.3g}")
