"""Goodput: requests that met all of their objectives.

A histogram shows how many requests met one limit, not which ones. Of shares a and b at least a + b - 1 met both, and at
most the smaller of them; the lower end is what is proven (the Frechet bounds). Time per token is counted per request:
inter-token latency weights long outputs. Failed and refused requests count as requests; what clients
gave up themselves is in no series of vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.capacity.service_level import joint_share
from inferdoc.catalogue.quantiles import NAME
from inferdoc.catalogue.signal import Term
from inferdoc.catalogue.slo import Slo, in_force
from inferdoc.fleet.members import Pool
from inferdoc.slo.attainment import place_of, place_text
from inferdoc.slo.history import History
from inferdoc.slo.model import Bounds, Goodput, Unjudged
from inferdoc.source.plan import BY
from inferdoc.source.reads import Grid

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
        place=place_of(pool),
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
