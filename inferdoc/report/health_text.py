"""The monitoring table for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from inferdoc.escaping import lines as escaped
from inferdoc.escaping import page
from inferdoc.report.columns import TABLES, Columns, marked
from inferdoc.report.health import HURTING, Line, State
from inferdoc.report.natural import natural
from inferdoc.report.signals import Row, limits
from inferdoc.report.wrapping import width, wrap
from inferdoc.words import figure

NAMED = 3
"""Pods beyond a limit, and sights, that are named in the table."""
WIDEST, ROOMY = 118, 100
"""The widest page, and one with room for the titles beside the signals: in a narrower one they stand above them."""
NOTES = 6
"""Where what is said of a row begins in a narrow page."""
DIGITS = "-0123456789.,"
TO, CLOSE = "..", 18
"""Between figures, and how many characters of them stand without spaces, where no line can be broken."""
HEADINGS = ("tier, role", "pods", f"low{TO}median{TO}high", "band")
MARKS: dict[State, str] = {"good": " ", "note": "~", "warn": "!", "bad": "!"}


def as_text(lines: Sequence[Line]) -> str:
    """A table for people, as wide as the terminal; ! stands where a pod is beyond a limit, ~ where it is outside its
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
    """The cells of a row; title: None where it stands above them."""
    mark = MARKS[line.state]
    head = (marked(mark, line.signal),) if title is None else (marked(mark, title), line.signal)
    if not line.values:
        return *head, f"not visible: {line.enable}"
    where = ", ".join(word for word in (line.tier, "" if line.role == "both" else line.role) if word)
    spread = _spread(line)
    return *head, where or "router", str(len(line.values)), spread, _band(line, spread)


def _band(line: Line, beside: str) -> str:
    """The band in words; a unit that the spread beside it ends with is not said again."""
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
    """What stands below a row that hurts. begin: the column where it begins."""

    begin: int

    def seen(self, line: Line) -> Iterator[str]:
        """Which pods are beyond a limit, and what is seen on them."""
        named = [f"{row.pod} {figure(row.value, row.unit)}" for row in _worst(line)]
        more = len(named) - NAMED
        if named and len(line.values) > 1:
            yield from self._note("", f"{', '.join(named[:NAMED])}{f' and {more} more' if more > 0 else ''}")
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
    return escaped(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
