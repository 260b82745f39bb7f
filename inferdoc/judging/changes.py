"""What changed in the window: restarts, rollouts, settings, outages that ended, workload. Reported even when not the
cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from inferdoc.catalogue.gpu_codes import xid
from inferdoc.catalogue.signal import Marker
from inferdoc.fleet.members import Fleet
from inferdoc.judging.context import Context
from inferdoc.judging.events import Event, clustered
from inferdoc.judging.markers import marker_events, moves, moves_of
from inferdoc.judging.model import Gap, stamp
from inferdoc.judging.replicas import replica_events
from inferdoc.judging.shift import STANDARD_ERRORS, shift
from inferdoc.judging.stretches import runs
from inferdoc.judging.view import Unit
from inferdoc.judging.words import figure, within_sentence
from inferdoc.source.base import InfoSeries, Scrapes
from inferdoc.source.frame import Entity

WORKLOAD = (
    ("http_arrival_rate", "arrival_rate"),
    ("prompt_tokens_per_request",),
    ("output_len_mean",),
    ("prompt_len_mean",),
)
"""Signals of the traffic, of each the first that is visible; a shift of their mean by half is named. Clients that hang
up leave no trace in the arrivals of the engine: during a retry storm these fall while more requests come."""
WORKLOAD_RATIO = 1.5
XID = "xid_last"
GAP_FACTOR = 3.0
"""A target is gone from the picture when this many scrapes in a row are missing."""


def find_events(
    context: Context,
    scrapes: Sequence[Scrapes],
    markers: Sequence[Marker] = (),
    infos: Mapping[str, Sequence[InfoSeries]] | None = None,
) -> list[Event]:
    """Everything that changed, oldest first."""
    events: list[Event] = list(marker_events(context, markers, infos or {}))
    for unit in context.view.units:
        events += _restarts(context, unit)
        events += _xids(context, unit)
    for target in scrapes:
        events += _outages(context, target)
    return clustered([*events, *replica_events(context, scrapes)])


def of_window(events: Sequence[Event], context: Context, onsets: Sequence[int], near_seconds: float) -> list[Event]:
    """The events of the window, and those of its history that are near an onset."""
    earliest = context.view.time_at(context.view.begin)
    earliest = min([earliest, *(context.view.time_at(onset) - near_seconds for onset in onsets)])
    return [event for event in events if event.at >= earliest]


def _restarts(context: Context, unit: Unit) -> list[Event]:
    return [
        Event(now, "restart", unit.member.shown, f"process started at {stamp(now)}", unit)
        for _, before, now in moves(context, unit, "process_start_time")
        if now - before > 1.0
    ]


def _xids(context: Context, unit: Unit) -> Iterator[Event]:
    """Error codes that the driver of a GPU reported. The gauge keeps the last one, so only a change is an event."""
    for name, values in context.view.gpus(unit, XID).items():
        for step, _, code in moves_of(values):
            if code > 0:
                detail = f"the driver reported {xid(code)} for {name}"
                yield Event(context.view.time_at(step), "xid", unit.member.shown, detail, unit)


def _outages(context: Context, target: Scrapes) -> list[Event]:
    """Stretches of `up` = 0 that ended inside the window."""
    down = target.up < 0.5
    if not down.any() or down.all():
        return []
    name = context.view.fleet.called(Entity.of_labels(target.labels))
    found = []
    for begin, end in runs(down):
        if begin > 0 and end < len(down):
            lasted = (target.times_ms[end] - target.times_ms[begin]) / 1000
            at = float(target.times_ms[begin]) / 1000
            found.append(Event(at, "outage", name, f"not answering for {figure(lasted, 's')}, then back"))
    return found


def workload_events(context: Context, unit: Unit, split: int, last: int) -> list[Event]:
    """How the traffic of a unit differs before and after a split."""
    found = []
    for names in WORKLOAD:
        name = next((one for one in names if context.view.get(unit, one) is not None), names[-1])
        series = context.view.get(unit, name)
        moved = None if series is None else shift(series.values, split, last, context.clock)
        if moved is None or abs(moved.errors) < STANDARD_ERRORS or moved.before <= 0:
            continue
        ratio = moved.after / moved.before
        if ratio >= WORKLOAD_RATIO or ratio <= 1 / WORKLOAD_RATIO:
            signal = context.signals[name]
            title, unit_of = within_sentence(signal.title), signal.unit
            detail = f"{title} {figure(moved.before, unit_of)} -> {figure(moved.after, unit_of)}"
            found.append(Event(context.view.time_at(split), "workload", unit.name, detail, unit))
    return found


def gaps(scrapes: Sequence[Scrapes], interval_ms: int, fleet: Fleet) -> list[Gap]:
    """Where scrapes of a target are missing or failed."""
    found = []
    for target in scrapes:
        good = target.times_ms[target.up >= 0.5]
        wide = np.flatnonzero(np.diff(good) > GAP_FACTOR * interval_ms)
        name = fleet.called(Entity.of_labels(target.labels)) if len(wide) else ""
        for i in wide:
            found.append(Gap(name, stamp(float(good[i]) / 1000), stamp(float(good[i + 1]) / 1000)))
    return found
