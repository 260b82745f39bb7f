"""Options of a plan, for all pools or for one of them: policies, limits, and the arithmetic from load to replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.engine import Request
from inferdoc.forecast.result import label
from inferdoc.forecast.series import BY_ROLE, Load, LoadUnit, Rate, rate_of
from inferdoc.prewarm import CHANGE_HOURS, WINDOWS
from inferdoc.prewarm.plan import PlanRow, TuningRow

MARGIN_SECONDS = 120
CROWD = 10
CROWD_LEAD = 1.5
CAP_QUANTILE, CAP_FACTOR, CAP_DAYS = 0.999, 1.05, 7.0
AVOIDED, PRICE = 0.80, 1.15
"""Criteria of a setting: the minimum share of a reactive scaler's overload that it avoids, and its maximum
replica-hours relative to perfect foresight."""
TRIED_QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95)
TRIED_SAFETIES = (0.8, 0.9, 1.0, 1.1, 1.2)


@dataclass(frozen=True)
class Policy:
    """quantile: of the forecast that the floor covers; utilisation: share of a replica's capacity that load may take
    before the floor adds another; capped: whether the quantile is limited to 1.05 x the 99.9 % load of the last 7 days
    (measured in docs/prewarm.md); margin_minutes: how far the load may come early or stay late, beside how high."""

    name: str
    quantile: float
    utilisation: float
    capped: bool
    margin_minutes: int = 0


POLICIES = {
    "economy": Policy("economy", 0.5, 0.70, False),
    "balanced": Policy("balanced", 0.9, 0.85, True),
    "safe": Policy("safe", 0.9, 0.75, True, 15),
}


@dataclass(frozen=True)
class Setting:
    """quantile: of the forecast; safety: factor on it."""

    quantile: float
    safety: float

    def __str__(self) -> str:
        return f"{label(self.quantile)} x {self.safety:g}"

    def is_at_least(self, other: Setting) -> bool:
        """Whether its floor is at no moment lower than the other's."""
        return self.quantile >= other.quantile and self.safety >= other.safety


def settings_of(quantile: float | None, safety: float | None) -> tuple[Setting, ...]:
    """The grid of settings; a value that the user gave is not varied."""
    quantiles = TRIED_QUANTILES if quantile is None else (quantile,)
    safeties = TRIED_SAFETIES if safety is None else (safety,)
    return tuple(Setting(q, s) for q in quantiles for s in safeties)


@dataclass(frozen=True)
class Limits:
    """minimum, maximum: replicas; ramp: replicas that may start within five minutes (None = any number); dwell: minimum
    seconds of a level; budget: replica-hours in a week (None = any); windows: maximum that may start on one day."""

    minimum: int = 1
    maximum: int = 100
    ramp: int | None = None
    dwell: int = 1800
    budget: float | None = None
    scale_to_zero: bool = False
    windows: int = WINDOWS

    def __post_init__(self) -> None:
        if self.minimum < 0 or self.maximum < 1 or self.minimum > self.maximum:
            raise InferdocError(f"--min {self.minimum} --max {self.maximum}: need 0 <= min <= max and max >= 1")
        if self.minimum == 0 and not self.scale_to_zero:
            raise InferdocError("--min 0 makes the first user wait for a cold start; add --scale-to-zero to allow it")
        if self.ramp is not None and self.ramp < 1:
            raise InferdocError("--ramp must be at least 1")
        if self.windows < 1:
            raise InferdocError("--max-windows must be at least 1")
        if self.dwell < 300:
            raise InferdocError("--dwell below 5 minutes makes replicas come and go; give at least 5m")


def replicas_for(load: Load, capacity: Rate, utilisation: float, safety: float = 1.0) -> np.ndarray:
    """int64[n]: replicas that carry a load when each may use `utilisation` of its capacity, of the same kind."""
    return np.ceil(np.round(load.over(capacity) * safety / utilisation, 9)).astype(np.int64)


def lead_seconds(cold_start: int, largest_step: int) -> int:
    """Seconds before the demand at which replicas are started: the cold start (half as much again when more than ten
    start together, since image pulls and weight loads compete) plus two minutes for polling and the scaler's sync."""
    return round(cold_start * (CROWD_LEAD if largest_step > CROWD else 1.0)) + MARGIN_SECONDS


@dataclass(frozen=True)
class Capacity:
    """The load that one replica serves at its SLO, and the source of the number."""

    rate: Rate
    source: str = "given"


@dataclass(frozen=True)
class PoolOptions:
    """Options of the plan of one pool. cold_start: seconds from creation to ready; safety: factor on the load;
    previous: the plan that is followed now; change_hours: replica-hours a week that a change against it must save;
    grid: the settings that a back-test may choose among; tuning: what it chose."""

    request: Request
    policy: Policy
    capacity: Capacity
    limits: Limits
    cold_start: int
    safety: float = 1.0
    role: str = "both"
    name: str = ""
    previous: PlanRow | None = None
    change_hours: float = CHANGE_HOURS
    grid: tuple[Setting, ...] = ()
    tuning: TuningRow | None = None


S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class PerPool(Generic[T]):
    """A value for all pools, and other values for some: pool -> value."""

    usual: T
    own: Mapping[str, T] = field(default_factory=dict)

    def of(self, pool: str) -> T:
        return self.own.get(pool, self.usual)

    @property
    def texts(self) -> tuple[str, ...]:
        """As options say it: the value for all pools, where there is one, and `POOL=value` for each of the others."""
        usual = () if self.usual is None else (str(self.usual),)
        return (*usual, *(f"{pool}={value}" for pool, value in self.own.items()))

    def map(self, change: Callable[[T], S]) -> PerPool[S]:
        """Every value changed."""
        return PerPool(change(self.usual), {pool: change(value) for pool, value in self.own.items()})


@dataclass(frozen=True)
class GivenRates:
    """Given capacities of a replica: for all pools, and for some."""

    usual: tuple[Rate, ...] = ()
    own: Mapping[str, tuple[Rate, ...]] = field(default_factory=dict)

    def of(self, pool: str, role: str) -> tuple[Rate, ...]:
        """The capacities of a pool: its own, else the general ones of a kind that its role works on."""
        fitting = (rate for rate in self.usual if rate.unit is LoadUnit.REQUESTS or rate.unit in BY_ROLE[role])
        return self.own.get(pool) or tuple(fitting)


def given_rates(texts: Iterable[str], rps: PerPool[float | None]) -> GivenRates:
    """`POOL=NUMBER UNIT`, or `NUMBER UNIT` for all pools; rps: requests per second. Raises InferdocError."""
    usual: list[Rate] = [] if rps.usual is None else [Rate(rps.usual, LoadUnit.REQUESTS)]
    own = {pool: [Rate(value, LoadUnit.REQUESTS)] for pool, value in rps.own.items() if value is not None}
    for text in texts:
        pool, _, number = text.rpartition("=")
        rate = rate_of(number, "--capacity")
        known = own.setdefault(pool.strip(), []) if pool else usual
        if any(other.unit == rate.unit for other in known):
            raise InferdocError(f"--capacity `{text}`: a capacity in {rate.unit.value} is given twice")
        known.append(rate)
    return GivenRates(tuple(usual), {pool: tuple(rates) for pool, rates in own.items()})


@dataclass(frozen=True)
class PlanOptions:
    """Options of every pool. request: horizon, moment and holidays; cold_start: seconds (None = measure, else the
    tier's, else five minutes); ramp, dwell, budget, minimum, maximum: of `Limits`; quantile, utilisation: instead of
    the policy's; safety: factor on the load (None = 1); tune: whether a back-test chooses quantile and safety where
    they are None; pd_ratio: prefill replicas per decode replica; windows: of `Limits`; previous, change_hours: the plan
    followed now, and what a change of it must save."""

    request: Request
    capacity: GivenRates = GivenRates()
    cold_start: PerPool[int | None] = PerPool(None)
    minimum: PerPool[int] = PerPool(1)
    maximum: PerPool[int] = PerPool(100)
    zone: PerPool[str] = PerPool("UTC")
    policy: PerPool[str] = PerPool("balanced")
    quantile: PerPool[float | None] = PerPool(None)
    utilisation: PerPool[float | None] = PerPool(None)
    safety: PerPool[float | None] = PerPool(None)
    ramp: PerPool[int | None] = PerPool(None)
    dwell: PerPool[int] = PerPool(1800)
    budget: PerPool[float | None] = PerPool(None)
    scale_to_zero: bool = False
    role: str = "both"
    pd_ratio: float | None = None
    windows: int = WINDOWS
    previous: PlanRow | None = None
    change_hours: float = CHANGE_HOURS
    tune: bool = False

    @property
    def named(self) -> set[str]:
        """The pools that an option names."""
        given = [self.capacity.own, *(part.own for part in vars(self).values() if isinstance(part, PerPool))]
        return {pool for own in given for pool in own}

    def _followed(self, pool: str) -> bool | None:
        """Whether the plan before acts on the forecast of a pool; None if there was no plan, or no measured skill."""
        row = next((row for row in self.previous.pools if row.name == pool), None) if self.previous else None
        return None if row is None or row.forecast.skill is None else not row.forecast.abstained

    def pool_options(self, pool: str, role: str, capacity: Capacity, cold_start: int) -> PoolOptions:
        """Options of one pool. cold_start: seconds."""
        chosen = POLICIES[self.policy.of(pool)]
        quantile, safety = self.quantile.of(pool), self.safety.of(pool)
        utilisation = self.utilisation.of(pool) or chosen.utilisation
        per_pool = {name: getattr(self, name).of(pool) for name in ("minimum", "maximum", "ramp", "dwell", "budget")}
        limits = Limits(**per_pool, scale_to_zero=self.scale_to_zero, windows=self.windows)
        return PoolOptions(
            request=replace(self.request, zone=self.zone.of(pool), followed=self._followed(pool)),
            policy=replace(chosen, quantile=quantile or chosen.quantile, utilisation=utilisation),
            capacity=capacity,
            limits=limits,
            cold_start=cold_start,
            safety=safety or 1.0,
            role=role,
            name=pool,
            previous=self.previous,
            change_hours=self.change_hours,
            grid=settings_of(quantile, safety) if self.tune else (),
        )
