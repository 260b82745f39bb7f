"""The monitoring table for people and for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from inferdoc.escaping import lines as escaped
from inferdoc.escaping import page
from inferdoc.judging.words import figure
from inferdoc.report.health import HURTING, Line, State
from inferdoc.report.natural import natural
from inferdoc.report.signals import Row, limits

NAMED = 3
"""Pods beyond a limit, and sights, that are named in the table."""
WIDTH = 118
MARKS: dict[State, str] = {"good": " ", "note": "~", "warn": "!", "bad": "!"}


def as_text(lines: Sequence[Line]) -> str:
    """A table for people; ! stands where a pod is beyond a limit, ~ where it is outside its target without harm."""
    parts = [f"  {'':<21} {'signal':<24} {'tier, role':<20} {'pods':>4}  {'lowest .. median .. highest':<34} band"]
    title, told = "", set[str]()
    for line in lines:
        head, title = ("" if line.row.title == title else line.row.title), line.row.title
        if not line.values:
            text = f"not visible: {line.enable}"
            first = f"{MARKS[line.state]} {head:<21} {line.signal:<24} "
            parts += textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * 49)
        else:
            where = ", ".join(word for word in (line.tier, "" if line.role == "both" else line.role) if word)
            numbers = f"{len(line.values):>4}  {_spread(line):<34} {_band(line)}"
            parts.append(f"{MARKS[line.state]} {head:<21} {line.signal:<24} {where or 'router':<20} {numbers}")
        if line.state in HURTING:
            parts += _seen(line)
            parts += [] if line.row.title in told else _meant(line)
            told.add(line.row.title)
    return page(part.rstrip() for part in parts)


def _band(line: Line) -> str:
    words = {"slo": "no SLO configured", "trend": "trend"}
    return limits(line.values[0].band, line.unit) or words.get(line.row.judge, "")


def _spread(line: Line) -> str:
    values = [row.value for row in line.values]
    if len(values) == 1:
        return figure(values[0], line.unit)
    return " .. ".join(figure(float(v), line.unit) for v in (values[0], np.median(values), values[-1]))


def _seen(line: Line) -> Iterator[str]:
    """Which pods are beyond a limit, and what is seen on them."""
    named = [f"{row.pod} {figure(row.value, row.unit)}" for row in _worst(line)]
    more = len(named) - NAMED
    if named and len(line.values) > 1:
        yield f"{'':<24}{', '.join(named[:NAMED])}{f' and {more} more' if more > 0 else ''}"
    sights = sorted(line.sights, key=lambda sight: natural(sight.pod))
    for sight in sights[:NAMED]:
        yield from _wrapped(f"{sight.pod}: {sight.text}")
    if len(sights) > NAMED:
        yield f"{'':<24}and {len(sights) - NAMED} more"


def _meant(line: Line) -> Iterator[str]:
    yield from _wrapped(f"means: {line.row.says}")
    yield from _wrapped(f"do:    {line.row.do}")


def _worst(line: Line) -> list[Row]:
    middle = float(np.median([row.value for row in line.values])) if line.values else 0.0
    return sorted(line.outside, key=lambda row: (-abs(row.value - middle), natural(row.pod)))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * 24, subsequent_indent=" " * 31)


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
