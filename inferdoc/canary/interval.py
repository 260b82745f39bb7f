"""How much worse the candidate is, with an interval that knows that requests of a minute go together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from statistics import NormalDist

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


DRAWS = 400
BLOCK = 5
"""Windows that are drawn together: a queue outlives a minute (own choice)."""
LEAST_WINDOWS = 10
FEW_BAD = 10.0
LOW_DESIGN, HIGH_DESIGN = 2.0, 5.0
"""The range of the design effect that is assumed where it cannot be estimated: the low end with too few bad requests,
the high end with too few windows (reference: capacity, section G)."""
ONE_SIDED = 0.05
"""Of the interval at each end: 90 % in all."""
ALIKE = 0.1
"""By how much lengths, hits, load and mean latencies may differ (reference: capacity, section G)."""
CLOSEST = 0.1
"""Of the margin: no number of requests that somebody waits for distinguishes a nearer difference from it."""


@dataclass(frozen=True)
class ShareDifference:
    """Bad shares of both groups (0..1) and their difference, candidate less stable: value, low and high end. requests:
    of each group; design: how many times fewer independent requests there are; needed: requests of the candidate in all
    that would decide."""

    candidate: float
    stable: float
    value: float
    low: float
    high: float
    requests: tuple[float, float]
    design: float
    needed: int


def compared(
    counts: ArmCounts, margin: float, looks: int, at_most: tuple[float, float] | None = None
) -> ShareDifference:
    """counts: both groups have events; looks: each end of the interval takes 5 % / looks; at_most: how many of the
    events of each group are independent at most (of gaps between tokens: the requests)."""
    (bad, of), (bad_stable, of_stable) = counts.totals
    z = NormalDist().inv_cdf(1 - ONE_SIDED / looks)
    design = design_effect(counts)
    sizes = of / design, of_stable / design
    if at_most is not None:
        sizes = min(sizes[0], at_most[0]), min(sizes[1], at_most[1])
    share, usual = bad / of, bad_stable / of_stable
    value, low, high = difference((share * sizes[0], sizes[0]), (usual * sizes[1], sizes[1]), z)
    scale = of / sizes[0]
    needed = _needed((share, usual), margin, sizes[0], scale, z)
    return ShareDifference(share, usual, value, low, high, (of, of_stable), scale, needed)


def _needed(shares: tuple[float, float], margin: float, size: float, scale: float, z: float) -> int:
    """Events of the candidate that decide: first those that show a difference of the margin; with these, those that
    distinguish the difference seen from the margin."""
    share, usual = shares
    # Where almost all are bad, none can be worse by the margin: what shows it on the way there counts.
    base = min(usual, 1.0 - margin)
    first = arm_size(base, base + margin, z)
    gap = max(abs(margin - (share - usual)), CLOSEST * margin)
    spread = usual * (1 - usual) + share * (1 - share)
    closer = math.ceil((z + Z_POWER_80) ** 2 * spread / gap**2)
    return math.ceil(scale * (first if size < first else max(first, closer)))


@dataclass(frozen=True)
class Ratio:
    """Candidate over stable of a quantity that is a sum over another, with the interval of nine in ten resamples."""

    low: float
    value: float
    high: float


def ratio(above: np.ndarray, below: np.ndarray) -> Ratio | None:
    """above, below: float64[2, windows], the candidate first, such as tokens and requests. By a bootstrap of blocks of
    windows; None where a group has none of either."""
    totals = above.sum(axis=1), below.sum(axis=1)
    if not ((totals[0] > 0).all() and (totals[1] > 0).all()):
        return None
    at = _blocks(above.shape[1])
    sums = above[:, at].sum(axis=2), below[:, at].sum(axis=2)
    known = (sums[1] > 0).all(axis=0) & (sums[0][1] > 0)
    means, mean = sums[0][:, known] / sums[1][:, known], totals[0] / totals[1]
    low, high = np.quantile(means[0] / means[1], (ONE_SIDED, 1 - ONE_SIDED)) if known.any() else (0.0, np.inf)
    return Ratio(float(low), float(mean[0] / mean[1]), float(high))


def _blocks(windows: int) -> np.ndarray:
    """int64[draws, windows]: windows drawn in blocks, past the end from the beginning."""
    block = min(BLOCK, windows // LEAST_WINDOWS + 1)
    starts = np.random.default_rng(0).integers(0, windows, size=(DRAWS, -(-windows // block)))
    at: np.ndarray = ((starts[:, :, None] + np.arange(block)) % windows).reshape(DRAWS, -1)[:, :windows]
    return at


def design_effect(counts: ArmCounts) -> float:
    """How many times larger the variance of the difference is than that of independent requests: by a bootstrap of
    blocks of windows, in which both groups go together. At least 1."""
    windows = counts.of.shape[1]
    if windows < LEAST_WINDOWS:
        return HIGH_DESIGN
    if counts.bad.sum() < FEW_BAD:
        return LOW_DESIGN
    at = _blocks(windows)
    bad, of = counts.bad[:, at].sum(axis=2), counts.of[:, at].sum(axis=2)
    known = (of > 0).all(axis=0)
    shares = bad[:, known] / of[:, known]
    true = float(np.var(shares[0] - shares[1]))
    total = counts.bad.sum(axis=1) / counts.of.sum(axis=1)
    independent = float((total * (1 - total) / counts.of.sum(axis=1)).sum())
    return max(1.0, true / independent) if independent > 0 else LOW_DESIGN


Z_ONE_SIDED_95, Z_POWER_80 = 1.645, 0.842


def arm_size(stable: float, canary: float, alpha: float = Z_ONE_SIDED_95, power: float = Z_POWER_80) -> int:
    """Requests per arm that distinguish two bad shares (0..1): (z_alpha + z_power)^2 (p1 q1 + p2 q2) / (p2 - p1)^2.
    Times a design effect of 2 to 5, as requests of one minute go together."""
    spread = stable * (1.0 - stable) + canary * (1.0 - canary)
    return math.ceil((alpha + power) ** 2 * spread / (canary - stable) ** 2)


def wilson(bad: float, of: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a share. (low, high), 0..1."""
    share, square = bad / of, z * z
    middle = share + square / (2 * of)
    half = z * math.sqrt(share * (1 - share) / of + square / (4 * of * of))
    return (middle - half) / (1 + square / of), (middle + half) / (1 + square / of)


def difference(
    canary: tuple[float, float], stable: tuple[float, float], z: float = Z_ONE_SIDED_95
) -> tuple[float, float, float]:
    """Bad share of the canary less that of the stable arm, each (bad, of): value, low and high end of Newcombe's
    interval (his method 10), 90 % at the default z."""
    (bad_c, of_c), (bad_s, of_s) = canary, stable
    at_c, at_s = bad_c / of_c, bad_s / of_s
    (low_c, high_c), (low_s, high_s) = wilson(bad_c, of_c, z), wilson(bad_s, of_s, z)
    value = at_c - at_s
    low = value - math.hypot(at_c - low_c, high_s - at_s)
    return value, low, value + math.hypot(high_c - at_c, at_s - low_s)
