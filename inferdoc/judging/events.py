"""What a change in the window is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from inferdoc.judging.view import Unit

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
    said = list(dict.fromkeys(e.detail for e in ranked))
    return replace(ranked[0], at=min(e.at for e in group), detail="; ".join(said))
