"""The cases of an observation on one signal, alone: each of its limits just met and just missed, under every spelling
of its series, of just enough events and of too few."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from inferdoc.catalogue.conditions import Fact, Level, Move, Odd, Reaches, Slope
from inferdoc.catalogue.load import Catalogue
from inferdoc.generate.promql_words import Selector
from inferdoc.generate.recorded import recorded
from inferdoc.judging.conditions.render import ENGINE_SIGN, FEWEST_EVENTS, MIN_OBSERVATIONS
from inferdoc.times import length_of
from inferdoc_dev.rule_tests import limits
from inferdoc_dev.rule_tests.cases import Case
from inferdoc_dev.rule_tests.excluded_series import with_decoys
from inferdoc_dev.rule_tests.raw_series import World
from inferdoc_dev.rule_tests.signal_values import MARGIN, Want, build

LOWER = (0.1, 0.03, 0.01, 0.001)
"""By how much the counters of a world are slower where no course gives a case otherwise."""
REACHED_AFTER_MINUTES = 25
"""How far a ramp has gone when it is looked at (`fact_tests.py`): a trend needs its quarter of an hour."""


@dataclass(frozen=True)
class FactCase:
    """One case of an observation. condition: on the signal as the case reads it; metric: of the raw series that moves
    it; long: it needs hours of past."""

    case: Case
    condition: Fact
    metric: str
    long: bool = False

    @property
    def holds(self) -> bool:
        return self.case.fires


@dataclass(frozen=True)
class FactCases:
    """of: the cases; none: the limits for which no course of the raw series makes a case."""

    of: tuple[FactCase, ...]
    none: tuple[str, ...]


def fact_cases(
    condition: Fact, catalogue: Catalogue, read: Mapping[str, Sequence[Selector]], *, spellings: bool
) -> FactCases:
    """read: what the rules ask of raw series, as `decoys.selectors` has it; spellings: also under former names and by
    other readings, which concern the signal and not the observation."""
    maker = _FactMaker(condition, catalogue)
    found = [replace(each, case=with_decoys(each.case, read)) for each in maker.cases(spellings)]
    return FactCases(tuple(found), tuple(maker.none))


class _FactMaker:
    def __init__(self, condition: Fact, catalogue: Catalogue) -> None:
        self.condition, self.catalogue = condition, catalogue
        self.none: list[str] = []

    def cases(self, spellings: bool) -> Iterator[FactCase]:
        yield from self.of_limits()
        yield from self.of_tiers()
        plain = self.world(self.condition, self.catalogue)
        if plain is None:
            return
        yield from self.of_events(plain, "")
        yield from self.of_strangers(plain)
        if spellings:
            yield from self.of_spellings(plain, "")
            yield from self.of_readings(plain)

    def of_limits(self) -> Iterator[FactCase]:
        condition = self.condition
        if isinstance(condition, Reaches):
            yield from self.ahead(condition)
            return
        for at in limits.stated(condition, self.catalogue) or ("change",):
            if at not in ("swing", "work"):
                yield from self.made(f"meets-{at}", Want(condition, True, at, near=True))
            short = None if at == "change" else at
            yield from self.made(f"misses-{at}", Want(condition, False, short, near=True))

    def of_tiers(self) -> Iterator[FactCase]:
        """A limit that some hardware has of its own, on that hardware."""
        limit = self.condition.limit if isinstance(self.condition, Level) else None
        if not isinstance(limit, str):
            return
        for tier, figure in self.catalogue.tiers.own_limits(limit).items():
            own = msgspec.structs.replace(self.condition, limit=figure)
            for name, holds in (("meets", True), ("misses", False)):
                for each in self.made(f"{name}-limit-of-{tier}".lower(), Want(own, holds, "limit", near=True)):
                    yield replace(each, case=replace(each.case, tier=tier))

    def ahead(self, condition: Reaches) -> Iterator[FactCase]:
        """Ramps that meet the limit just in time, or just too late, or that have met it."""
        limit = limits.limit_of(condition, self.catalogue) or 0.0
        now, seconds = 0.95 * limit, length_of(condition.within)
        for name, by, at in (
            ("meets", 1 + MARGIN, now),
            ("misses-ahead", 1 - MARGIN, now),
            ("is-beyond", 1, 1.1 * limit),
        ):
            world = World(self.catalogue)
            world.add(condition.signal)
            lever = next(world.levers(condition.signal))
            ramp = max(limit - at, 0.0) * by / seconds
            start = at - ramp * 60 * REACHED_AFTER_MINUTES
            if all(world.move(condition.signal, phase, start, lever) for phase in ("healthy", "fault")):
                world.raw[lever].ramp = ramp
                yield self.case(name, world, name == "meets")
            else:
                self.none.append(name)

    def of_events(self, world: World, label: str) -> Iterator[FactCase]:
        """Of as many events as a mean, a quantile or a share needs to say something, and of one less; of a share that
        so few make up that it is chance."""
        signal = self.condition.signal
        if world.events(signal, "fault") is None:
            return
        for name, events, holds in (
            ("enough-events", MIN_OBSERVATIONS + 1, True),
            ("too-few-events", MIN_OBSERVATIONS - 1, False),
        ):
            few = self.large(world, (FEWEST_EVENTS + 1) / events)
            few = few and _of_so_many(few, signal, events)
            if few is not None:
                yield self.case(f"{name}{label}", few, holds)
        if limits.needs_events(self.condition, self.catalogue) and not label:
            yield from self.by_chance(world)

    def of_strangers(self, world: World) -> Iterator[FactCase]:
        """On a pod beside the engines, which exporters report as well: it has no labels but its own."""
        signals, rendering = self.catalogue.signals_of_rules, recorded(self.catalogue)
        exported = all(
            signals[name].level == "target" and not rendering.of_engines(name) for name in self.condition.signals
        )
        if not exported or has_peers(self.condition) or any(metric == "up" for metric, _ in world.raw):
            return
        found = [self.case("beside-engines", world, True)]
        found += self.made("misses-beside-engines", Want(self.condition, False))
        yield from (replace(each, case=replace(each.case, stranger=True)) for each in found)

    def large(self, world: World, share: float) -> World | None:
        """The world with a share so large that so few events are no chance; as it is, if that is not required."""
        signal = self.condition.signal
        if not limits.needs_events(self.condition, self.catalogue) or world.value(signal, "fault") >= share:
            return world
        return _moved(world, signal, share)

    def by_chance(self, world: World) -> Iterator[FactCase]:
        signal = self.condition.signal
        share = max(2 * float(limits.limit_of(self.condition, self.catalogue) or 0.0), 1e-3)
        for name, side in (("by-chance", -1), ("beyond-chance", 1)):
            events = FEWEST_EVENTS * (1 + side * MARGIN)
            total = max(events / share, 1.2 * MIN_OBSERVATIONS)
            few = _moved(world, signal, events / total)
            few = few and _of_so_many(few, signal, total)
            if few is None or few.value(signal, "fault") <= share / 2 * (1 + MARGIN / 4):
                self.none.append(name)
            else:
                yield self.case(name, few, events > FEWEST_EVENTS)

    def of_spellings(self, world: World, label: str) -> Iterator[FactCase]:
        """Under the names that the series had before."""
        former = recorded(self.catalogue).former
        places = max((len(former.get(metric, ())) for metric, _ in world.raw), default=0)
        if any(metric == ENGINE_SIGN for metric, _ in world.raw):
            return
        for place in range(places):
            raw = {}
            for (metric, match), each in world.raw.items():
                names = former.get(metric, ())
                raw[names[min(place, len(names) - 1)] if names else metric, match] = each
            plain = self.case(f"formerly-{place + 1}{label}", world, True)
            changed = World(world.catalogue, {key: replace(each) for key, each in raw.items()})
            lever = list(world.raw).index(next(world.levers(self.condition.signal)))
            yield replace(plain, case=replace(plain.case, world=changed), metric=list(raw)[lever][0])

    def of_readings(self, world: World) -> Iterator[FactCase]:
        """By every other reading of the signal, where the series of the first are not all there."""
        signals, name = self.catalogue.signals_of_rules, self.condition.signal
        for number, reading in enumerate(signals[name].readings[1:], 2):
            alone = f"{name} by reading {number}"
            other = copy.copy(self.catalogue)
            one = msgspec.structs.replace(signals[name], readings=(reading,))
            vars(other)["signals_of_rules"] = {**signals, alone: one}
            if recorded(other).signal(alone) is None:
                continue
            condition = msgspec.structs.replace(self.condition, signal=alone)
            changed = self.world(condition, other)
            if changed is None or set(world.raw) <= set(changed.raw):
                continue
            maker = _FactMaker(condition, other)
            yield maker.case(f"read-by-{number}", changed, True)
            yield from maker.of_events(changed, f"-read-by-{number}")
            yield from maker.of_spellings(changed, f"-read-by-{number}")

    def world(self, condition: Fact, catalogue: Catalogue) -> World | None:
        """One in which the observation holds by a little."""
        if isinstance(condition, Reaches):
            return None
        first = next(iter(limits.stated(condition, catalogue)), None)
        return _built(Want(condition, True, first, near=True), catalogue) or _built(Want(condition, True), catalogue)

    def made(self, name: str, want: Want) -> Iterator[FactCase]:
        world = _built(want, self.catalogue)
        if world is None:
            self.none.append(name)
        else:
            yield self.case(name, world, want.holds)

    def case(self, name: str, world: World, holds: bool) -> FactCase:
        metric = next(world.levers(self.condition.signal))[0]
        return FactCase(Case(name, world, holds), self.condition, metric, self.needs_hours(world))

    def needs_hours(self, world: World) -> bool:
        """Whether the last half hour does not show what is usual: it swung, it is beyond the figure of a healthy
        service, or the fault lasts for most of it."""
        condition = self.condition
        if not isinstance(condition, Move):
            return False
        swung = any(raw.swing is not None for raw in world.raw.values())
        figure = self.catalogue.tiers.stand_ins.get(condition.signal)
        beyond = figure is not None and world.value(condition.signal, "healthy") > figure.value
        return swung or beyond or condition.average


def is_slow(condition: Fact) -> bool:
    """Whether an observation needs a window of its own full before it holds."""
    return isinstance(condition, Slope | Reaches) or (isinstance(condition, Move | Odd) and condition.average)


def has_peers(condition: Fact) -> bool:
    return isinstance(condition, Odd)


def _built(want: Want, catalogue: Catalogue) -> World | None:
    """The other series of a sum may alone be more than it is to be: then all begin lower."""
    signals = list(dict.fromkeys(want.condition.signals))
    for low in (1.0, *LOWER):
        world = build(catalogue, signals, [want], low)
        if world is not None:
            return world
    return None


def _moved(world: World, signal: str, value: float) -> World | None:
    """The world with another value of a signal in the faulty state."""
    changed = World(world.catalogue, {key: replace(each) for key, each in world.raw.items()})
    return changed if changed.move(signal, "fault", value, next(changed.levers(signal))) else None


def _of_so_many(world: World, signal: str, events: float) -> World | None:
    """The world with all its counters slower or faster in the faulty state, so that the signal rests on so many events
    and reads the same; None where it does not."""
    raw = {key: replace(each) for key, each in world.raw.items()}
    changed, before = World(world.catalogue, raw), world.events(signal, "fault")
    if not before:
        return None
    for each in raw.values():
        each.fault *= events / before if each.kind == "counter" else 1.0
    same = abs(changed.value(signal, "fault") - world.value(signal, "fault")) <= 1e-6 * abs(
        world.value(signal, "fault")
    )
    return changed if same else None
