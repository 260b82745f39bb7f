"""The monitoring table: each thing to watch, per tier and role, against its target band, and what is not visible."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import HealthRow
from inferdoc.config import Config
from inferdoc.escaping import lines as escaped
from inferdoc.escaping import page
from inferdoc.judging.words import figure
from inferdoc.report.signals import Row, limits, readings
from inferdoc.source.base import Source
from inferdoc.times import Moment

NAMED = 2
"""Pods outside a band that are named in the table."""
WIDTH = 118


@dataclass(frozen=True)
class Line:
    """One signal of a row on the like pods of a tier and role. values: newest, sorted by how bad; enable: how to switch
    on what nothing supplies (then there are no values)."""

    row: HealthRow
    signal: str
    tier: str
    role: str
    unit: str
    values: tuple[Row, ...]
    enable: str = ""

    @property
    def outside(self) -> list[Row]:
        """The pods outside their band; a row that has no fixed target has none."""
        return [] if self.row.judge == "trend" else [row for row in self.values if row.outside]


def table(source: Source, config: Config, catalogue: Catalogue, until: Moment) -> list[Line]:
    """Every row of the monitoring table. Raises SourceError where the source holds no engine."""
    names = list(dict.fromkeys(name for row in catalogue.health for name in row.signals))
    found: dict[str, list[Row]] = {}
    for reading in readings(source, config, catalogue, until, names):
        found.setdefault(reading.signal, []).append(reading)
    return [line for row in catalogue.health for line in _lines(row, found, catalogue)]


def _lines(row: HealthRow, found: dict[str, list[Row]], catalogue: Catalogue) -> Iterator[Line]:
    seen = [name for name in row.signals if name in found]
    for name in seen or row.signals[:1]:
        unit, enable = (
            catalogue.signals[name].unit,
            catalogue.signals[name].enable or "no exporter in the source has it",
        )
        groups: dict[tuple[str, str], list[Row]] = {}
        for reading in found.get(name, []):
            groups.setdefault((reading.tier, reading.role), []).append(reading)
        for (tier, role), members in sorted(groups.items()):
            yield Line(row, name, tier, role, unit, tuple(sorted(members, key=lambda m: m.value)))
        if not groups:
            yield Line(row, name, "", "", unit, (), enable)


def as_text(lines: Sequence[Line]) -> str:
    """A table for people; the mark ! stands where a pod is outside its band."""
    parts = [f"  {'':<21} {'signal':<24} {'tier, role':<20} {'pods':>4}  {'lowest .. median .. highest':<34} band"]
    title = ""
    for line in lines:
        head, title = ("" if line.row.title == title else line.row.title), line.row.title
        if not line.values:
            text = f"not visible: {line.enable}"
            parts += textwrap.wrap(
                text, WIDTH, initial_indent=f"  {head:<21} {line.signal:<24} ", subsequent_indent=" " * 49
            )
            continue
        where = ", ".join(word for word in (line.tier, "" if line.role == "both" else line.role) if word) or "router"
        band = limits(line.values[0].band, line.unit) or {"slo": "no SLO configured", "trend": "trend"}.get(
            line.row.judge, ""
        )
        mark = "!" if line.outside else " "
        parts.append(
            f"{mark} {head:<21} {line.signal:<24} {where:<20} {len(line.values):>4}  {_spread(line):<34} {band}"
        )
        parts += _named(line)
    return page(part.rstrip() for part in parts)


def _spread(line: Line) -> str:
    values = [row.value for row in line.values]
    if len(values) == 1:
        return figure(values[0], line.unit)
    return " .. ".join(figure(float(v), line.unit) for v in (values[0], np.median(values), values[-1]))


def _named(line: Line) -> Iterator[str]:
    """Which pods are outside, where that is not said already."""
    if line.outside and len(line.values) > 1:
        worst = sorted(line.outside, key=lambda row: -abs(row.value - float(np.median([r.value for r in line.values]))))
        named = ", ".join(f"{row.pod} {figure(row.value, row.unit)}" for row in worst[:NAMED])
        more = f" and {len(worst) - NAMED} more" if len(worst) > NAMED else ""
        yield f"{'':<49}{named}{more}"


def as_json(lines: Sequence[Line]) -> str:
    """One object per pod and signal, and one without a value per signal that nothing supplies."""
    found: list[dict[str, object]] = []
    for line in lines:
        common = {
            "row": line.row.title,
            "signal": line.signal,
            "unit": line.unit,
            "judge": line.row.judge,
            "says": line.row.says,
        }
        found += [
            {
                **common,
                "pod": each.pod,
                "tier": each.tier,
                "role": each.role,
                "value": each.value,
                "outside": each in line.outside,
                "low": each.band.low if each.band else None,
                "high": each.band.high if each.band else None,
            }
            for each in line.values
        ]
        if not line.values:
            found.append({**common, "pod": None, "value": None, "outside": False, "enable": line.enable})
    return escaped(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
