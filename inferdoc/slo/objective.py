"""Objectives of one command: from its flag, else the SLOs, else the defaults of alerts/slo.yaml."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from inferdoc.catalogue.quantiles import NAME
from inferdoc.catalogue.slo import ServedPool, Slo, in_force
from inferdoc.errors import InferdocError
from inferdoc.times import length_of

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
