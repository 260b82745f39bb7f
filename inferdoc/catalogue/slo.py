"""One service level objective and whom it covers, and which of several holds in a place.

Declared in alerts/slo.yaml (shipped, or in an overlay folder beside your rules) or in [[slo]] of inferdoc.toml; either
way it becomes the same object, and diagnosis, alerts, burn rates, boards, audit, capacity and `inferdoc slo` read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from inferdoc.catalogue.signal import Reading, Signal, Term
from inferdoc.times import length_of


@dataclass(frozen=True)
class Burn:
    """spent: share of the period's budget that is gone when this rate lasted for the long window."""

    spent: float
    long: str
    short: str

    def factor(self, period: str) -> float:
        """How many times faster than sustainable the budget burns."""
        return self.spent * length_of(period) / length_of(self.long)


FAST = (Burn(0.02, "1h", "5m"), Burn(0.05, "6h", "30m"))
SLOW = (Burn(0.10, "1d", "2h"), Burn(0.10, "3d", "6h"))
"""The pairs of the SRE workbook, chapter "Alerting on SLOs"."""


def windows() -> list[str]:
    """Every window that a pair looks at, the shortest first."""
    return sorted({window for burn in (*FAST, *SLOW) for window in (burn.short, burn.long)}, key=length_of)


Kind = Literal["latency", "share", "level"]
"""latency: a share of the observations of a histogram lies within the target; share: bad events of all are at most the
target; level: the signal is at most the target, and there are no events to count."""


class ServedPool(Protocol):
    """A pool as objectives distinguish pools. cluster, namespace: empty if no label names it."""

    @property
    def cluster(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def tier(self) -> str: ...
    @property
    def role(self) -> str: ...


OF_PODS = ("tier", "role")
"""What only pods have: what is counted above them, by a router, is of none."""


@dataclass(frozen=True)
class Audience:
    """Whom an objective covers; None or empty: everybody. tenant: (label, value) pairs of the series."""

    cluster: str | None = None
    namespace: str | None = None
    model: str | None = None
    tier: str | None = None
    role: str | None = None
    tenant: tuple[tuple[str, str], ...] = ()

    def holds(self, pool: ServedPool) -> bool:
        """Whether a pool is within it, tenants aside."""
        return all(getattr(pool, key) == value for key, value in self.fields.items())

    def holds_above(self, pool: ServedPool) -> bool:
        """The same of what is counted above the pods."""
        return all(getattr(pool, key) == value for key, value in self.fields.items() if key not in OF_PODS)

    def within(self, other: Audience) -> bool:
        """Whether it is a narrower part of another scope of the same tenants."""
        mine, others = self.fields, other.fields
        return self != other and self.tenant == other.tenant and others.items() <= mine.items()

    @property
    def fields(self) -> dict[str, str]:
        """What it names, tenants aside."""
        named = {
            "cluster": self.cluster,
            "namespace": self.namespace,
            "model": self.model,
            "tier": self.tier,
            "role": self.role,
        }
        return {key: value for key, value in named.items() if value is not None}

    @property
    def text(self) -> str:
        """In words: "model llama, tier h100-80"; "every pool" where it names nothing."""
        words = [f"{key} {value}" for key, value in self.fields.items()]
        words += [f"{label} {value}" for label, value in self.tenant]
        return ", ".join(words) or "every pool"


@dataclass(frozen=True)
class Slo:
    """signal: a quantile (ttft_p99), a share (error_share) or another signal, at most `target` in its unit;
    good: the share of events that has to be good, over `window`, None for a level; agreed: not only a starting point;
    burn: whether rules watch its burn rate; where: the file and the place it is declared in."""

    id: str
    title: str
    signal: str
    kind: Kind
    target: float
    good: float | None
    window: str
    scope: Audience = Audience()
    agreed: bool = True
    burn: bool = True
    where: str = ""

    def histogram(self, signals: Mapping[str, Signal]) -> str | None:
        """The histogram that its events are counted in, under its current name; None where there is none."""
        return signals[self.signal].readings[0].quantile if self.kind == "latency" else None


def events_of(signal: Signal, reading: Reading | None = None) -> tuple[Term, Term] | None:
    """The counters of bad and of all events that a share is made of, by one of its readings, else the first; None for
    another signal."""
    reading = reading or signal.readings[0]
    above, slash, below = (reading.formula or "").partition(" / ")
    if signal.unit != "ratio" or not slash:
        return None
    bad, every = reading.terms.get(above), reading.terms.get(below)
    return None if bad is None or every is None or bad.rate is None or every.rate is None else (bad, every)


def in_force(slos: Iterable[Slo], pool: ServedPool) -> dict[str, Slo]:
    """The objectives of a pool by signal: of several on one signal the one that names more of it, then the later. An
    objective of tenants alone is no limit of the pool."""
    fitting = [slo for slo in slos if not slo.scope.tenant and slo.scope.holds(pool)]
    return {slo.signal: slo for slo in sorted(fitting, key=lambda slo: len(slo.scope.fields))}


def limits(slos: Iterable[Slo], pool: ServedPool) -> dict[str, float]:
    """The objectives of the users of a pool: signal -> target in its unit."""
    agreed = (slo for slo in slos if slo.agreed)
    return {name: slo.target for name, slo in in_force(agreed, pool).items()}


def narrower(slo: Slo, slos: Iterable[Slo]) -> list[Slo]:
    """The other objectives on the same signal that take a part of its scope out."""
    return [other for other in slos if other.signal == slo.signal and other.scope.within(slo.scope)]
