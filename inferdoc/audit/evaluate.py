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


def judge(watched: Watched, standing: Standing) -> Verdicts:
    """Every state on every pool."""
    found = Verdicts()
    for pool in watched.pools:
        units = watched.units(pool)
        cache: dict[tuple[str, Unit | None], ObservedUnit] = {}
        for state in standing.states.values():
            if not state.roles or pool.role in state.roles:
                _judge_pool(watched, standing, state, pool, units, found, cache)
        if any(reading.held is not None for reading in cache.values()):
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


def _judge_pool(
    watched: Watched,
    standing: Standing,
    state: State,
    pool: Pool,
    units: Sequence[Unit],
    found: Verdicts,
    cache: dict[tuple[str, Unit | None], ObservedUnit],
) -> None:
    def read(name: str, unit: Unit | None) -> ObservedUnit:
        if (name, unit) not in cache:
            group = list(units) if unit is None else [unit]
            at = pool if unit is None else None
            cache[name, unit] = observe(name, standing.observations[name], watched, group, at)
        return cache[name, unit]

    places: list[Unit | None] = [None] if state.scope == "pool" else list(units)
    answers = {place: _answer(state, {name: read(name, place) for name in state.observations}) for place in places}
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


def _answer(state: State, readings: Mapping[str, ObservedUnit]) -> Answer:
    """All of `needs`, one of `any_of`, none of `unless`; undetermined conditions decide only if no other does."""
    needs = [readings[name] for name in state.needs]
    alternatives = [readings[name] for name in state.any_of]
    against = [readings[name] for name in state.unless]
    if any(r.holds is False for r in needs) or any(r.holds for r in against):
        return Answer(False, ())
    if alternatives and all(r.holds is False for r in alternatives):
        return Answer(False, ())
    chosen = next((r for r in alternatives if r.holds), None)
    unsure = [r for r in (*needs, *against) if r.holds is None]
    if alternatives and chosen is None:
        unsure += [r for r in alternatives if r.holds is None]
    if unsure:
        return Answer(None, tuple(unsure))
    sooner = [readings[name] for name in state.sooner if readings[name].holds]
    return Answer(True, (*needs, *((chosen,) if chosen else ()), *sooner))


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
