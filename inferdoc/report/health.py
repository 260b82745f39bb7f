"""The monitoring table: each thing to watch, per tier and role, whether it is well, and what is not visible.

A row is bad where an observation says so (late against the past, against peers, or absolutely), where an objective is
broken, or where a value lies beyond the limit of its band in the direction that hurts. Outside the target otherwise, or
beyond a limit that means nothing without harm (full compute with a steady time to first token), is a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Band, Direction, HealthRow
from inferdoc.config import Config
from inferdoc.judging.conditions import evaluate
from inferdoc.judging.context import Context
from inferdoc.judging.judge import ongoing
from inferdoc.judging.request import options_of
from inferdoc.judging.session import read_session
from inferdoc.judging.visibility import Visibility
from inferdoc.report.signals import LOOK_BACK, Row, readings
from inferdoc.source.base import Source
from inferdoc.times import Moment

State = Literal["good", "note", "warn", "bad"]
HURTING: tuple[State, ...] = ("warn", "bad")
STATES: tuple[State, ...] = ("good", "note", "warn", "bad")
HURTS: dict[Direction, tuple[bool, bool]] = {
    "up": (True, False),
    "down": (False, True),
    "either": (True, True),
    "info": (True, False),
}
"""Whether more and less hurt; of what is neither good nor bad in itself, too much of it."""


@dataclass(frozen=True)
class Sight:
    """An observation that holds now: the pod and its namespace, and what is seen in words."""

    pod: str
    namespace: str
    text: str


@dataclass(frozen=True)
class Line:
    """One signal of a row on the like pods of a tier and role. values: settled, sorted by how bad; states: of each;
    sights: what its observations show, on the first line of a row; enable: how to switch on what nothing supplies (then
    there are no values)."""

    row: HealthRow
    signal: str
    tier: str
    role: str
    unit: str
    values: tuple[Row, ...]
    states: tuple[State, ...] = ()
    sights: tuple[Sight, ...] = ()
    enable: str = ""

    @property
    def outside(self) -> list[Row]:
        """The pods that are beyond a limit."""
        return [row for row, state in zip(self.values, self.states, strict=True) if state in HURTING]

    @property
    def state(self) -> State:
        """The worst of its pods."""
        return max((*self.states, "bad" if self.sights else "good"), key=STATES.index)


@dataclass
class Seen:
    """What the observations of all rows show at the end of a window: observation -> sights; and what is not seen."""

    visibility: Visibility
    sights: Mapping[str, Sequence[Sight]] = field(default_factory=dict)

    @classmethod
    def at(cls, source: Source, config: Config, catalogue: Catalogue, until: Moment) -> Seen:
        """Look for all of them."""
        session = read_session(source, catalogue, options_of(source, config, catalogue, {}), LOOK_BACK, until)
        names = dict.fromkeys(name for row in catalogue.health for name in (*row.shows, *row.only_with))
        return cls(session.visibility, {name: list(_sights(name, catalogue, session.context)) for name in names})

    def any_on(self, names: Sequence[str], pod: str) -> bool:
        """Whether one of these observations holds on a pod."""
        return any(sight.pod == pod for name in names for sight in self.sights.get(name, ()))


def _sights(name: str, catalogue: Catalogue, context: Context) -> Iterator[Sight]:
    condition = catalogue.dictionary.condition(name)
    for unit in context.view.units:
        outcome = evaluate(condition, context, unit)
        if outcome.holds and (outcome.last is None or ongoing(outcome.last, context)):
            yield Sight(unit.member.pod, unit.member.pool.namespace, outcome.text)


def table(source: Source, config: Config, catalogue: Catalogue, until: Moment) -> list[Line]:
    """Every row of the monitoring table. Raises SourceError where the source holds no engine."""
    names = list(dict.fromkeys(name for row in catalogue.health for name in row.signals))
    found: dict[str, list[Row]] = {}
    for reading in readings(source, config, catalogue, until, names, settled=True):
        found.setdefault(reading.signal, []).append(reading)
    seen = Seen.at(source, config, catalogue, until)
    return [line for row in catalogue.health for line in _lines(row, found, catalogue, seen)]


def _lines(row: HealthRow, found: dict[str, list[Row]], catalogue: Catalogue, seen: Seen) -> Iterator[Line]:
    shown = [sight for name in row.shows for sight in seen.sights.get(name, ())]
    sights = tuple(dict.fromkeys(shown))
    for name in [name for name in row.signals if name in found] or row.signals[:1]:
        signal = catalogue.signals[name]
        groups: dict[tuple[str, str], list[Row]] = {}
        for reading in found.get(name, []):
            groups.setdefault((reading.tier, reading.role), []).append(reading)
        for (tier, role), members in sorted(groups.items()):
            values = tuple(sorted(members, key=lambda m: m.value))
            states = tuple(_state(row, reading, signal.harm, seen) for reading in values)
            yield Line(row, name, tier, role, signal.unit, values, states, sights)
            sights = ()
        if not groups:
            yield Line(row, name, "", "", signal.unit, (), (), sights, seen.visibility.absence(name).cure)
            sights = ()


def _state(row: HealthRow, reading: Row, harm: Direction, seen: Seen) -> State:
    if row.judge == "trend" or reading.band is None:
        return "good"
    if row.judge == "slo":
        return "bad" if reading.outside else "good"
    state = graded(reading.value, reading.band, harm)
    if state in HURTING and row.only_with and not seen.any_on(row.only_with, reading.pod.split(" ")[0]):
        return "note"
    return state


def graded(value: float, band: Band, harm: Direction) -> State:
    """A value against a band: beyond a limit in a direction that hurts, else outside the target or not."""
    found: State = "good"
    if (band.low is not None and value < band.low) or (band.high is not None and value > band.high):
        found = "note"
    limits: tuple[tuple[State, float | None], ...] = (("warn", band.warn), ("bad", band.bad))
    for state, limit in limits:
        if limit is None:
            continue
        upwards = _acts_upwards(limit, band, harm)
        beyond = value > limit if upwards else value < limit
        if beyond and HURTS[harm][0 if upwards else 1]:
            found = state
    return found


def _acts_upwards(limit: float, band: Band, harm: Direction) -> bool:
    if band.high is not None and limit >= band.high:
        return True
    if band.low is not None and limit <= band.low:
        return False
    return harm != "down"
