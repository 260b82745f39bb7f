"""Which states stand on which pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.audit.observe import ObservedUnit, observe
from inferdoc.audit.window_data import Watched
from inferdoc.catalogue.standing import Standing, State
from inferdoc.fleet.members import Pool
from inferdoc.judging.focus import Focus
from inferdoc.judging.view import Unit


@dataclass(frozen=True)
class Standstill:
    """An issue of a pool. units: that show it, or all of the pool; readings: of the unit that shows it most
    clearly."""

    state: State
    pool: Pool
    units: tuple[Unit, ...]
    readings: tuple[ObservedUnit, ...]


@dataclass(frozen=True)
class Doubt:
    """A state that could not be judged on a pool, with the readings that are in doubt. short: all that can be seen says
    yes, but the window is shorter than the issue requires."""

    state: State
    pool: Pool
    readings: tuple[ObservedUnit, ...]
    short: bool = False


@dataclass
class Verdicts:
    """standing and doubts as found; judged: pools on which at least one observation over time could be made."""

    standing: list[Standstill] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    inapplicable: dict[str, set[Pool]] = field(default_factory=dict)
    judged: set[Pool] = field(default_factory=set)


@dataclass(frozen=True)
class Answer:
    """One state on one unit or pool: holds, or None with what is in doubt."""

    holds: bool | None
    readings: tuple[ObservedUnit, ...]


@dataclass
class _PoolReader:
    """Makes each observation on a pool, or on one of its units, once. units: of the pool."""

    watched: Watched
    standing: Standing
    pool: Pool
    units: Sequence[Unit]
    _known: dict[tuple[str, Unit | None], ObservedUnit] = field(default_factory=dict)

    def read(self, name: str, places: Sequence[Unit | None]) -> list[ObservedUnit]:
        """An observation on some units, or on all units of the pool together (None)."""
        one, unread = self.standing.observations[name], [place for place in places if (name, place) not in self._known]
        units = [[unit] for unit in unread if unit is not None]
        found = observe(name, one, self.watched, units) if units else []
        if unread and not units:
            found = observe(name, one, self.watched, [self.units], self.pool)
        self._known |= zip(((name, place) for place in unread), found, strict=True)
        return [self._known[name, place] for place in places]

    @property
    def states(self) -> list[State]:
        """The states that a pool of this role can have."""
        return [state for state in self.standing.states.values() if not state.roles or self.pool.role in state.roles]

    def places(self, state: State) -> list[Unit | None]:
        """Where a state is looked for: on each unit, or once (None) on the pool."""
        return [None] if state.scope == "pool" else list(self.units)

    @property
    def is_judged(self) -> bool:
        """Whether an observation over time can be made: one that was needed so far, or any other."""
        if any(reading.held is not None for reading in self._known.values()):
            return True
        return any(
            reading.held is not None
            for state in self.states
            for name in state.observations
            for reading in self.read(name, self.places(state))
        )


def judge(watched: Watched, standing: Standing) -> Verdicts:
    """Every state on every pool."""
    found = Verdicts()
    for pool in watched.pools:
        reader = _PoolReader(watched, standing, pool, watched.units(pool))
        for state in reader.states:
            _judge_pool(reader, state, found)
        if reader.is_judged:
            found.judged.add(pool)
    standing_ids: dict[Pool, set[str]] = {}
    for entry in found.standing:
        standing_ids.setdefault(entry.pool, set()).add(entry.state.id)
    found.standing = [s for s in found.standing if not standing_ids[s.pool].intersection(s.state.covered_by)]
    for doubt in found.doubts:
        if doubt.short:
            standing_ids.setdefault(doubt.pool, set()).add(doubt.state.id)
    found.doubts = [d for d in found.doubts if not d.short or not standing_ids[d.pool].intersection(d.state.covered_by)]
    return found


def about(focus: Focus, found: Verdicts) -> Verdicts:
    """The verdicts on the pods in focus: an issue that other pods share keeps its whole scope."""
    if focus.members is None:
        return found
    return Verdicts(
        [s for s in found.standing if any(focus.holds(unit.member) for unit in s.units)],
        [doubt for doubt in found.doubts if focus.has_pool(doubt.pool)],
        {name: {pool for pool in pools if focus.has_pool(pool)} for name, pools in found.inapplicable.items()},
        {pool for pool in found.judged if focus.has_pool(pool)},
    )


def _judge_pool(reader: _PoolReader, state: State, found: Verdicts) -> None:
    watched, pool, units = reader.watched, reader.pool, reader.units
    answers = _answers(state, reader)
    holding = {place: answer for place, answer in answers.items() if answer.holds}
    if holding:
        shown = tuple(units) if state.scope == "pool" else tuple(place for place in holding if place is not None)
        clearest = max(holding.values(), key=_clarity)
        if _long_enough(watched, state, {r.name: r for r in clearest.readings}):
            found.standing.append(Standstill(state, pool, shown, clearest.readings))
        else:
            found.doubts.append(Doubt(state, pool, clearest.readings, short=True))
        return
    open_ones = [answer for answer in answers.values() if answer.holds is None]
    if not open_ones:
        return
    doubtful = tuple({r.name: r for answer in open_ones for r in answer.readings}.values())
    if any(reading.inapplicable or (state.feature and reading.missing) for reading in doubtful):
        found.inapplicable.setdefault(state.id, set()).add(pool)
    else:
        found.doubts.append(Doubt(state, pool, doubtful))


def _answers(state: State, reader: _PoolReader) -> dict[Unit | None, Answer]:
    """All of `needs`, one of `any_of`, none of `unless`, at each place; undetermined conditions decide only if no
    other does. A condition that rules the issue out ends the reading of its place."""
    places = open_places = reader.places(state)
    needs: dict[Unit | None, list[ObservedUnit]] = {place: [] for place in places}
    unsure: dict[Unit | None, list[ObservedUnit]] = {place: [] for place in places}
    for name in (*state.needs, *state.unless):
        readings = dict(zip(open_places, reader.read(name, open_places), strict=True))
        excludes = name not in state.needs
        open_places = [place for place, reading in readings.items() if reading.holds is not excludes]
        for place in open_places:
            if readings[place].holds is None:
                unsure[place].append(readings[place])
            if not excludes:
                needs[place].append(readings[place])
    alternatives = {place: list[ObservedUnit]() for place in open_places}
    for name in state.any_of:
        for place, reading in zip(open_places, reader.read(name, open_places), strict=True):
            alternatives[place].append(reading)
    found = dict.fromkeys(places, Answer(False, ()))
    for place in open_places:
        if state.any_of and all(reading.holds is False for reading in alternatives[place]):
            continue
        chosen = [reading for reading in alternatives[place] if reading.holds][:1]
        doubts = unsure[place] + ([] if chosen else [r for r in alternatives[place] if r.holds is None])
        if doubts:
            found[place] = Answer(None, tuple(doubts))
            continue
        sooner = [reading for name in state.sooner for reading in reader.read(name, [place]) if reading.holds]
        found[place] = Answer(True, (*needs[place], *chosen, *sooner))
    return found


def _clarity(answer: Answer) -> tuple[float, float]:
    """How clearly the first observation over time shows: the share of the window, then the distance to the limit."""
    for reading in answer.readings:
        if reading.value is not None and reading.limit:
            return reading.held or 0.0, abs(reading.value / reading.limit - 1.0)
    return 0.0, 0.0


def _long_enough(watched: Watched, state: State, readings: Mapping[str, ObservedUnit]) -> bool:
    """Whether the window is as long as the issue requires, except for one step at either end."""
    if watched.seconds + 2 * watched.view.step_seconds >= state.horizon_seconds:
        return True
    return bool(state.sooner) and all(name in readings for name in state.sooner)
