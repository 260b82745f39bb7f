"""Signals that compare a pod with groups it belongs to: other hardware tiers of its model, the ranks of its own
deployment, the blend of all tiers, and the settings of its like.

What a signal reads is in its unit, or a ratio where it says so. Rows where there is nothing to compare with are left
out, so that a fleet of one tier with one rank per pod pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from inferdoc.catalogue.signal import Marker, Signal
from inferdoc.fleet.members import Fleet, Member, Pool
from inferdoc.judging.view import Unit, View
from inferdoc.source.base import InfoSeries, Scrapes
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix

Rows = list[tuple[Entity, Member, np.ndarray]]
Made = list[tuple[Entity, np.ndarray]]


def add_cohorts(frame: SignalFrame, signals: Mapping[str, Signal], fleet: Fleet) -> None:
    """Put the signals with a `cohort` reading into the frame."""
    members = fleet.by_key()
    for name, signal in signals.items():
        for reading in signal.readings:
            if reading.cohort is None or str(reading.of) not in frame:
                continue
            matrix = frame[str(reading.of)]
            rows = [
                (entity, members[entity.member], row)
                for entity, row in zip(matrix.entities, matrix.values, strict=True)
                if entity.member in members
            ]
            floor = signals[str(reading.of)].floor
            found = MAKERS[reading.cohort](rows, floor)
            if found:
                frame.signals[name] = SignalMatrix([e for e, _ in found], np.vstack([v for _, v in found]))


def _by_pool(rows: Rows) -> dict[Pool, np.ndarray]:
    """The values of each pool: float64[pods, T]."""
    groups: dict[Pool, list[np.ndarray]] = {}
    for _, member, row in rows:
        groups.setdefault(member.pool, []).append(row)
    return {pool: np.vstack(found) for pool, found in groups.items()}


def _others(pool: Pool, pools: Iterable[Pool]) -> list[Pool]:
    """Pools of other tiers that serve the same model in the same role."""
    return [p for p in pools if p.family == pool.family and p.role == pool.role and p.tier != pool.tier]


def _beside(rows: Rows) -> dict[Pool, np.ndarray]:
    """For each pool the lowest of the medians of its other tiers: float64[T]."""
    pools = _by_pool(rows)
    middles = {pool: nanmedian_rows(values) for pool, values in pools.items()}
    found = {}
    for pool in pools:
        others = _others(pool, pools)
        if others:
            found[pool] = np.fmin.reduce([middles[p] for p in others])
    return found


def _other_tiers(rows: Rows, floor: float) -> Made:
    """The best of the other tiers (the lowest median)."""
    beside = _beside(rows)
    return [(entity, beside[member.pool]) for entity, member, _ in rows if member.pool in beside]


def _over_other_tiers(rows: Rows, floor: float) -> Made:
    """Own value over the best of the other tiers."""
    beside = _beside(rows)
    return [(entity, _ratio(row, beside[member.pool], floor)) for entity, member, row in rows if member.pool in beside]


def _blends(rows: Rows) -> dict[Pool, np.ndarray]:
    """For each pool of a model served by several tiers the mean over all pods of all tiers: float64[T]."""
    pools = _by_pool(rows)
    found = {}
    for pool in pools:
        others = _others(pool, pools)
        if others:
            found[pool] = nanmean_rows(np.vstack([pools[pool], *(pools[p] for p in others)]))
    return found


def _blend(rows: Rows, floor: float) -> Made:
    """The mean over the pods of all tiers."""
    blends = _blends(rows)
    return [(entity, blends[member.pool]) for entity, member, _ in rows if member.pool in blends]


def _by_deployment(rows: Rows) -> dict[tuple[str, str, str], Rows]:
    found: dict[tuple[str, str, str], Rows] = {}
    for entity, member, row in rows:
        if entity.engine:
            found.setdefault(member.key, []).append((entity, member, row))
    return {key: group for key, group in found.items() if len(group) > 1}


def _over_ranks(rows: Rows, floor: float) -> Made:
    """Own value over the median of the other ranks of the same deployment."""
    found: Made = []
    for group in _by_deployment(rows).values():
        values = np.vstack([row for _, _, row in group])
        for number, (entity, _, row) in enumerate(group):
            found.append((entity, _ratio(row, nanmedian_rows(np.delete(values, number, axis=0)), floor)))
    return found


def _skew(rows: Rows, floor: float) -> Made:
    """The largest of the ranks over their median, for every rank of the deployment."""
    found: Made = []
    for group in _by_deployment(rows).values():
        values = np.vstack([row for _, _, row in group])
        known = np.where(np.isfinite(values), values, -np.inf).max(axis=0)
        skew = _ratio(np.where(np.isfinite(known), known, np.nan), nanmedian_rows(values), floor)
        found += [(entity, skew) for entity, _, _ in group]
    return found


def _unlike(rows: Rows, floor: float) -> Made:
    """1 where the value is not that of most of its like, else 0: for identities, which have no order. Where no value is
    that of more than half, every one is unlike."""
    groups: dict[Pool, Rows] = {}
    for entity, member, row in rows:
        groups.setdefault(member.pool, []).append((entity, member, row))
    found: Made = []
    for group in groups.values():
        if len({member.key for _, member, _ in group}) < 2:
            continue
        values = np.vstack([row for _, _, row in group])
        if np.nanmax(values, initial=-np.inf) == np.nanmin(values, initial=np.inf):
            found += [(entity, np.where(np.isfinite(row), 0.0, np.nan)) for entity, _, row in group]
            continue
        known = np.isfinite(values).sum(axis=0)
        for entity, _, row in group:
            same = (values == row).sum(axis=0)
            found.append((entity, np.where(np.isfinite(row), (2 * same <= known).astype(np.float64), np.nan)))
    return found


def nanmedian_rows(values: np.ndarray) -> np.ndarray:
    """Column medians of float64[rows, T]; NaN, without a warning, where a column has no value."""
    result = np.full(values.shape[1], np.nan)
    seen = np.isfinite(values).any(axis=0)
    if seen.any():
        result[seen] = np.nanmedian(values[:, seen], axis=0)
    return result


def nanmean_rows(values: np.ndarray) -> np.ndarray:
    """Column means of float64[rows, T]; NaN, without a warning, where a column has no value."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _ratio(own: np.ndarray, other: np.ndarray, floor: float) -> np.ndarray:
    """own / other; where the other is below the floor of the signal, the floor stands for it: nothing over next to
    nothing is no ratio."""
    below = np.where(np.isfinite(other), np.fmax(other, floor), np.nan)
    result: np.ndarray = own / below
    return result


MAKERS: dict[str, Callable[[Rows, float], Made]] = {
    "other-tiers": _other_tiers,
    "over-other-tiers": _over_other_tiers,
    "blend": _blend,
    "over-ranks": _over_ranks,
    "ranks-skew": _skew,
    "unlike": _unlike,
}


IDENTITY = frozenset(
    [
        "__name__",
        "job",
        "instance",
        "pod",
        "namespace",
        "cluster",
        "endpoint",
        "container",
        "service",
        "model_name",
        "uid",
    ]
)
"""Labels of a target that say which one it is, or that all share: no reason to fail together."""
FEWEST = 2
"""Two pods must share a trait before it says anything: any single pod stands on some node."""

Traits = dict[tuple[str, str, str], dict[str, str]]
"""Pod (cluster, namespace, name) -> trait -> value."""


def traits_of(
    view: View, scrapes: Sequence[Scrapes], markers: Sequence[Marker], infos: Mapping[str, Sequence[InfoSeries]]
) -> Traits:
    """The node and other target labels of every pod, its template (two releases side by side are distinguished), the
    GPU's driver, and the newest value of every setting."""
    found: Traits = {member.key: {"node": member.node} if member.node else {} for member in view.fleet.members}
    for key, template in view.lineage.templates.items():
        if key in found:
            found[key]["pod template"] = template
    for target in scrapes:
        own = found.get(Entity.of_labels(target.labels).member)
        if own is not None:
            own.update({name: value for name, value in target.labels.items() if name not in IDENTITY and value})
    for marker in markers:
        newest: dict[tuple[str, str, str], int] = {}
        for one in infos.get(str(marker.info), ()):
            key, seen = Entity.of_labels(one.labels).member, np.flatnonzero(np.isfinite(one.values))
            if key in found and len(seen) and seen[-1] >= newest.get(key, -1):
                newest[key] = int(seen[-1])
                found[key].update({label: one.labels[label] for label in marker.labels if one.labels.get(label)})
    return found


def shared(traits: Traits, hit: Sequence[Unit], like: Sequence[Unit]) -> dict[str, str]:
    """Traits that all pods hit share and no like pod has; the rank too, where ranks of one number are hit on several
    pods. like: every unit of their pool."""
    pods = {unit.member.key for unit in hit}
    rest = {unit.member.key for unit in like} - pods
    if len(pods) < FEWEST:
        return {}
    found = {}
    if rest:
        first = traits.get(next(iter(sorted(pods))), {})
        for name, value in sorted(first.items()):
            if all(traits.get(p, {}).get(name) == value for p in pods):
                others = [traits.get(p, {}).get(name) for p in rest]
                if value not in others and any(others):
                    found[name] = value
    ranks = {unit.engine for unit in hit}
    if len(ranks) == 1 and len({unit.engine for unit in like}) > 1:
        found["engine"] = ranks.pop()
    return found
