"""Suggest objectives: the tightest bucket bound that a pool met in nearly all healthy hours.

An hour is healthy if every engine of the pool was up and almost no request failed: an incident sets no objective. A
bound is met in an hour if the target share of its requests is at or below it; only bounds are tried,
since between two of them nothing is proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from inferdoc.fleet.members import UNKNOWN_TIER, Pool
from inferdoc.slo.attainment import FAILED, FIRST_TOKEN, PER_TOKEN
from inferdoc.slo.history import History
from inferdoc.source.frame import Entity
from inferdoc.source.histograms import common_bounds
from inferdoc.source.plan import BY
from inferdoc.source.reads import Grid, Read

FAMILIES = (FIRST_TOKEN, PER_TOKEN)
LEAST_HOURS = 24
"""A day has a night: fewer hours say nothing about the other part of it."""
HEALTHY_ERRORS = 0.01
"""More failed requests than this are an incident (design: one in a hundred)."""
ANSWERED = 0.95
"""Share of the scrapes of an hour that an engine answers where it was not away: a restart takes longer."""


class Suggestion(msgspec.Struct, frozen=True):
    """An objective that a part of the fleet met. hours, met: healthy hours with enough requests, and those in which the
    target was met; attained: share of good requests in all of them; tighter: the next tighter bound, the hours that met
    it and its share of good requests (None: there is none); left_out: hours by reason."""

    model: str
    role: str | None
    tier: str | None
    signal: str
    percentile: float
    target: float
    unit: str
    hours: int
    met: int
    requests: float
    attained: float
    tighter: tuple[float, int, float] | None
    left_out: dict[str, int]


class NoSuggestion(msgspec.Struct, frozen=True):
    """Why nothing can be suggested for a signal of a part of the fleet."""

    model: str
    role: str | None
    tier: str | None
    signal: str
    because: str


@dataclass(frozen=True)
class Strictness:
    """percentile: of the requests, that is to be within; share: of the healthy hours, in which it is met."""

    percentile: float = 99.0
    share: float = 0.95
    hour_seconds: float = 3600.0


@dataclass(frozen=True)
class _Part:
    """Pools that one objective would speak of: one model, role and tier, whatever their namespace."""

    model: str
    role: str
    tier: str
    pools: tuple[Pool, ...]

    @property
    def named(self) -> tuple[str, str | None, str | None]:
        """Model, role and tier as an objective says them."""
        role = None if self.role == "both" else self.role
        return self.model, role, None if self.tier == UNKNOWN_TIER else self.tier


def suggestions(history: History, pools: Sequence[Pool], strictness: Strictness) -> list[Suggestion | NoSuggestion]:
    """One per part of the fleet and histogram."""
    grid = history.grid(round(1000 * strictness.hour_seconds))
    found = []
    for part in _parts(pools):
        healthy, left_out = _healthy_hours(history, part, grid)
        for family in FAMILIES:
            if not (part.role == "prefill" and family == PER_TOKEN):
                found.append(_of_part(history, part, family, grid, healthy, dict(left_out), strictness))
    return found


def _parts(pools: Sequence[Pool]) -> Iterator[_Part]:
    for model, role, tier in sorted({(p.model, p.role, p.tier) for p in pools}):
        yield _Part(model, role, tier, tuple(p for p in pools if (p.model, p.role, p.tier) == (model, role, tier)))


def _of_part(
    history: History,
    part: _Part,
    family: str,
    grid: Grid,
    healthy: np.ndarray,
    left_out: dict[str, int],
    strictness: Strictness,
) -> Suggestion | NoSuggestion:
    signals = history.catalogue.signals
    signal = next(s for name, s in signals.items() if name.startswith(f"{family}_p") and s.readings[0].quantile)
    name = str(signal.readings[0].quantile)

    def refused(because: str) -> NoSuggestion:
        return NoSuggestion(*part.named, family, because)

    read = {e: c for way in signal.readings for e, c in history.latencies(way, grid, BY[signal.level]).items()}
    rows = [cells for entity, cells in read.items() if history.pool_of(entity) in part.pools]
    rows = [cells for cells in rows if np.inf in cells and np.nan_to_num(cells[np.inf]).any()]
    if not rows:
        return refused(f"no requests were counted in {name}")
    bounds = common_bounds(rows)
    if len(bounds) < 2:
        return refused(f"the engines cut {name} into buckets that have no bound in common")
    counts = np.array([np.sum([np.nan_to_num(cells[bound]) for cells in rows], axis=0) for bound in bounds])
    if (np.diff(counts, axis=0) < -0.01 * counts[-1] - 1e-6).any():
        return refused(f"the buckets of {name} are not cumulative: the page is damaged")
    least = history.catalogue.objectives.min_events
    enough = counts[-1] >= least
    left_out |= {f"fewer than {least} requests": int((healthy & ~enough).sum())}
    used = healthy & enough
    if used.sum() < LEAST_HOURS:
        why = ", ".join(f"{n} with {reason}" for reason, n in left_out.items() if n)
        return refused(
            f"{int(used.sum())} healthy hours with traffic, {LEAST_HOURS} are needed{f' ({why})' if why else ''}"
        )
    shares = counts[:-1, used] / counts[-1, used]
    met = (shares >= strictness.percentile / 100 - 1e-12).sum(axis=1)
    kept = np.flatnonzero(met >= strictness.share * used.sum())
    if not len(kept):
        return refused(
            f"{strictness.percentile:g} % of the requests are within the widest bound, {bounds[-2]:g} {signal.unit}, "
            f"in {int(met[-1])} of {int(used.sum())} healthy hours only"
        )
    place = int(kept[0])
    attained = counts[:, used].sum(axis=1) / counts[-1, used].sum()
    before = place - 1
    return Suggestion(
        *part.named,
        signal=family,
        percentile=strictness.percentile,
        target=bounds[place],
        unit=signal.unit,
        hours=int(used.sum()),
        met=int(met[place]),
        requests=float(counts[-1, used].sum()),
        attained=float(attained[place]),
        tighter=None if before < 0 else (bounds[before], int(met[before]), float(attained[before])),
        left_out={reason: n for reason, n in left_out.items() if n},
    )


def _healthy_hours(history: History, part: _Part, grid: Grid) -> tuple[np.ndarray, dict[str, int]]:
    """bool[T]: hours in which nothing was away and next to nothing failed; and how many are left out by reason."""

    def mine(found: dict[Entity, np.ndarray]) -> np.ndarray:
        rows = [values for entity, values in found.items() if history.pool_of(entity) in part.pools]
        return np.asarray(np.sum(rows, axis=0)) if rows else np.zeros(grid.count)

    bad = mine(history.counts(FAILED, grid, BY["engine"]))
    every = mine(history.counts(msgspec.structs.replace(FAILED, match={}), grid, BY["engine"]))
    failed = (bad > HEALTHY_ERRORS * every) & (bad >= 3)
    read = Read("up", "mean", BY["target"], agg="min")
    result = history.source.evaluate([read], grid, history.match)[read]
    members = {m.key for m in history.fleet.members if m.pool in part.pools}
    rows = [
        values
        for key, values in zip(result.keys, result.values, strict=True)
        if Entity.of(result.by, key).member in members
    ]
    away = (np.vstack(rows) < ANSWERED).any(axis=0) if rows else np.zeros(grid.count, dtype=bool)
    return ~failed & ~away, {
        "an engine that did not answer": int(away.sum()),
        "failed requests": int((failed & ~away).sum()),
    }
