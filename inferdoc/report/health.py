"""The monitoring table: each thing to watch, per tier and role, whether it is well, and what is not visible.

A row is bad where an observation says so (late against the past, against peers, or absolutely), where an objective is
broken, or where a value lies beyond the limit of its band in the harmful direction. Outside the target otherwise, or
beyond a limit that means nothing without harm (full compute with a steady time to first token), is a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Band, Direction, HealthRow
from inferdoc.config import Config
from inferdoc.errors import InferdocError
from inferdoc.escaping import page
from inferdoc.judging.conditions import evaluate
from inferdoc.judging.context import Context
from inferdoc.judging.judge import ongoing
from inferdoc.judging.request import options_of
from inferdoc.judging.session import read_session
from inferdoc.judging.visibility import Visibility
from inferdoc.report.printable import indented_json
from inferdoc.report.signals import LOOK_BACK, Row, limits, natural, readings
from inferdoc.report.wrapping import TABLES, Columns, marked, width, wrap
from inferdoc.source.base import Source
from inferdoc.times import Moment
from inferdoc.words import figure, some

NAMED = 3
"""Pods beyond a limit, and sights, that are named in the table."""
WIDEST, ROOMY = 118, 100
"""The widest page, and one with room for the titles beside the signals: in a narrower one they stand above them."""
NOTES = 6
"""Column of the notes of a row on a narrow terminal."""
DIGITS = "-0123456789.,"
TO, CLOSE = "..", 18
"""Between figures, and how many characters of them stand without spaces, where no line can be broken."""
HEADINGS = ("tier, role", "pods", f"low{TO}median{TO}high", "band")
MARKS: dict[State, str] = {"good": " ", "note": "~", "warn": "!", "bad": "!"}


def as_text(lines: Sequence[Line]) -> str:
    """A table for people, as wide as the terminal; ! marks a pod beyond a limit, ~ one outside its
    target without harm."""
    stacked = width(WIDEST, without=TABLES) < ROOMY
    titles = [
        line.row.title if line.row.title != above else "" for above, line in zip(_above(lines), lines, strict=True)
    ]
    table = [_cells(line, None if stacked else title) for line, title in zip(lines, titles, strict=True)]
    headings = (marked(" ", "signal"), *HEADINGS) if stacked else ("", "signal", *HEADINGS)
    columns = Columns([headings, *table], WIDEST, right=(len(headings) - 3,))
    parts, noted = list(columns.lines(headings)), set[str]()
    notes = Notes(NOTES if stacked else columns.begin(1))
    for line, title, cells in zip(lines, titles, table, strict=True):
        parts += [title] if stacked and title else []
        parts += columns.lines(cells)
        if line.state in HURTING:
            parts += notes.seen(line)
            parts += [] if line.row.title in noted else notes.meant(line)
            noted.add(line.row.title)
    return page(parts)


def _above(lines: Sequence[Line]) -> Iterator[str]:
    """The title above each line."""
    yield from ("", *(line.row.title for line in lines[:-1])) if lines else ()


def _cells(line: Line, title: str | None) -> tuple[str, ...]:
    """The cells of a row; title: None if it is above them."""
    mark = MARKS[line.state]
    head = (marked(mark, line.signal),) if title is None else (marked(mark, title), line.signal)
    if not line.values:
        return *head, f"not visible: {line.enable}"
    where = ", ".join(word for word in (line.tier, "" if line.role == "both" else line.role) if word)
    spread = _spread(line)
    return *head, where or "router", str(len(line.values)), spread, _band(line, spread)


def _band(line: Line, beside: str) -> str:
    """The target range in words; the unit is omitted if the value beside it has it."""
    words = {"slo": "no SLO", "trend": "trend"}
    band = limits(line.values[0].band, line.unit)
    unit = beside.rsplit(" ")[-1]
    return (band.removesuffix(f" {unit}") if unit.isalpha() else band) or words.get(line.row.judge, "")


def _spread(line: Line) -> str:
    """Lowest, median and highest: one figure where they read the same, the unit once where it is that of all."""
    values = [row.value for row in line.values]
    shown = [figure(float(each), line.unit) for each in (values[0], np.median(values), values[-1])]
    if len(set(shown)) == 1:
        return shown[0]
    units = {each.lstrip(DIGITS) for each in shown}
    if len(units) > 1:
        return f" {TO} ".join(shown)
    whole = [*(each.removesuffix(*units) for each in shown[:-1]), shown[-1]]
    close = TO.join(whole)
    return close if len(close) <= CLOSE else f" {TO} ".join(whole)


@dataclass(frozen=True)
class Notes:
    """Notes below a row with a problem. begin: its column."""

    begin: int

    def seen(self, line: Line) -> Iterator[str]:
        """Which pods are beyond a limit, and what is seen on them."""
        named = [f"{row.pod} {figure(row.value, row.unit)}" for row in _worst(line)]
        if named and len(line.values) > 1:
            yield from self._note("", some(named, NAMED))
        sights = sorted(line.sights, key=lambda sight: natural(sight.pod))
        for sight in sights[:NAMED]:
            yield from self._note("", f"{sight.pod}: {sight.text}")
        if len(sights) > NAMED:
            yield from self._note("", f"and {len(sights) - NAMED} more")

    def meant(self, line: Line) -> Iterator[str]:
        """What the row means, and what to do."""
        yield from self._note("means: ", line.row.says)
        yield from self._note("do:    ", line.row.do)

    def _note(self, word: str, text: str) -> list[str]:
        return wrap(text, " " * self.begin + word, WIDEST, without=TABLES)


def _worst(line: Line) -> list[Row]:
    middle = float(np.median([row.value for row in line.values])) if line.values else 0.0
    return sorted(line.outside, key=lambda row: (-abs(row.value - middle), natural(row.pod)))


def as_json(lines: Sequence[Line]) -> str:
    """One object per pod and signal, and one without a value per signal that nothing supplies; one per pod and
    observation that makes a row bad."""
    found: list[dict[str, object]] = []
    for line in lines:
        row = line.row
        common = {
            "row": row.title,
            "signal": line.signal,
            "unit": line.unit,
            "judge": row.judge,
            "says": row.says,
            "do": row.do,
        }
        found += [
            {
                **common,
                "pod": each.pod,
                "tier": each.tier,
                "role": each.role,
                "value": each.value,
                "state": state,
                "outside": row.judge != "trend" and each.outside,
                "low": each.band.low if each.band else None,
                "high": each.band.high if each.band else None,
            }
            for each, state in sorted(zip(line.values, line.states, strict=True), key=lambda one: natural(one[0].pod))
        ]
        if not line.values:
            empty = {"pod": None, "value": None, "state": "unknown", "outside": False, "enable": line.enable}
            found.append({**common, **empty})
        for sight in sorted(line.sights, key=lambda one: natural(one.pod)):
            seen = {"pod": sight.pod, "value": None, "state": "bad", "outside": True, "shows": sight.text}
            found.append({**common, **seen, "enable": line.enable or None})
    return indented_json(found)


State = Literal["good", "note", "warn", "bad"]
HURTING: tuple[State, ...] = ("warn", "bad")
STATES: tuple[State, ...] = ("good", "note", "warn", "bad")
HARMFUL: dict[Direction, tuple[bool, bool]] = {
    "up": (True, False),
    "down": (False, True),
    "either": (True, True),
    "info": (True, False),
}
"""Whether a higher and a lower value have impact; for neutral signals, too high."""


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
            yield Line(row, name, "", "", signal.unit, (), (), sights, seen.visibility.absence(name).remedy)
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
    """A value against a band: beyond a limit in a harmful direction, else outside the target or not."""
    found: State = "good"
    if (band.low is not None and value < band.low) or (band.high is not None and value > band.high):
        found = "note"
    limits: tuple[tuple[State, float | None], ...] = (("warn", band.warn), ("bad", band.bad))
    for state, limit in limits:
        if limit is None:
            continue
        upwards = _acts_upwards(limit, band, harm)
        beyond = value > limit if upwards else value < limit
        if beyond and HARMFUL[harm][0 if upwards else 1]:
            found = state
    return found


def _acts_upwards(limit: float, band: Band, harm: Direction) -> bool:
    if band.high is not None and limit >= band.high:
        return True
    if band.low is not None and limit <= band.low:
        return False
    return harm != "down"


@dataclass(frozen=True)
class Shown:
    """pod, namespace: None for all; signals: empty for all."""

    pod: str | None = None
    namespace: str | None = None
    signals: tuple[str, ...] = ()

    def rows(self, rows: Sequence[Row], catalogue: Catalogue) -> list[Row]:
        """The selected rows. Raises InferdocError for an unknown name."""
        self._check(rows, catalogue)
        return [row for row in rows if self._keeps(row) and row.signal in (self.signals or (row.signal,))]

    def lines(self, lines: Sequence[Line], catalogue: Catalogue) -> list[Line]:
        """The same of the monitoring table; invisible signals are omitted if a pod or namespace is selected."""
        self._check([row for line in lines for row in line.values], catalogue)
        kept = []
        for line in lines:
            chosen = [(r, s) for r, s in zip(line.values, line.states, strict=True) if self._keeps(r)]
            sights = tuple(sight for sight in line.sights if self._is_of(sight.pod, sight.namespace))
            selections = not self.signals or line.signal in self.signals
            if selections and (chosen or sights or not (line.values or self.pod or self.namespace)):
                values, states = tuple(row for row, _ in chosen), tuple(state for _, state in chosen)
                kept.append(replace(line, values=values, states=states, sights=sights))
        return kept

    def _keeps(self, row: Row) -> bool:
        return self._is_of(row.pod.split(" ")[0], row.namespace)

    def _is_of(self, pod: str, namespace: str) -> bool:
        return self.pod in (None, pod) and self.namespace in (None, namespace)

    def _check(self, rows: Iterable[Row], catalogue: Catalogue) -> None:
        for name in self.signals:
            if name not in catalogue.signals:
                raise InferdocError(f"--signal {name}: no such signal{nearest(name, catalogue.signals)}")
        there = list(rows)
        selections = (
            ("--pod", self.pod, {row.pod.split(" ")[0] for row in there}),
            ("--namespace", self.namespace, {row.namespace for row in there}),
        )
        for option, value, known in selections:
            if value is not None and value not in known:
                listed = ", ".join(sorted(filter(None, known), key=natural)[:5]) or "none that have one"
                near = nearest(value, known)
                raise InferdocError(f"{option} {value}: no such {option.removeprefix('--')}{near}; there are {listed}")
