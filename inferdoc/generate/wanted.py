"""What a test case wants of the signals of a rule, and values that give it: just beyond a limit or just short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Condition
from inferdoc.catalogue.signal import Signal
from inferdoc.diagnose.conditions import kind_of
from inferdoc.generate.recorded import FEWEST_EVENTS
from inferdoc.generate.world import PHASES, Key, World

MARGIN = 0.04
"""A case lies this share beyond or short of the limit it is about: near enough that a changed limit shows."""
RAMP_SECONDS = 3600.0
"""How far a ramp may go while the case is watched."""
ORDERS_TRIED = 4
MOVES_TRIED = 30
"""Some limits on one signal exclude each other; the search then ends here."""


@dataclass(frozen=True)
class Want:
    """One simple condition and whether it is to hold in the faulty state."""

    condition: Condition
    holds: bool

    @property
    def signals(self) -> tuple[str, ...]:
        return tuple(name for name in (self.condition.signal, self.condition.stalls) if name)


@dataclass(frozen=True)
class Course:
    """A signal's value when calm, its value when the fault begins, and its growth per second from then on."""

    calm: float
    fault: float
    ramp: float = 0.0


def build(catalogue: Catalogue, signals: Sequence[str], wants: Sequence[Want]) -> World | None:
    """A world with these signals in which every want is met; None where no course of the raw series gives it."""
    by_signal: dict[str, list[Want]] = {}
    gone = {str(w.condition.signal) for w in wants if w.condition.present and not w.holds}
    for want in wants:
        if want.condition.present:
            continue
        by_signal.setdefault(str(want.condition.signal), []).append(want)
        if want.condition.stalls:
            by_signal.setdefault(want.condition.stalls, [])
    bare = World(catalogue)
    fewest = sorted(by_signal, key=lambda name: len(list(bare.levers(name))))
    free = _Attempt(catalogue, by_signal, news=False)
    if any(next(free.courses(name), None) is None for name, group in by_signal.items() if group):
        return None
    orders = (*islice(permutations(fewest), ORDERS_TRIED), tuple(by_signal))
    for news in (True, False):
        for order in orders:
            attempt = _Attempt(catalogue, by_signal, news)
            world = attempt.world([name for name in signals if name not in gone], order)
            if world is not None:
                return world
    return None


@dataclass(frozen=True)
class _Attempt:
    """One try to bring about all wants. news: what is to hold in the faulty state must not hold while all is calm."""

    catalogue: Catalogue
    wants: dict[str, list[Want]]
    news: bool

    def world(self, signals: Iterable[str], order: Sequence[str]) -> World | None:
        world = World(self.catalogue)
        for name in signals:
            world.add(name)
        return world if self.settled(world, order, frozenset(), [MOVES_TRIED]) else None

    def settled(self, world: World, order: Sequence[str], pinned: frozenset[Key], left: list[int]) -> bool:
        """Bring one signal after the other to where it is wanted, without touching what an earlier one moved; go back
        to the next course of the one before where that fails."""
        if not order:
            return all(self.met(world, name) for name in self.wants)
        name, rest = order[0], order[1:]
        if self.met(world, name) and self.settled(world, rest, pinned, left):
            return True
        lever = next((key for key in world.levers(name) if key not in pinned), None)
        if lever is None:
            return False
        before = replace(world.raw[lever])
        for course in self.courses(name):
            left[0] -= 1
            if left[0] < 0:
                break
            if all(world.move(name, phase, getattr(course, phase), lever) for phase in PHASES):
                world.raw[lever].ramp = course.ramp
                if self.met(world, name) and self.settled(world, rest, pinned | {lever}, left):
                    return True
            world.raw[lever] = replace(before)
        return False

    def met(self, world: World, name: str) -> bool:
        wants = self.wants[name]
        try:
            lever = next(world.levers(name))
            course = Course(world.value(name, "calm"), world.value(name, "fault"), world.raw[lever].ramp)
            work = [world.value(w.condition.stalls, "fault") if w.condition.stalls else 0.0 for w in wants]
            if self.catalogue.signals[name].unit == "ratio" and any(w.condition.above and w.holds for w in wants):
                events = world.events(name, "fault")
                if events is not None and events * course.fault < FEWEST_EVENTS * (1 + MARGIN):
                    return False
        except ZeroDivisionError:
            return False
        return all(self.true(w.condition, course, at) is w.holds for w, at in zip(wants, work, strict=True))

    def courses(self, name: str) -> Iterator[Course]:
        """Courses of one signal that meet what is wanted of it, the plainest first."""
        signal, wants = self.catalogue.signals[name], self.wants[name]
        slopes = [w.condition.slope * (1 + MARGIN if w.holds else 1 - MARGIN) for w in wants if w.condition.slope]
        for calm in _calms(self.catalogue, signal, wants):
            for fault in _faults(self.catalogue, signal, wants, calm):
                course = Course(calm, fault, slopes[-1] if slopes else 0.0)
                if all(self.true(w.condition, course, 1.0) is w.holds for w in wants):
                    yield course

    def true(self, condition: Condition, course: Course, work: float) -> bool | None:
        """Whether the rule's form of a condition holds, from the beginning of the fault to the end of a ramp; None
        where a ramp crosses its limit, or where it is no news."""
        level = kind_of(condition) in ("above", "below")
        if self.news and level and _holds(condition, course, course.calm, self.catalogue, work):
            return None
        ends = {
            _holds(condition, course, course.fault + course.ramp * at, self.catalogue, work)
            for at in (0.0, RAMP_SECONDS)
        }
        return ends.pop() if len(ends) == 1 else None


def _calms(catalogue: Catalogue, signal: Signal, wants: list[Want]) -> Iterator[float]:
    plain = 0.5 if signal.unit == "ratio" else max(1.0, _tidy(signal.floor * 10))
    if signal.unit in ("s", "s/token"):
        plain = _tidy(signal.floor * 10)
    if signal.unit == "bool":
        plain = 1.0 if signal.harm == "down" else 0.0
    limits = [_limit(w.condition, catalogue) for w in wants]
    given = [limit for limit in limits if limit is not None]
    for limit in given:
        below = any(w.condition.below is not None for w in wants)
        yield from ((_tidy(limit * 1.5), _tidy(limit * 1.1)) if below else (_tidy(limit * 0.5), _tidy(limit * 0.94)))
    yield plain
    yield from (_tidy(plain * factor) for factor in (0.1, 10, 0.5, 2, 100))
    yield from (_tidy(limit * (1 + side * MARGIN)) for limit in given for side in (-1, 1))
    yield 0.0


def _faults(catalogue: Catalogue, signal: Signal, wants: list[Want], calm: float) -> Iterator[float]:
    top = 1.0 if signal.unit in ("ratio", "bool") else float("inf")
    edges: list[float] = []
    for want in wants:
        edges += _edges(want.condition, calm, catalogue)
    found = [_tidy(edge * (1 + side * MARGIN)) for edge in edges for side in (1, -1)] + [calm, 0.0]
    found += [_tidy(edge * far) for edge in edges for far in (10, 100)]
    found += [0.01] if any(w.condition.stalls for w in wants) else []
    yield from (value for value in found if 0 <= value <= top)


def _edges(condition: Condition, calm: float, catalogue: Catalogue) -> list[float]:
    """Values at which a condition begins or ceases to hold."""
    floor = catalogue.signals[str(condition.signal)].floor
    by = max(condition.by or 0.0, floor)
    limit = _limit(condition, catalogue)
    if limit is not None:
        return [limit]
    if condition.rises is not None:
        return [condition.rises * calm, calm + by]
    if condition.falls is not None:
        return [condition.falls * calm, calm - by]
    if condition.differs is not None:
        return [condition.differs * calm, calm + by if condition.differs >= 1 else calm - by]
    return []


def _limit(condition: Condition, catalogue: Catalogue) -> float | None:
    for value in (condition.above, condition.below, condition.reaches):
        if value is not None:
            return catalogue.tiers.thresholds[value].value if isinstance(value, str) else value
    return None


def _holds(condition: Condition, course: Course, value: float, catalogue: Catalogue, work: float) -> bool:
    by = max(condition.by or 0.0, catalogue.signals[str(condition.signal)].floor)
    calm, limit = course.calm, _limit(condition, catalogue)
    kind = kind_of(condition)
    if kind == "above":
        return value > float(limit or 0.0)
    if kind == "below":
        return value < float(limit or 0.0)
    if kind == "rises":
        return value > float(condition.rises or 0) * calm and value > calm + by
    if kind == "falls":
        return value < float(condition.falls or 0) * calm and value < calm - by
    if kind == "differs":
        factor = float(condition.differs or 1)
        return (
            value > factor * calm and value > calm + by if factor >= 1 else value < factor * calm and value < calm - by
        )
    if kind == "slope":
        return course.ramp > abs(condition.slope or 0.0)
    if kind == "stalls":
        return value == 0 and work > 0
    return False


def _tidy(value: float) -> float:
    """Three digits, so that numbers in annotations read the same on every machine."""
    return float(f"{value:.3g}")
