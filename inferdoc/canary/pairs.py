"""Choose the two groups of pods of a rollout gate, and count their events in the same windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np

from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.signal import Term
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Member, Pool
from inferdoc.forecast.fromsource import Key, pool_name
from inferdoc.slo.history import History
from inferdoc.source.frame import Entity
from inferdoc.source.histograms import common_bounds
from inferdoc.source.plan import BY
from inferdoc.source.reads import Grid
from inferdoc.words import some


@dataclass(frozen=True)
class Arms:
    """stable: what runs; candidate: what is to replace it, pods of one pool."""

    stable: tuple[Member, ...]
    candidate: tuple[Member, ...]

    @property
    def pool(self) -> Pool:
        """That of the candidate."""
        return self.candidate[0].pool

    def keys(self) -> tuple[frozenset[Key], frozenset[Key]]:
        """The pods of the candidate and those of the stable group."""
        return frozenset(m.key for m in self.candidate), frozenset(m.key for m in self.stable)


def arms(members: Sequence[Member], candidate: str, baseline: str | None) -> Arms:
    """candidate, baseline: the name of a pool, or names of pods with * and commas; without a baseline the other pods
    that serve the model in the same role. Raises InferdocError."""
    chosen = _chosen(members, candidate, "--candidate")
    pools = {(member.pool.family, member.role) for member in chosen}
    if len(pools) > 1:
        names = ", ".join(sorted({pool_name(member.pool) for member in chosen}))
        raise InferdocError(f"--candidate {candidate}: its pods are of several pools ({names}); judge one at a time")
    keys = {member.key for member in chosen}
    usual = [m for m in members if (m.pool.family, m.role) in pools] if baseline is None else []
    rest = usual if baseline is None else _chosen(members, baseline, "--baseline")
    stable = [member for member in rest if member.key not in keys]
    if not stable:
        what = (
            "no other pod serves its model; name one with --baseline" if baseline is None else "has no pod of its own"
        )
        raise InferdocError(f"{'--candidate ' + candidate if baseline is None else '--baseline ' + baseline}: {what}")
    _comparable(chosen[0], stable)
    return Arms(tuple(stable), tuple(chosen))


def _comparable(candidate: Member, stable: Sequence[Member]) -> None:
    """Raises InferdocError where the groups serve other models, in other roles or on other hardware: then their
    difference says nothing of the change."""
    for what, mine, others in (
        ("serve the model", candidate.pool.model, {m.pool.model for m in stable}),
        ("have the role", candidate.role, {m.role for m in stable}),
        ("run on the tier", candidate.tier, {m.tier for m in stable}),
    ):
        if others != {mine}:
            other = ", ".join(sorted(others - {mine}))
            raise InferdocError(
                f"candidate pods {what} {mine}, baseline pods also {other}: choose like ones with --baseline"
            )


def _chosen(members: Sequence[Member], text: str, flag: str) -> list[Member]:
    pools = {pool_name(member.pool) for member in members}
    if text in pools:
        return [member for member in members if pool_name(member.pool) == text]
    patterns = [part.strip() for part in text.split(",") if part.strip()]
    found = [m for m in members if any(fnmatchcase(name, p) for p in patterns for name in {m.pod, m.shown})]
    if not found:
        names = sorted(pools | {member.shown for member in members})
        raise InferdocError(f'{flag}: no pool or pod "{text}"{nearest(text, names)}; seen: {some(names, MOST_NAMES)}')
    return found


MOST_NAMES = 8


WINDOW_MS = 60_000
"""A minute: of its requests it is counted how they go together (reference: capacity, section G)."""


@dataclass(frozen=True)
class ArmCounts:
    """Events by window in both groups. bad, of: float64[2, windows], the candidate first."""

    bad: np.ndarray
    of: np.ndarray

    def at(self, windows: np.ndarray) -> ArmCounts:
        """Those of some windows. windows: bool[windows]."""
        return ArmCounts(self.bad[:, windows], self.of[:, windows])

    @property
    def totals(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """(bad, of) of the candidate and of the stable group."""
        bad, of = self.bad.sum(axis=1), self.of.sum(axis=1)
        return (float(bad[0]), float(of[0])), (float(bad[1]), float(of[1]))


@dataclass
class ArmsWatched:
    """Both groups in an interval of a source."""

    history: History
    arms: Arms

    @cached_property
    def grid(self) -> Grid:
        """Windows of a minute, or of so many scrapes as an increase takes."""
        return self.history.grid(WINDOW_MS)

    def buckets(self, histogram: str) -> dict[float, np.ndarray]:
        """Bound -> float64[2, windows]: cumulative events of both groups; only bounds that all of their pods have, at
        all times, so that all count alike. Empty where a group has none, or no bound for all events."""
        found: tuple[list[Mapping[float, np.ndarray]], ...] = ([], [])
        for entity, cells in self.history.histograms(histogram, self.grid, BY["engine"]).items():
            for group, keys in zip(found, self.arms.keys(), strict=True):
                if entity.member in keys:
                    group.append(cells)
        if not all(found):
            return {}
        shared = common_bounds(cells for group in found for cells in group)
        if np.inf not in shared:
            return {}
        return {
            bound: np.stack([summed(np.nan_to_num(cells[bound]) for cells in group) for group in found])
            for bound in shared
        }

    def counted(self, term: Term) -> np.ndarray:
        """float64[2, windows]: events of both groups that a counter counts; zeros where nobody counted."""
        groups = self.arms.keys()
        rows = self.history.counts(term, self.grid, BY["engine"])
        return np.stack([self._of(rows, keys) for keys in groups])

    def _of(self, rows: Mapping[Entity, np.ndarray], keys: frozenset[Key]) -> np.ndarray:
        return summed(
            [np.zeros(self.grid.count), *(values for entity, values in rows.items() if entity.member in keys)]
        )


def summed(rows: Iterable[np.ndarray]) -> np.ndarray:
    """float64[windows]: several rows added up."""
    total: np.ndarray = np.sum(list(rows), axis=0)
    return total
