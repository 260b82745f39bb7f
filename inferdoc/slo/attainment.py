"""Measure how objectives are met: attainment, error budget, burn rate and goodput.

A histogram shows how many requests met one limit, not which ones. Of shares a and b at least a + b - 1 met both, and at
most the smaller of them; the lower end is what is proven (the Frechet bounds). Time per token is counted per request:
inter-token latency weights long outputs. Failed and refused requests count as requests; what clients
gave up themselves is in no series of vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from inferdoc import __version__
from inferdoc.capacity.service_level import joint_share
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.quantiles import NAME
from inferdoc.catalogue.signal import WIDE, Term
from inferdoc.catalogue.slo import FAST, SLOW, Slo, in_force, windows
from inferdoc.config import Config
from inferdoc.errors import ExitCode, InferdocError
from inferdoc.fleet.members import Assignment, FleetFilter, Pool
from inferdoc.judging.model import stamp
from inferdoc.judging.request import matcher
from inferdoc.slo.history import ROUTER, Counted, History, read_history
from inferdoc.slo.model import SCHEMA_ID, Bounds, Burning, Goodput, Kept, SloReport, Status, Unjudged, Verdict
from inferdoc.source.identified import Identified
from inferdoc.source.plan import BY
from inferdoc.source.reads import Grid
from inferdoc.times import length_of

DEFAULT_SINCE = "30d"


def opened(source: Identified, config: Config, catalogue: Catalogue, params: dict[str, Any]) -> History:
    """The requested time range. Raises SourceError if it has no engine."""
    return read_history(
        source,
        catalogue,
        [Assignment(p.pod, p.role, p.tier) for p in config.pods],
        params.get("since") or DEFAULT_SINCE,
        params.get("until") or "now",
        tuple(matcher(text) for text in params.get("labels") or ()),
    )


def chosen_pools(history: History, params: dict[str, Any]) -> list[Pool]:
    """The pools that the report is about. Raises InferdocError where none is, with those that there are."""
    chosen = FleetFilter(*(params.get(key) for key in ("model", "namespace", "tier", "role")))
    found = [pool for pool in history.pools if any(m.pool == pool and chosen.keeps(m) for m in history.fleet.members)]
    if not found:
        seen = sorted({f"{p.namespace} {p.model} {p.role} {p.tier}".strip() for p in history.pools})
        raise InferdocError(f"no pool matches; available: {', '.join(seen)}")
    return found


def shown(source: Identified, config: Config, catalogue: Catalogue, params: dict[str, Any]) -> SloReport:
    """Attainment, error budget, burn rate and goodput."""
    history = opened(source, config, catalogue, params)
    pools = chosen_pools(history, params)
    objectives, unjudged = measure_attainment(history, catalogue.slos, pools)
    served, unserved = goodput(history, catalogue.slos, pools)
    return SloReport(
        schema_=SCHEMA_ID,
        inferdoc_version=__version__,
        source=source.location,
        from_=stamp(history.begin_ms / 1000),
        until=stamp(history.end_ms / 1000),
        requested_seconds=length_of(params.get("since") or DEFAULT_SINCE),
        seen_seconds=history.seconds,
        verdict=_verdict(objectives),
        objectives=objectives,
        goodput=served,
        not_judged=[*unjudged, *unserved],
    )


def _verdict(objectives: list[Kept]) -> Verdict:
    """What buckets leave open is not met: a limit between two bounds proves nothing."""
    statuses = {one.status for one in objectives}
    if "missed" in statuses:
        return "missed"
    return "met" if "met" in statuses and "between" not in statuses else "unknown"


def exit_code(report: SloReport) -> int:
    """0: all evaluated objectives are met; 1: one is missed; 3: not enough data."""
    return {"met": ExitCode.OK, "missed": ExitCode.FINDINGS, "unknown": ExitCode.UNKNOWN}[report.verdict]


FIRST_TOKEN, PER_TOKEN = "ttft", "tpot_request"
SERVED = Term(rate="vllm:request_success_total", match={"finished_reason": "~stop|length|repetition"})
FAILED = Term(rate="vllm:request_success_total", match={"finished_reason": "error"})
REFUSED = Term(rate="vllm:admission_rejections_total")
ROUTER_FAILED = Term(rate="llm_d_epp_request_error_total")


@dataclass(frozen=True)
class _Requests:
    """Requests by pool: served, and those that failed or were refused."""

    served: dict[Pool, float]
    lost: dict[Pool, float]


def goodput(history: History, slos: Sequence[Slo], pools: Sequence[Pool]) -> tuple[list[Goodput], list[Unjudged]]:
    """Per pool that sends whole answers, under the objectives in force there for the first token and for the time per
    token; a pool without one of them, or without its counts, is listed."""
    grid = history.whole()
    requests = _Requests(_by_pool(history, SERVED, grid), _lost(history, grid))
    found: list[Goodput] = []
    unjudged: list[Unjudged] = []
    for pool in pools:
        if pool.role == "prefill" or not requests.served.get(pool):
            continue
        answer = _of_pool(history, pool, [*in_force(slos, pool).values()], requests)
        (found if isinstance(answer, Goodput) else unjudged).append(answer)  # type: ignore[arg-type]
    return found, unjudged


def _of_pool(history: History, pool: Pool, slos: Sequence[Slo], requests: _Requests) -> Goodput | Unjudged:
    strictest = {_family(slo): slo for slo in sorted(slos, key=lambda slo: -slo.target)}
    chosen = [strictest[family] for family in (FIRST_TOKEN, PER_TOKEN) if family in strictest]
    missing = {FIRST_TOKEN, PER_TOKEN} - strictest.keys()
    if missing:
        text = f"needs an objective on {' and on '.join(sorted(missing))} too"
        return Unjudged("goodput", place_text(pool), text)
    shares = []
    for slo in chosen:
        one = history.of_slo(slo, history.whole()).get(pool)
        if one is None or one.share is None:
            name = slo.histogram(history.catalogue.signals)
            return Unjudged("goodput", place_text(pool), f"no requests were counted in {name}")
        shares.append(one.share)
    low, _ = joint_share([share[0] for share in shares])
    _, high = joint_share([share[1] for share in shares])
    served, lost = requests.served[pool], requests.lost.get(pool, 0.0)
    part = served / (served + lost)
    return Goodput(
        place=pool,
        objectives=tuple(slo.id for slo in chosen),
        good=Bounds(low * served / history.seconds, high * served / history.seconds),
        share=Bounds(low * part, high * part),
        requested=(served + lost) / history.seconds,
        note=_router_note(history, pool),
    )


def _lost(history: History, grid: Grid) -> dict[Pool, float]:
    failed, refused = _by_pool(history, FAILED, grid), _by_pool(history, REFUSED, grid)
    at_router = _at_router(history, grid)
    lost = {pool: failed.get(pool, 0.0) + refused.get(pool, 0.0) for pool in {*failed, *refused}}
    for pool in history.pools:
        if len(_serving(history, pool)) == 1 and pool.family in at_router:
            lost[pool] = lost.get(pool, 0.0) + at_router[pool.family]
    return lost


def _router_note(history: History, pool: Pool) -> str | None:
    """Several pools behind one router share its errors, and nothing says how."""
    errors = _at_router(history, history.whole()).get(pool.family)
    alone = len(_serving(history, pool)) == 1 and pool.role != "prefill"
    return None if not errors or alone else f"{errors:.0f} requests that failed at the router are in no pool"


def _serving(history: History, pool: Pool) -> list[Pool]:
    """The pools that send whole answers of the model of this one."""
    return [other for other in history.pools if other.family == pool.family and other.role != "prefill"]


def _at_router(history: History, grid: Grid) -> dict[tuple[str, str, str], float]:
    found: dict[tuple[str, str, str], float] = {}
    for entity, values in history.counts(ROUTER_FAILED, grid, BY["router"]).items():
        pool = history.pool_of(entity, wide=True)
        if pool is not None:
            found[pool.family] = found.get(pool.family, 0.0) + float(np.sum(values))
    return found


def _by_pool(history: History, term: Term, grid: Grid) -> dict[Pool, float]:
    found: dict[Pool, float] = {}
    for entity, values in history.counts(term, grid, BY["engine"]).items():
        pool = history.pool_of(entity)
        if pool is not None:
            found[pool] = found.get(pool, 0.0) + float(np.sum(values))
    return found


def _family(slo: Slo) -> str:
    match = NAME.fullmatch(slo.signal)
    return match["family"] if match and slo.kind == "latency" else ""


PER_TOKEN_HISTOGRAMS = ("vllm:request_time_per_output_token_seconds", "vllm:inter_token_latency_seconds")
"""Of a prefill pod, whose requests end with their first token, these say nothing (it observes zeros or none)."""
REACHES = 0.9
"""Data reach over a window when they cover so much of it."""


def measure_attainment(
    history: History, slos: Sequence[Slo], pools: Sequence[Pool]
) -> tuple[list[Kept], list[Unjudged]]:
    """Every objective that is in force in one of the pools, and those that cannot be judged."""
    found: list[Kept] = []
    unjudged: list[Unjudged] = []
    for slo in slos:
        for answer in _of_slo(history, slo, slos, pools):
            (found if isinstance(answer, Kept) else unjudged).append(answer)  # type: ignore[arg-type]
    return found, unjudged


def _of_slo(history: History, slo: Slo, slos: Sequence[Slo], pools: Sequence[Pool]) -> Iterator[Kept | Unjudged]:
    if slo.kind == "level":
        yield Unjudged(slo.id, slo.scope.text, "there are no events to count; diagnose holds the signal to it")
        return
    lacking = sorted({label for label, _ in slo.scope.tenant} - history.labels_of(slo)) if slo.scope.tenant else []
    if lacking:
        what = f"its series have no label {', '.join(lacking)}, so tenants cannot be distinguished"
        yield Unjudged(slo.id, slo.scope.text, what)
        return
    counted = history.of_slo(slo, history.whole())
    above = history.catalogue.signals[slo.signal].level in WIDE
    places = [pool for pool in counted if slo.scope.holds_above(pool)] if above else list(pools)
    applicable = [pool for pool in places if _applies(slo, slos, pool)]
    judged = False
    for pool in applicable:
        if pool.role == "prefill" and slo.histogram(history.catalogue.signals) in PER_TOKEN_HISTOGRAMS:
            if slo.scope.role == "prefill":
                yield Unjudged(slo.id, place_text(pool), "a prefill pod ends every request with its first token")
            continue
        one = counted.get(pool)
        if one is not None and one.share is not None:
            judged = True
            yield _measure_slo(history, slo, pool, one)
    if not judged:
        yield Unjudged(slo.id, slo.scope.text, _why(history, slo, applicable))


def _applies(slo: Slo, slos: Sequence[Slo], pool: Pool) -> bool:
    if slo.scope.tenant or pool.role == ROUTER:
        return slo.scope.holds_above(pool) if pool.role == ROUTER else slo.scope.holds(pool)
    return in_force(slos, pool).get(slo.signal) == slo


def _why(history: History, slo: Slo, applicable: Sequence[Pool]) -> str:
    if not applicable:
        return "no pool is in its scope" if slo.scope.fields else "nothing that it counts was seen"
    signal = history.catalogue.signals[slo.signal]
    name = slo.histogram(history.catalogue.signals)
    hint = f"; {signal.enable}" if signal.enable else ""
    return f"no requests were counted in {name or slo.signal}{hint}"


def _measure_slo(history: History, slo: Slo, pool: Pool, one: Counted) -> Kept:
    assert slo.good is not None and one.share is not None
    burns = tuple(_burning(history, slo, pool, window) for window in windows())
    low, high = one.share
    return Kept(
        objective=slo.id,
        title=slo.title,
        signal=slo.signal,
        target=slo.target,
        unit=history.catalogue.signals[slo.signal].unit,
        target_share=slo.good,
        is_slo=slo.agreed,
        tenant=dict(slo.scope.tenant),
        place=pool,
        status=_status(one.events, low, high, slo.good, history.catalogue.objectives.min_events),
        events=round(one.events, 3),
        attained=Bounds(low, high),
        budget_left=Bounds(1 - (1 - low) / (1 - slo.good), 1 - (1 - high) / (1 - slo.good)),
        bounds=tuple(None if b == float("inf") else b for b in (one.below, one.above)),  # type: ignore[arg-type]
        seen_seconds=history.seconds,
        window_seconds=length_of(slo.window),
        burn=burns,
        alerting=_alerting(slo, burns),
    )


def _status(events: float, low: float, high: float, target: float, least: int) -> Status:
    if events < least:
        return "too few"
    return "met" if low >= target else "missed" if high < target else "between"


def _burning(history: History, slo: Slo, pool: Pool, window: str) -> Burning:
    """The burn over the last window, from the short steps; of a window below one of them none is known."""
    assert slo.good is not None
    if history.seconds < REACHES * length_of(window):
        return Burning(window, None)
    grid = history.fine(SLOW[-1].long)
    steps = round(1000 * length_of(window) / grid.step_ms)
    one = history.of_slo(slo, grid).get(pool) if steps else None
    share = None if one is None else one.last(steps).share
    budget = 1 - slo.good
    return Burning(window, None if share is None else Bounds((1 - share[1]) / budget, (1 - share[0]) / budget))


def _alerting(slo: Slo, burns: Sequence[Burning]) -> Literal["fast", "slow"] | None:
    """The pair that burns too fast in both of its windows for sure."""
    rates = {burning.window: burning.rate for burning in burns}
    pairs: tuple[tuple[Literal["fast", "slow"], tuple[object, ...]], ...] = (("fast", FAST), ("slow", SLOW))
    for speed, several in pairs:
        for burn in several:
            both = [rates.get(window) for window in (burn.long, burn.short)]  # type: ignore[attr-defined]
            limit = burn.factor(slo.window)  # type: ignore[attr-defined]
            if all(rate is not None and rate.low > limit for rate in both):
                return speed
    return None


def place_text(place: Pool) -> str:
    """In words: "prod/llm llama, decode, h100-80"."""
    where = "/".join(part for part in (place.cluster, place.namespace) if part)
    head = " ".join(part for part in (where, place.model) if part) or "all"
    rest = [part for part in ("" if place.role == "both" else place.role, place.tier) if part and part != "unknown"]
    return ", ".join([head, *rest])
