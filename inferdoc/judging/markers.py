"""Settings, versions and sizes that were changed: labels of info metrics and signals that only move when moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from inferdoc.catalogue.signal import Marker
from inferdoc.fleet.lineage import Lineage
from inferdoc.judging.context import Context
from inferdoc.judging.events import Event
from inferdoc.judging.view import Unit
from inferdoc.judging.words import figure
from inferdoc.source.base import InfoSeries
from inferdoc.source.frame import Entity

WHO = ("cluster", "namespace", "pod", "instance", "engine")


def marker_events(
    context: Context, markers: Sequence[Marker], infos: Mapping[str, Sequence[InfoSeries]]
) -> Iterator[Event]:
    """Every change that the markers tell of. infos: series of info metrics by current name, on the grid of the view."""
    units = {(u.member.key, u.engine): u for u in reversed(context.view.units)}
    pods = {u.member.key: u for u in reversed(context.view.units)}
    for marker in markers:
        if marker.signal is not None:
            for each in context.view.units:
                yield from _moved(context, marker, each)
        else:
            for who, series in _by_entity(infos.get(str(marker.info), ()), context.view.lineage).items():
                unit = units.get((who.member, who.engine)) or pods.get(who.member)
                yield from _relabelled(context, marker, who, unit, series)


def moves(context: Context, unit: Unit, signal: str) -> Iterator[tuple[int, float, float]]:
    """Where a signal of a unit takes another value: (grid step, value before, value from that step on)."""
    series = context.view.get(unit, signal)
    if series is not None:
        yield from moves_of(series.values)


def moves_of(values: np.ndarray) -> Iterator[tuple[int, float, float]]:
    """The same of float64[T], past its gaps."""
    known = np.flatnonzero(np.isfinite(values))
    seen = values[known]
    for i in np.flatnonzero(np.diff(seen) != 0):
        yield int(known[i + 1]), float(seen[i]), float(seen[i + 1])


def _moved(context: Context, marker: Marker, unit: Unit) -> Iterator[Event]:
    signal = context.signals[str(marker.signal)]
    for step, before, now in moves(context, unit, str(marker.signal)):
        detail = f"{signal.title} {figure(before, signal.unit)} -> {figure(now, signal.unit)}"
        yield Event(context.view.time_at(step), marker.kind, unit.name, detail, unit)


def _by_entity(series: Sequence[InfoSeries], lineage: Lineage) -> dict[Entity, list[InfoSeries]]:
    """Series of one process and of its predecessors: an address may change with a restart, so it counts only where
    there is no pod."""
    found: dict[Entity, list[InfoSeries]] = {}
    for one in series:
        names = tuple(n for n in WHO if n != "instance" or not one.labels.get("pod"))
        who = Entity.of(names, tuple(one.labels.get(n, "") for n in names))
        heir = lineage.heir(who.member)
        if heir != who.member:
            who = Entity.of(("cluster", "namespace", "pod", "engine"), (*heir, who.engine))
        found.setdefault(who, []).append(one)
    return found


def _relabelled(
    context: Context, marker: Marker, who: Entity, unit: Unit | None, series: Sequence[InfoSeries]
) -> Iterator[Event]:
    """One series ends and another begins. Series that stand side by side (several server processes) are no change."""
    spans = []
    for one in series:
        seen = np.flatnonzero(np.isfinite(one.values))
        if len(seen):
            spans.append((int(seen[0]), int(seen[-1]), one.labels))
    spans.sort(key=lambda span: span[:2])
    grid = context.view.frame.grid
    beside = 1 + round(grid.gauge_ms / grid.step_ms)  # so long a source still shows the last value of what is gone
    for (_, last, before), (first, end, now) in pairwise(spans):
        if end <= last or last - first > beside:
            continue
        changed = [label for label in marker.labels if before.get(label, "") != now.get(label, "")]
        if changed:
            at = context.view.time_at(first + context.view.lead_steps)
            yield Event(at, marker.kind, unit.name if unit else who.pod or "?", _said(changed, before, now), unit)


def _said(changed: Sequence[str], before: Mapping[str, str], now: Mapping[str, str]) -> str:
    said = ", ".join(f"{label} {before.get(label) or 'none'} -> {now.get(label) or 'none'}" for label in changed)
    return (
        said if len(changed) == 1 else f"{said} ({len(changed)} settings at once: their effects cannot be told apart)"
    )
