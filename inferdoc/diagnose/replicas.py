"""Pods that came or went: scaling and rollouts, from which targets are scraped at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inferdoc.diagnose.context import Context
from inferdoc.diagnose.events import Event
from inferdoc.fleet.members import Member, Pool
from inferdoc.source.base import Scrapes
from inferdoc.source.frame import Entity

ROLLOUT_SECONDS = 900.0
"""Pods of a pool that go while others come within a quarter of an hour are replaced, not scaled."""
GONE_SCRAPES = 5
"""A target without so many scrapes at an end of the window was not there."""
NAMED = 3


@dataclass(frozen=True)
class Life:
    """When a pod was scraped for the first and the last time, seconds; None: beyond the window."""

    member: Member
    came: float | None
    went: float | None


def replica_events(context: Context, scrapes: Sequence[Scrapes]) -> list[Event]:
    """One event for the pods of a pool that came or went together: `rollout` where both, else `replicas`."""
    found = []
    for pool, lives in _lives(context, scrapes).items():
        moves = [(life.came, 1, life.member) for life in lives if life.came is not None]
        moves += [(life.went, -1, life.member) for life in lives if life.went is not None]
        moves.sort(key=lambda move: (move[0], move[2].pod))
        count = sum(life.came is None for life in lives)
        group: list[tuple[float, int, Member]] = []
        for at, sign, member in moves:
            if group and at - group[0][0] > ROLLOUT_SECONDS:
                found.append(_event(context, pool, group, count))
                count += sum(s for _, s, _ in group)
                group = []
            group.append((at, sign, member))
        if group:
            found.append(_event(context, pool, group, count))
    return found


def _event(context: Context, pool: Pool, group: Sequence[tuple[float, int, Member]], count: int) -> Event:
    came = [m.pod for _, sign, m in group if sign > 0]
    went = [m.pod for _, sign, m in group if sign < 0]
    said = f"{count} -> {count + len(came) - len(went)} pods"
    said += f"; new: {_names(came)}" if came else ""
    said += f"; gone: {_names(went)}" if went else ""
    unit = next((u for u in context.view.units if u.member == group[0][2]), None)
    return Event(group[0][0], "rollout" if came and went else "replicas", pool.model or "pool", said, unit)


def _names(pods: Sequence[str]) -> str:
    more = f" and {len(pods) - NAMED} more" if len(pods) > NAMED else ""
    return ", ".join(pods[:NAMED]) + more


def _lives(context: Context, scrapes: Sequence[Scrapes]) -> dict[Pool, list[Life]]:
    """First and last scrape of every engine pod, by pool."""
    begin = min((int(s.times_ms[0]) for s in scrapes if len(s.times_ms)), default=0)
    end = max((int(s.times_ms[-1]) for s in scrapes if len(s.times_ms)), default=0)
    slack = 1000 * GONE_SCRAPES * context.clock.scrape_seconds
    members = {member.key: member for member in context.view.fleet.everyone}
    spans: dict[tuple[str, str, str], tuple[int, int]] = {}
    for target in scrapes:
        key = Entity.of_labels(target.labels).member
        if key in members and len(target.times_ms):
            first, last = spans.get(key, (int(target.times_ms[0]), int(target.times_ms[-1])))
            spans[key] = min(first, int(target.times_ms[0])), max(last, int(target.times_ms[-1]))
    pools: dict[Pool, list[Life]] = {}
    for key, (first, last) in spans.items():
        came = first / 1000 if first > begin + slack else None
        went = last / 1000 if last < end - slack else None
        pools.setdefault(members[key].pool, []).append(Life(members[key], came, went))
    return pools
