"""What changed in the window: restarts, outages, versions, settings, replicas, Xids, the workload.

A change of one pod shows in several ways within minutes (a rollout as a restart, a new version and new settings); it is
one event, named by what was done before what followed from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from inferdoc.catalogue.gpu_codes import sxid, xid
from inferdoc.catalogue.signal import Marker
from inferdoc.fleet.lineage import REPLACED_SECONDS, SETTLED_SCRAPES, Lineage, scraped_spans
from inferdoc.fleet.members import Fleet, Member, Pool
from inferdoc.judging.context import Context
from inferdoc.judging.deviation import STANDARD_ERRORS, shift
from inferdoc.judging.model import Gap, stamp
from inferdoc.judging.spans import runs
from inferdoc.judging.view import Unit
from inferdoc.source.base import InfoSeries, Scrapes
from inferdoc.source.frame import Entity
from inferdoc.words import figure, some, within_sentence

TOGETHER_SECONDS = 300.0
"""Changes of one pod within five minutes are one: a rollout shows as a restart, a new version and new settings."""
ORDER = ("version", "config", "capacity", "restart")
"""Which kind names a change that shows in several ways: what was done before what followed from it."""


@dataclass(frozen=True)
class Event:
    """at: seconds since the epoch; kind: restart, outage, replicas, rollout, version, config, capacity, xid, workload
    or rhythm (what the same hour of an earlier day had as well); unit: None for the fleet."""

    at: float
    kind: str
    entity: str
    detail: str
    unit: Unit | None = None


def clustered(events: Iterable[Event]) -> list[Event]:
    """Changes of one pod within five minutes as one event, oldest first; what is no change of the process stays."""
    kept: list[Event] = []
    groups: dict[tuple[str, str, str], list[list[Event]]] = {}
    for event in sorted(set(events), key=lambda e: (e.at, e.kind, e.entity)):
        if event.kind not in ORDER or event.unit is None:
            kept.append(event)
            continue
        lists = groups.setdefault(event.unit.member.key, [])
        if lists and event.at - lists[-1][0].at <= TOGETHER_SECONDS:
            lists[-1].append(event)
        else:
            lists.append([event])
    kept += [_one(group) for lists in groups.values() for group in lists]
    return sorted(kept, key=lambda e: (e.at, e.kind, e.entity))


def _one(group: Sequence[Event]) -> Event:
    ranked = sorted(group, key=lambda e: ORDER.index(e.kind))
    texts = list(dict.fromkeys(e.detail for e in ranked))
    return replace(ranked[0], at=min(e.at for e in group), detail="; ".join(texts))


WHO = ("cluster", "namespace", "pod", "instance", "engine", "container")


def marker_events(
    context: Context, markers: Sequence[Marker], infos: Mapping[str, Sequence[InfoSeries]]
) -> Iterator[Event]:
    """Every change that the markers show. infos: series of info metrics by current name, on the grid of the view."""
    units = {(u.member.key, u.engine): u for u in reversed(context.view.units)}
    pods = {u.member.key: u for u in reversed(context.view.units)}
    for marker in markers:
        if marker.signal is not None:
            for each in context.view.units:
                yield from _moved(context, marker, each)
        else:
            for who, series in _by_entity(infos.get(str(marker.info), ()), context.view.lineage).items():
                unit = units.get((who.member, who.engine)) or pods.get(who.member)
                if unit is not None or not marker.of_containers:
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
            who = Entity.of((*WHO[:3], *WHO[4:]), (*heir, who.engine, who.get("container")))
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
            yield Event(at, marker.kind, unit.name if unit else who.pod or "?", _expression(changed, before, now), unit)


def _expression(changed: Sequence[str], before: Mapping[str, str], now: Mapping[str, str]) -> str:
    texts = ", ".join(f"{label} {before.get(label) or 'none'} -> {now.get(label) or 'none'}" for label in changed)
    return (
        texts
        if len(changed) == 1
        else f"{texts} ({len(changed)} settings at once: their effects cannot be distinguished)"
    )


NAMED = 3


def replica_events(context: Context, scrapes: Sequence[Scrapes]) -> list[Event]:
    """One event for the pods of a pool that came or went together: `rollout` where both, else `replicas`."""
    found = []
    for pool, (moves, count) in _moves(context, scrapes).items():
        group: list[tuple[float, int, Member]] = []
        for at, sign, member in moves:
            if group and at - group[0][0] > REPLACED_SECONDS:
                found.append(_event(context, pool, group, count))
                count += sum(s for _, s, _ in group)
                group = []
            group.append((at, sign, member))
        if group:
            found.append(_event(context, pool, group, count))
    return found


def _event(context: Context, pool: Pool, group: Sequence[tuple[float, int, Member]], count: int) -> Event:
    came = [m.shown for _, sign, m in group if sign > 0]
    went = [m.shown for _, sign, m in group if sign < 0]
    texts = f"{count} -> {count + len(came) - len(went)} pods"
    texts += f"; new: {some(came, NAMED)}" if came else ""
    texts += f"; gone: {some(went, NAMED)}" if went else ""
    unit = next((u for u in context.view.units if u.member == group[0][2]), None)
    name = pool.model or "pool"
    if context.view.fleet.spread and pool.place:
        name += f" ({pool.place})"
    return Event(group[0][0], "rollout" if came and went else "replicas", name, texts, unit)


def _moves(context: Context, scrapes: Sequence[Scrapes]) -> dict[Pool, tuple[list[tuple[float, int, Member]], int]]:
    """Per pool: when which engine pod came (+1) or went (-1) inside the window, seconds, in order; and how many pods
    were there at its beginning."""
    begin = min((int(s.times_ms[0]) for s in scrapes if len(s.times_ms)), default=0)
    end = max((int(s.times_ms[-1]) for s in scrapes if len(s.times_ms)), default=0)
    slack = 1000 * SETTLED_SCRAPES * context.clock.scrape_seconds
    spans = scraped_spans(scrapes)
    pools: dict[Pool, tuple[list[tuple[float, int, Member]], int]] = {}
    for member in context.view.fleet.everyone:
        if member.key not in spans:
            continue
        first, last = spans[member.key]
        moves, count = pools.get(member.pool, ([], 0))
        came, went = first > begin + slack, last < end - slack
        moves += [(first / 1000, 1, member)] if came else []
        moves += [(last / 1000, -1, member)] if went else []
        pools[member.pool] = moves, count + (not came)
    for moves, _ in pools.values():
        moves.sort(key=lambda move: (move[0], move[2].pod))
    return pools


WORKLOAD = (
    ("http_arrival_rate", "arrival_rate"),
    ("prompt_tokens_per_request",),
    ("output_len_mean",),
    ("prompt_len_mean",),
)
"""Signals of the traffic, of each the first that is visible; a shift of their mean by half is named. Clients that hang
up leave no trace in the arrivals of the engine: during a retry storm these fall while more requests come."""
WORKLOAD_RATIO = 1.5
CODES = {"xid_last": xid, "sxid_fatal_last": sxid, "sxid_last": sxid}
"""Signals of error codes, with what puts a code into words."""
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
    """Error codes of GPUs and NVSwitches. The gauge keeps the last one, so only a change is an event."""
    for signal, words in CODES.items():
        for name, values in context.view.gpus(unit, signal).items():
            for step, _, code in moves_of(values):
                if code > 0:
                    what = name if signal == "xid_last" else "an NVSwitch of its node"
                    detail = f"the driver reported {words(code)} for {what}"
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
