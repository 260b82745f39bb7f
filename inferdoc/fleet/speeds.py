"""Split pods of one model by speed if no label shows their hardware.

What a token takes is a matter of the memory that a step reads, so of the GPU and its number (field guide to sizing LLM
inference, section 9.5). If pods with the same load differ in it through all of the data, they are of
two kinds, and only pods of one kind are peers. A pod that became slow is not: it was like the others once. Nor is one
that was left behind in a rollout: its settings or its image are others, or its cache is as large as theirs, as on the
same GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from inferdoc.fleet.lineage import SAME_CACHE
from inferdoc.fleet.members import UNKNOWN_TIER, Fleet, Member, Pool
from inferdoc.fleet.workloads import workload
from inferdoc.source.frame import SignalFrame

FASTER, SLOWER = "faster", "slower"
"""Tiers that stand for hardware nobody named."""
APART = 1.4
"""Times between the slowest of the fast pods and the fastest of the slow: H200 over H100 is 1.43 by memory bandwidth,
other steps between generations more (data sheets); pods of one kind under one balancer differ by a tenth."""
ALWAYS_APART = 1.25
"""Threshold in each part of the data: similar pods seldom reach it, different ones seldom miss it."""
PARTS, MIN_PARTS = 6, 4
"""The data are split into this many parts; a pod must have served in most of them, and in the first."""
SIMILAR = 1.3
"""What arrives differs by no more than this between groups of pods behind one balancer."""
LEAST_PODS = 3
"""With two pods, the outlier cannot be identified."""
SPEED, WORK = ("itl_mean", "tpot_request_mean"), ("arrival_rate", "request_rate")
SHAPE = ("prompt_tokens_per_request", "output_len_mean")
CACHE, SETTINGS = "kv_blocks", ("settings_identity", "image_identity")

Key = tuple[str, str, str]


def part_by_speed(fleet: Fleet, frame: SignalFrame) -> None:
    """Split pods of unknown tier into `faster` and `slower`, if the pods of their model are of two kinds."""
    groups: dict[tuple[str, ...], list[Member]] = {}
    for member in fleet.members:
        groups.setdefault((*member.pool.family, member.role), []).append(member)
    tiers: dict[Key, str] = {}
    for members in groups.values():
        if len(members) >= LEAST_PODS and {member.tier for member in members} == {UNKNOWN_TIER}:
            tiers |= _tiers(members, frame)
    fleet.members = [_of_tier(member, tiers[member.key]) if member.key in tiers else member for member in fleet.members]


def as_labelled(pool: Pool) -> Pool:
    """The pool by its labels alone."""
    return replace(pool, tier=UNKNOWN_TIER) if pool.tier in (FASTER, SLOWER) else pool


def _of_tier(member: Member, tier: str) -> Member:
    why = f"its tokens always took {'longer' if tier == SLOWER else 'less'} than those of the other pods"
    kept = tuple((what, how) for what, how in member.why if what != "tier")
    return replace(member, pool=replace(member.pool, tier=tier), why=(*kept, ("tier", why)))


def _tiers(members: Sequence[Member], frame: SignalFrame) -> dict[Key, str]:
    """The tier of each of these pods; none if all are similar, or if one is unclear."""
    levels = _levels(SPEED, members, frame)
    known = [member for member in members if member.key in levels and np.isfinite(levels[member.key][0])]
    if len(known) < LEAST_PODS:
        return {}
    known.sort(key=lambda member: float(np.nanmedian(levels[member.key])))
    rows = np.array([levels[member.key] for member in known])
    usual = np.nanmedian(rows, axis=1)
    gap = int(np.argmax(usual[1:] / usual[:-1])) + 1
    fast, slow = rows[:gap], rows[gap:]
    if usual[gap] < APART * usual[gap - 1] or not _always_apart(fast, slow):
        return {}
    if not _equally_loaded(known[:gap], known[gap:], frame) or not _of_two_kinds(known[:gap], known[gap:], frame):
        return {}
    tiers = {member.key: FASTER if place < gap else SLOWER for place, member in enumerate(known)}
    return _with_newborn(members, tiers)


def _always_apart(fast: np.ndarray, slow: np.ndarray) -> bool:
    """Whether no fast pod was ever about as slow as a slow one. fast, slow: float64[pods, time ranges]."""
    both = np.isfinite(fast).any(axis=0) & np.isfinite(slow).any(axis=0)
    if both.sum() < MIN_PARTS:
        return False
    return bool((np.nanmin(slow[:, both], axis=0) >= ALWAYS_APART * np.nanmax(fast[:, both], axis=0)).all())


def _equally_loaded(fast: Sequence[Member], slow: Sequence[Member], frame: SignalFrame) -> bool:
    """Whether the slow pods are slow at no more work: not more requests, and of the same lengths."""
    work = next((one for name in WORK if (one := _ratio(name, fast, slow, frame)) is not None), None)
    shapes = [one for name in SHAPE if (one := _ratio(name, fast, slow, frame)) is not None]
    return work is not None and work <= SIMILAR and all(1 / SIMILAR <= shape <= SIMILAR for shape in shapes)


def _of_two_kinds(fast: Sequence[Member], slow: Sequence[Member], frame: SignalFrame) -> bool:
    """Whether hardware distinguishes them and no setting does: other GPU memory leaves another cache size.
    Where no cache size is shown, one odd pod is sooner one that was left behind than a kind of its own."""
    if any(len({round(value) for value in _usual(name, (*fast, *slow), frame)}) > 1 for name in SETTINGS):
        return False
    room = _ratio(CACHE, fast, slow, frame)
    return len(slow) > 1 if room is None else max(room, 1 / room) > SAME_CACHE


def _ratio(name: str, fast: Sequence[Member], slow: Sequence[Member], frame: SignalFrame) -> float | None:
    """What is usual of slow pods over what is usual of fast ones; None where one of them does not show it."""
    seen = [_usual(name, members, frame) for members in (slow, fast)]
    parts = [float(np.median(values)) if values else 0.0 for values in seen]
    return parts[0] / parts[1] if min(parts) > 0 else None


def _usual(name: str, members: Sequence[Member], frame: SignalFrame) -> list[float]:
    """What is usual of each pod that shows a signal."""
    levels = _levels((name,), members, frame).values()
    return [float(np.nanmedian(row)) for row in levels if np.isfinite(row).any()]


def _with_newborn(members: Sequence[Member], tiers: Mapping[Key, str]) -> dict[Key, str]:
    """Pods that came later have the tier of their workload; where one has none, all are left as they are."""
    by_workload: dict[str, set[str]] = {}
    for member in members:
        if member.key in tiers:
            by_workload.setdefault(workload(member.pod)[0], set()).add(tiers[member.key])
    every = dict(tiers)
    for member in members:
        if member.key not in tiers:
            tiers_seen = by_workload.get(workload(member.pod)[0], set())
            if len(tiers_seen) != 1:
                return {}
            every[member.key] = next(iter(tiers_seen))
    return every


def _levels(names: Sequence[str], members: Sequence[Member], frame: SignalFrame) -> dict[Key, np.ndarray]:
    """By pod the median of each part of the data, of the first of these signals that is there: float64[S]."""
    matrix = next((frame[name] for name in names if name in frame and frame[name].present), None)
    if matrix is None:
        return {}
    keys = {member.key for member in members}
    rows: dict[Key, list[np.ndarray]] = {}
    for entity, row in zip(matrix.entities, matrix.values, strict=True):
        if entity.member in keys:
            rows.setdefault(entity.member, []).append(row)
    seen = np.isfinite(matrix.values).any(axis=0)
    begin = int(seen.argmax())
    return {key: _medians(np.vstack(found)[:, begin:]) for key, found in rows.items()}


def _medians(rows: np.ndarray) -> np.ndarray:
    """The median of each part over all rows of a pod: float64[PARTS], NaN if there is no value."""
    pieces = np.array_split(rows, PARTS, axis=1)
    return np.array([np.median(p[np.isfinite(p)]) if np.isfinite(p).any() else np.nan for p in pieces])
