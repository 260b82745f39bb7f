"""Options of a plan: each for all pools, or for one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from inferdoc.errors import InferdocError
from inferdoc.forecast.engine import Request
from inferdoc.forecast.units import BY_ROLE, LoadUnit, Rate, rate_of
from inferdoc.prewarm.build import Capacity, PoolOptions
from inferdoc.prewarm.defaults import CHANGE_HOURS, WINDOWS
from inferdoc.prewarm.plan import PlanRow
from inferdoc.prewarm.policy import POLICIES, Limits, settings_of

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
    """What a replica serves, as given: for all pools, and for some."""

    usual: tuple[Rate, ...] = ()
    own: Mapping[str, tuple[Rate, ...]] = field(default_factory=dict)

    def of(self, pool: str, role: str) -> tuple[Rate, ...]:
        """Those that say something about a pool: its own, else those of all that are of a kind its role works on."""
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
        """Whether the plan before acts on the forecast of a pool; None where there was none, or it could not be
        judged."""
        row = next((row for row in self.previous.pools if row.name == pool), None) if self.previous else None
        return None if row is None or row.forecast.skill is None else not row.forecast.abstained

    def pool_options(self, pool: str, role: str, capacity: Capacity, cold_start: int) -> PoolOptions:
        """Options of one pool. cold_start: seconds."""
        chosen = POLICIES[self.policy.of(pool)]
        quantile, safety = self.quantile.of(pool), self.safety.of(pool)
        utilisation = self.utilisation.of(pool) or chosen.utilisation
        limits = Limits(
            minimum=self.minimum.of(pool),
            maximum=self.maximum.of(pool),
            ramp=self.ramp.of(pool),
            dwell=self.dwell.of(pool),
            budget=self.budget.of(pool),
            scale_to_zero=self.scale_to_zero,
            windows=self.windows,
        )
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
