"""Who took over from whom: rollouts, restarts under a new name, scale-out and scale-in.

A Deployment gives every new pod a new name, so a pod's own history ends with each rollout. The work goes on: a newborn
takes the place of the pod that left its pool about then, and with it the history, the settings and the size of the
cache that it is compared with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferdoc.fleet.members import ENGINE_SIGNS, Fleet, Member
from inferdoc.fleet.workloads import workload
from inferdoc.source.base import Scrapes
from inferdoc.source.frame import Entity, SignalFrame

Key = tuple[str, str, str]
"""Cluster, namespace, pod."""

Kind = tuple[str, int]
"""Hardware tier, and a number that pods with a KV cache of about the same size share, -1 where none is known."""

SAME_CACHE = 1.1
"""Engines on like GPUs find room for KV caches that differ by less than this factor: they measure what is free at start
(vLLM: `determine_num_available_blocks`)."""
REPLACED_SECONDS = 900.0
"""A newborn takes the place of a pod that left at most this long before or after: large models load for ten minutes."""
TAKEN_AWAY = 3
"""Pods of one place that left before they served: a container that ends is started in its pod, so something evicts them
(own choice: one may be a node that was drained, two a rollout that was taken back)."""
SETTLED_SCRAPES = 5
"""What is there within so many scrapes of an end of the data was there before or will be after it."""


@dataclass(frozen=True)
class Life:
    """When a pod lived, in grid steps. first, last: when it was scraped, with success or not, or showed an engine;
    born: the first step at which it showed an engine; came, went: whether its beginning and its end lie inside the
    data."""

    first: int
    born: int
    last: int
    came: bool
    went: bool


@dataclass
class Lineage:
    """lives: of every pod; predecessor: newborn -> the member whose place it took; templates: pod -> hash of its pod
    template, if its name or its owner shows it."""

    lives: Mapping[Key, Life] = field(default_factory=dict)
    predecessor: Mapping[Key, Member] = field(default_factory=dict)
    templates: Mapping[Key, str] = field(default_factory=dict)

    def heir(self, key: Key) -> Key:
        """The pod that has the place of this one now: itself where nobody took over."""
        while key in self._successor:
            key = self._successor[key]
        return key

    def __post_init__(self) -> None:
        self._successor = {old.key: new for new, old in self.predecessor.items()}

    def served(self, key: Key, step: int) -> bool:
        """Whether a pod, or the one whose place it took, served at a step."""
        life = self.lives.get(key)
        if life is None or step > life.last:
            return life is None
        while key in self.predecessor:
            key = self.predecessor[key].key
        return self.lives[key].born <= step

    def first_loads(self, key: Key) -> Iterator[slice]:
        """The grid steps at which a pod, or one whose place it took, loads its model and no engine ended: no pod before
        it served, or pods of its place are taken away again and again before they serve."""
        chain = [key] if key in self.lives else []
        while chain and chain[-1] in self.predecessor:
            chain.append(self.predecessor[chain[-1]].key)
        lives = [self.lives[each] for each in chain]
        unserved = [life.born > life.last for life in lives]
        evicted = sum(life.went for life, never in zip(lives, unserved, strict=True) if never) >= TAKEN_AWAY
        for place, life in enumerate(lives):
            first = place == len(lives) - 1
            if life.came and (evicted or first or unserved[place + 1]):
                end = lives[place - 1].first if unserved[place] and place else life.born
                yield slice(0 if first else life.first, end)

    def counts(self, key: Key, step: int) -> bool:
        """Whether a pod stands for itself from a step on: it is there yet, and no other has its place."""
        life = self.lives.get(key)
        return life is None or (key not in self._successor and life.last >= step)

    def replaced(self, key: Key) -> bool:
        """Whether another pod has its place now."""
        return key in self._successor


def trace(
    frame: SignalFrame, fleet: Fleet, scrapes: Sequence[Scrapes] = (), owners: Mapping[str, str] | None = None
) -> Lineage:
    """The lineage of the members of a fleet. owners: pod -> replica set, of kube-state-metrics, where it is scraped."""
    grid = frame.grid
    settled = max(1, SETTLED_SCRAPES * grid.interval_ms // grid.step_ms)
    shown = _shown(frame, fleet)
    scraped = scraped_spans(scrapes)
    lives: dict[Key, Life] = {}
    for member in fleet.members:
        steps = np.flatnonzero(shown[member.key]) if member.key in shown else np.empty(0, dtype=np.int64)
        ends = [int(step) for step in (*steps[:1], *steps[-1:])]
        ends += [(ms - grid.start_ms) // grid.step_ms for ms in scraped.get(member.key, ())]
        first, last = max(0, min(ends, default=0)), min(grid.count - 1, max(ends, default=grid.count))
        born = int(steps[0]) if len(steps) else grid.count
        lives[member.key] = Life(first, born, last, first > settled, last < grid.count - 1 - settled)
    described = {member.key: workload(member.pod, owners) for member in fleet.members}
    templates = {key: template for key, (_, template) in described.items() if template}
    reach = REPLACED_SECONDS / (grid.step_ms / 1000)
    places = _places(fleet, lives, described, reach)
    kinds, shares = _kinds(frame, fleet), _shares(frame, fleet)
    return Lineage(lives, _like_to_like(places, lives, described, kinds, shares, reach), templates)


def divide(fleet: Fleet, lineage: Lineage, begin: int) -> Fleet:
    """The fleet of a window: its members live in it and have their place still, the others are former members. begin:
    the grid step at which the window begins."""

    def present(member: Member) -> bool:
        return lineage.lives[member.key].last >= begin and not lineage.replaced(member.key)

    return Fleet(
        [member for member in fleet.members if present(member)],
        [member for member in fleet.members if not present(member)],
    )


def _shown(frame: SignalFrame, fleet: Fleet) -> dict[Key, np.ndarray]:
    """The steps at which each member shows an engine: bool[T]."""
    shown: dict[Key, np.ndarray] = {}
    members = fleet.by_key()
    for name in ENGINE_SIGNS:
        if name not in frame:
            continue
        there = np.isfinite(frame[name].values[:, -frame.grid.count :])  # without a baseline put in front
        for entity, row in zip(frame[name].entities, there, strict=True):
            if entity.member in members:
                shown[entity.member] = shown[entity.member] | row if entity.member in shown else row
    return shown


def scraped_spans(scrapes: Iterable[Scrapes]) -> dict[Key, tuple[int, int]]:
    """When each target was scraped for the first and for the last time, with success or not, milliseconds."""
    ends: dict[Key, tuple[int, int]] = {}
    for target in scrapes:
        if len(target.times_ms):
            key = Entity.of_labels(target.labels).member
            begin, end = int(target.times_ms[0]), int(target.times_ms[-1])
            first, last = ends.get(key, (begin, end))
            ends[key] = min(first, begin), max(last, end)
    return ends


def _places(
    fleet: Fleet, lives: Mapping[Key, Life], described: Mapping[Key, tuple[str, str]], reach: float
) -> dict[Key, Member]:
    """Newborn -> the member whose place it took: of the same workload first, then of the same pool; who left first is
    replaced first. reach: the most steps between an end and a birth."""
    places: dict[Key, Member] = {}
    by_born = sorted((m for m in fleet.members if lives[m.key].came), key=lambda m: (lives[m.key].first, m.pod))
    for same_workload in (True, False):
        for newborn in by_born:
            if newborn.key in places:
                continue
            taken = {member.key for member in places.values()}
            came, workload_key = lives[newborn.key].first, described[newborn.key][0]
            left = [
                old
                for old in fleet.members
                if lives[old.key].went
                and old.key not in taken
                and old.pool.family == newborn.pool.family
                and old.role == newborn.role
                and _can_follow(lives[old.key], came, reach)
                and (not same_workload or described[old.key][0] == workload_key)
            ]
            if left:
                places[newborn.key] = min(left, key=lambda m: (lives[m.key].last, m.pod))
    return places


def _can_follow(old: Life, came: int, reach: float) -> bool:
    """Whether a pod that came at a step can have taken the place of an older one."""
    return old.first < came and abs(old.last - came) <= reach


def _shares(frame: SignalFrame, fleet: Fleet) -> dict[Key, float]:
    """What each pod runs as a multiple of the mean of its role at the time, median over its life."""
    running: dict[Key, np.ndarray] = {}
    if "running" in frame:
        for entity, row in zip(frame["running"].entities, frame["running"].values, strict=True):
            known = running.get(entity.member, np.full_like(row, np.nan))
            running[entity.member] = np.where(np.isnan(known), row, known + np.nan_to_num(row))
    similar: dict[tuple[str, ...], list[Key]] = {}
    for member in fleet.members:
        if member.key in running:
            similar.setdefault((*member.pool.family, member.role), []).append(member.key)
    shares: dict[Key, float] = {}
    for keys in similar.values():
        rows = np.array([running[key] for key in keys])
        there = np.isfinite(rows)
        mean = np.where(there, rows, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        for key, row, use in zip(keys, rows, there & (mean > 0), strict=True):
            shares[key] = float(np.median(row[use] / mean[use])) if use.any() else 0.0
    return shares


def _generation(newborn: Key, places: Mapping[Key, Member]) -> int:
    """How many rollouts a pod is away from one that was there before all."""
    count = 0
    while newborn in places:
        newborn, count = places[newborn].key, count + 1
    return count


def _kinds(frame: SignalFrame, fleet: Fleet) -> dict[Key, Kind]:
    """The hardware of each pod: its tier, and a class of sizes of its KV cache, median over its life."""
    blocks: dict[Key, float] = {}
    if "kv_blocks" in frame:
        for entity, row in zip(frame["kv_blocks"].entities, frame["kv_blocks"].values, strict=True):
            if np.isfinite(row).any():
                blocks[entity.member] = float(np.nanmedian(row))
    sizes = np.array(sorted(set(blocks.values())))
    larger = np.flatnonzero(sizes[1:] > SAME_CACHE * sizes[:-1]) + 1
    begins = sizes[larger]
    return {
        member.key: (
            member.tier,
            int(np.searchsorted(begins, blocks[member.key], "right")) if member.key in blocks else -1,
        )
        for member in fleet.members
    }


def _like_to_like(
    places: Mapping[Key, Member],
    lives: Mapping[Key, Life],
    described: Mapping[Key, tuple[str, str]],
    kinds: Mapping[Key, Kind],
    shares: Mapping[Key, float],
    reach: float,
) -> dict[Key, Member]:
    """The same places, given out by hardware and by how much the pods had to do.

    When a whole workload is replaced, nothing shows which new pod replaces which old one. Taken by time alone, one
    on a slow GPU would follow one on a fast GPU and look newly slow, and one that is busier by design would follow an
    idle one and look newly busy. Where there is as much of each kind of hardware as before, like follows like; and the
    busiest follows the busiest. Then a difference that is left is one of the pool, whoever is who. Only where the times
    allow each of the new pairs."""
    groups: dict[tuple[object, ...], list[Key]] = {}
    for newborn, old in places.items():
        workload_of = described[old.key][0]
        together = (
            workload_of if described[newborn][0] == workload_of else ""
        )  # of addresses, each has a name of its own
        groups.setdefault((*old.pool.family, old.role, together, _generation(newborn, places)), []).append(newborn)
    dealt: dict[Key, Member] = {}
    for group in groups.values():
        left = {places[key].key: places[key] for key in group}
        same = Counter(kinds[key] for key in group) == Counter(kinds[key] for key in left)

        def order(key: Key, by_kind: bool = same) -> tuple[Kind | None, float, Key]:
            return kinds[key] if by_kind else None, shares.get(key, 0.0), key

        pairs = {new: left[old] for new, old in zip(sorted(group, key=order), sorted(left, key=order), strict=True)}
        fits = all(_can_follow(lives[old.key], lives[key].first, reach) for key, old in pairs.items())
        dealt |= pairs if fits else {key: places[key] for key in group}
    return dealt
