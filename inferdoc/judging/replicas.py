"""Pods that came or went: scaling and rollouts, from which targets are scraped at all."""

from __future__ import annotations

from collections.abc import Sequence

from inferdoc.fleet.lineage import REPLACED_SECONDS, SETTLED_SCRAPES, scraped_spans
from inferdoc.fleet.members import Member, Pool
from inferdoc.judging.context import Context
from inferdoc.judging.events import Event
from inferdoc.source.base import Scrapes

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
    said = f"{count} -> {count + len(came) - len(went)} pods"
    said += f"; new: {_names(came)}" if came else ""
    said += f"; gone: {_names(went)}" if went else ""
    unit = next((u for u in context.view.units if u.member == group[0][2]), None)
    name = pool.model or "pool"
    if context.view.fleet.spread and pool.place:
        name += f" ({pool.place})"
    return Event(group[0][0], "rollout" if came and went else "replicas", name, said, unit)


def _names(pods: Sequence[str]) -> str:
    more = f" and {len(pods) - NAMED} more" if len(pods) > NAMED else ""
    return ", ".join(pods[:NAMED]) + more


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
