"""What a source shows of every pool for its headroom: its load, what a replica serves, and how long one takes to start.

A pool that scales has few replicas by night and more at its peak: those of the peak count, or those of now where they
are more. What an autoscaler could add beyond them is no room that was ever seen.

The load that binds is that of which the pool comes nearest to what its replicas serve: prompt tokens or generated ones,
as its role works on them. A kind whose limit was seen comes before one of which only a lower bound is known: both
come from the same readings, so the latency does not follow the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from inferdoc.fleet.members import Pool
from inferdoc.forecast.capacity import PoolCapacity, Served, capacities
from inferdoc.forecast.command import Origin
from inferdoc.forecast.fromsource import SIGNALS, STEP, Gathered, Key, pool_name, pool_series
from inferdoc.forecast.series import DAY, LoadSeries, LoadUnit
from inferdoc.forecast.starts import ColdStart, cold_start, pool_starts
from inferdoc.json_document import JsonDocument
from inferdoc.sizing.model import Predicted, SizedPart

HEADROOM_SCHEMA_ID = "inferdoc.headroom/v1"
Holds = Literal["yes", "no", "unsure"]
Ticks = Literal["crosses", "not within the horizon", "beyond it now", "abstains"]


class Lost(msgspec.Struct):
    """What the peak does when something is lost. what: "one pod", "the fullest node", "the fullest zone"; name: of it;
    replicas: lost with it; share: the peak over what the others carry, None where none is left; holds: whether the
    limit is kept; more: replicas to add elsewhere so that it holds; because: in words."""

    what: str
    name: str
    replicas: int
    left: int
    share: Predicted | None
    holds: Holds
    more: Predicted
    because: str


class ForecastMoment(msgspec.Struct):
    """A time to come. at: RFC 3339, UTC; local: on the users' clock, "Tuesday 10:20"."""

    at: str
    local: str


class HeadroomClock(msgspec.Struct):
    """When the load of a pool passes what it carries. expected: the middle of the forecast over the middle of the knee;
    earliest: its 95 % path over the usable rate; ask_by: when the replicas must be requested to be ready then, None
    where that is now; reason: why there is none; numbers: hours, lead and replicas."""

    status: Ticks
    expected: ForecastMoment | None
    earliest: ForecastMoment | None
    ask_by: ForecastMoment | None
    reason: str
    numbers: list[Predicted]


class ApartCondition(msgspec.Struct):
    """What must hold for prefill and decode apart to pay. value: as measured; met; each None if
    unknown."""

    what: str
    value: float | None
    unit: str
    met: bool | None


class PhasesApart(msgspec.Struct):
    """One pool against two, or a pair against one. pools: by name, the prefill pool of a pair first; notes: what is
    assumed."""

    pools: list[str]
    summary: str
    part: SizedPart
    conditions: list[ApartCondition]
    notes: list[str]


class LoadPoint(msgspec.Struct):
    """The load of one interval, in the unit of the pool. at: Unix seconds in its middle; load: as seen; q50, q95: as
    forecast; None where there is none."""

    at: float
    load: float | None
    q50: float | None = None
    q95: float | None = None


class PoolHeadroom(msgspec.Struct, rename={"undetermined": "cannot_tell"}):
    """One pool. replicas: that count; unit: of the load that binds; usable, knee: of the whole pool, knee None where
    only a lower bound is known; undetermined: one line each, with what to do; notes: what to know before using the
    numbers; drawn: for the plot."""

    pool: str
    model: str
    role: str
    tier: str
    replicas: int
    unit: str
    summary: str
    parts: list[SizedPart]
    lost: list[Lost]
    clock: HeadroomClock
    usable: float
    knee: float | None
    undetermined: list[str]
    notes: list[str]
    drawn: list[LoadPoint]


class LeftOut(msgspec.Struct):
    """A pool that is not evaluated, and why."""

    pool: str
    because: str


class HeadroomAnswer(JsonDocument, rename={"schema_": "schema", "from_": "from", "undetermined": "cannot_tell"}):
    """All pools. from, until: the interval whose peak counts; zone: of local times; horizon_hours: how far ahead the
    clock looks; apart: whether prefill and decode pay apart; undetermined: of any pool; notes: on what
    was requested."""

    schema_: str
    inferdoc_version: str
    source: str
    from_: str
    until: str
    zone: str
    horizon_hours: float
    pools: list[PoolHeadroom]
    apart: list[PhasesApart]
    left_out: list[LeftOut]
    undetermined: list[str]
    notes: list[str]


PEAK = 0.95
"""Quantile of the load that is its peak (reference: capacity, section C4)."""
NOW_BINS = 3
"""Of five minutes: what is there in any of them is there now."""
LIMIT_SEEN = ("slo", "p99")


@dataclass(frozen=True)
class PoolLoad:
    """Load of one pool and kind over the requested interval, per second. now: mean of the last quarter hour; peak:
    its 95 % quantile; mean: of all; series: the whole history."""

    now: float
    peak: float
    mean: float
    series: LoadSeries


@dataclass(frozen=True)
class PoolReading:
    """One pool. ready: the pods that are there now; replicas: those that count; load: of the kind that binds, `served`
    what one replica serves of it; requests: per second, mean over the interval, None where not counted."""

    pool: Pool
    name: str
    ready: tuple[Key, ...]
    replicas: int
    capacity: PoolCapacity
    served: Served
    load: PoolLoad
    requests: float | None
    cold: ColdStart

    @property
    def usable(self) -> float:
        """What one replica carries to plan with, per second: the low end of the band."""
        assert self.served.safe is not None
        return self.served.safe.per_second

    @property
    def carries(self) -> float:
        """What all its replicas carry to plan with, per second."""
        return self.usable * self.replicas

    @property
    def knee(self) -> tuple[float | None, float | None]:
        """The middle and the high end of what one replica carries; None where only a lower bound is known."""
        if self.served.verdict not in LIMIT_SEEN or self.served.rate is None:
            return None, None
        middle = self.served.rate.per_second
        return middle, middle if self.served.high is None else self.served.high

    @property
    def limit(self) -> str:
        """What is at stake, in words."""
        return "its objective" if self.served.limit is not None else "its knee"


@dataclass(frozen=True)
class FleetReading:
    """pools: by name, those that can be evaluated; left_out: name -> why of the others; begin, end: Unix
    seconds of the interval whose peak counts."""

    gathered: Gathered
    pools: Mapping[str, PoolReading]
    left_out: Mapping[str, str]
    begin: int
    end: int


def read_fleet(origin: Origin, since: int, replicas: Callable[[str], int | None]) -> FleetReading:
    """Every pool of the origin. since: seconds whose peak counts; replicas: those that count, by pool, None where they
    are to be looked for. Raises InferdocError where no engine was seen."""
    gathered = origin.gathered(SIGNALS, STEP)
    history, slos = origin.capacity_history
    known = {each.pool: each for each in capacities(history, slos, origin.unit)}
    starts = pool_starts(origin.opened.source, gathered, origin.match)
    pools: dict[str, PoolReading] = {}
    left_out: dict[str, str] = {}
    for pool, keys in gathered.pools().items():
        name = pool_name(pool)
        if origin.pool not in (None, name):
            continue
        cold = cold_start(None, starts.get(pool), pool.tier, origin.opened.tiers.cold_start(pool.tier).value)
        found = _bound(gathered, pool, known.get(name), since)
        ready = tuple(key for key in keys if _there(gathered, [key])[-NOW_BINS:].any())
        if isinstance(found, str) or not ready:
            left_out[name] = found if isinstance(found, str) else "none of its pods answers now"
            continue
        capacity, served, load = found
        requests = load_of(gathered, pool, LoadUnit.REQUESTS, since)
        pools[name] = PoolReading(
            pool,
            name,
            ready,
            replicas(name) or max(len(ready), _at_peak(gathered, keys, load, since)),
            capacity,
            served,
            load,
            None if requests is None or requests.mean <= 0 else requests.mean,
            cold,
        )
    begin = max(gathered.end - since, gathered.first_seen)
    return FleetReading(gathered, dict(sorted(pools.items())), dict(sorted(left_out.items())), begin, gathered.end)


def _there(gathered: Gathered, keys: Sequence[Key]) -> np.ndarray:
    """int64[bins]: how many of some pods show an engine."""
    running = gathered.rows.get("running", {})
    rows = [np.isfinite(running[key]) for key in keys if key in running]
    return np.asarray(np.sum(rows, axis=0) if rows else np.zeros(gathered.count, dtype=np.int64))


def _at_peak(gathered: Gathered, keys: Sequence[Key], load: PoolLoad, since: int) -> int:
    """Replicas at the busiest twentieth of the interval, in the middle."""
    recent = load.series.before(load.series.end, since / DAY).values
    there = _there(gathered, keys)[-len(recent) :]
    return int(np.median(there[recent >= load.peak]))


def _bound(
    gathered: Gathered, pool: Pool, capacity: PoolCapacity | None, since: int
) -> tuple[PoolCapacity, Served, PoolLoad] | str:
    """The kind of load that binds and what one replica serves of it, or why that is unknown."""
    if capacity is None:
        return "no load beside a latency was seen in the last week"
    loads = {each.unit: load_of(gathered, pool, each.unit, since) for each in capacity.served}
    if not any(loads.values()):
        signals = sorted({name for unit in loads for choice in SIGNALS[unit] for name in choice})
        return f"no metric shows its load ({', '.join(signals)}): `inferdoc doctor` says what is missing"
    if not any(load is not None and load.peak > 0 for load in loads.values()):
        return "it had no load in the interval requested"
    ranked = []
    for served in capacity.served:
        load = loads[served.unit]
        if served.safe is not None and load is not None and served.safe.per_second > 0:
            near = load.peak / served.safe.per_second
            ranked.append((served.verdict in LIMIT_SEEN, near, served, load))
    if not ranked:
        return f"what a replica serves is not known: {capacity.served[0].basis}"
    _, _, served, load = max(ranked, key=lambda each: each[:2])
    return capacity, served, load


def load_of(gathered: Gathered, pool: Pool, unit: LoadUnit, since: int) -> PoolLoad | None:
    """The load of a pool in a unit; None where nothing shows it in the interval. since: seconds."""
    series = pool_series(gathered, pool, unit)
    if series is None:
        return None
    values = series.before(series.end, since / DAY).values
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    last = values[-NOW_BINS:][np.isfinite(values[-NOW_BINS:])]
    now = float(last.mean()) if len(last) else float("nan")
    return PoolLoad(now, float(np.quantile(known, PEAK)), float(known.mean()), series)
