"""Headroom as a document: `inferdoc.headroom/v1`. Every number has a unit, a range, a formula, inputs and a source."""

from __future__ import annotations

from typing import Literal

import msgspec

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
