"""The answer of `inferdoc slo show` (`inferdoc.slo/v1`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from inferdoc.catalogue.quantiles import NAME
from inferdoc.catalogue.slo import ServedPool, Slo, in_force
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Pool
from inferdoc.times import length_of

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


ERRORS = "error_share"
FAMILIES = ("ttft", "itl", "tpot_request", "e2e")
"""Latencies by the names of their signals. itl: single gaps; tpot_request: the mean gap of each request, which
`vllm bench serve` calls tpot and GuideLLM and AIPerf call inter-token latency (reference: capacity, section G)."""


class Objective(msgspec.Struct, frozen=True):
    """A signal that is at most limit, in its unit. assumed: a default, neither requested nor an SLO."""

    signal: str
    limit: float
    unit: str
    source: str
    assumed: bool = False


def objectives(requested: Sequence[str], slos: Sequence[Slo], pool: ServedPool) -> list[Objective]:
    """requested: SIGNAL=VALUE; slos: of the catalogue; pool: of the SLOs. The flag wins. Raises InferdocError."""
    found = {
        signal: Objective(
            signal,
            slo.target,
            _unit(signal),
            slo.where if slo.agreed else f"a default of alerts/slo.yaml ({slo.id}), not an SLO",
            not slo.agreed,
        )
        for signal, slo in in_force(slos, pool).items()
        if _is_reported(signal)
    }
    return list((found | {one.signal: one for one in map(_parsed, requested)}).values())


def _is_reported(signal: str) -> bool:
    match = NAME.fullmatch(signal)
    return signal == ERRORS or (match["family"] if match else signal.removesuffix("_mean")) in FAMILIES


def _unit(signal: str) -> str:
    return "ratio" if signal == ERRORS else "s"


def _parsed(text: str) -> Objective:
    signal, _, value = (part.strip() for part in text.partition("="))
    flag = f"--objective {text}"
    known = signal == ERRORS or NAME.fullmatch(signal) or signal.endswith("_mean")
    if not value or not (_is_reported(signal) and known):
        families = ", ".join(f"{family}_p99" for family in FAMILIES)
        raise InferdocError(f"{flag}: write SIGNAL=LIMIT, with one of {families} (any percentile, or _mean), {ERRORS}")
    limit = _share(flag, value) if signal == ERRORS else length_of(value, flag)
    if limit <= 0:
        raise InferdocError(f"{flag}: the limit must be above 0")
    return Objective(signal, limit, _unit(signal), "--objective")


def _share(flag: str, value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InferdocError(f"{flag}: a share from 0 to 1 is expected")
    return share
