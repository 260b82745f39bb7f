"""The answer of `inferdoc slo show` (`inferdoc.slo/v1`)."""

from __future__ import annotations

from typing import Literal

import msgspec

from inferdoc.fleet.members import Pool

SCHEMA_ID = "inferdoc.slo/v1"
Status = Literal["met", "missed", "between", "too few"]
"""between: the target lies between two buckets; too few: not enough events."""
Verdict = Literal["met", "missed", "unknown"]


class Bounds(msgspec.Struct, frozen=True):
    """At least and at most; the same where it is known."""

    low: float
    high: float


class Burning(msgspec.Struct, frozen=True):
    """How many times faster than sustainable the budget burns over the last `window`; None where the data do not reach
    over it, or it holds no events."""

    window: str
    rate: Bounds | None


class Kept(msgspec.Struct, frozen=True, rename={"target_share": "wanted", "is_slo": "promised"}):
    """One objective in one pool. attained: the share of good events; target_share: of good events; is_slo: false for a
    default; budget_left: of the errors that the time seen allows, 1 = none used, below 0 = more than all; bounds: those
    of the nearest buckets; seen_seconds, window_seconds: how much of the objective's window there are data for;
    alerting: the pair of windows that burns too fast now."""

    objective: str
    title: str
    signal: str
    target: float
    unit: str
    target_share: float
    is_slo: bool
    tenant: dict[str, str]
    place: Pool
    status: Status
    events: float
    attained: Bounds
    budget_left: Bounds
    bounds: tuple[float | None, float | None]
    seen_seconds: float
    window_seconds: float
    burn: tuple[Burning, ...]
    alerting: Literal["fast", "slow"] | None


class Goodput(msgspec.Struct, frozen=True, rename={"requested": "asked"}):
    """Requests of a pool that were within all of some objectives. good: per second; share: of all requests, with
    failed and refused ones; requested: all requests per second; objectives: their ids; note: what is not in it."""

    place: Pool
    objectives: tuple[str, ...]
    good: Bounds
    share: Bounds
    requested: float
    note: str | None = None


class Unjudged(msgspec.Struct, frozen=True):
    """An objective that could not be judged in a place, and why."""

    objective: str
    place: str
    because: str


class SloReport(
    msgspec.Struct, frozen=True, rename={"schema_": "schema", "from_": "from", "requested_seconds": "asked_seconds"}
):
    """Everything. from, until: the data that were read; requested_seconds: length of the range."""

    schema_: str
    inferdoc_version: str
    source: str
    from_: str
    until: str
    requested_seconds: float
    seen_seconds: float
    verdict: Verdict
    objectives: list[Kept]
    goodput: list[Goodput]
    not_judged: list[Unjudged]
