"""How well objectives were kept in each pool, what is left of their budgets, and how fast they burn now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from inferdoc.catalogue.burn import FAST, SLOW, windows
from inferdoc.catalogue.signal import WIDE
from inferdoc.catalogue.slo import Slo, in_force
from inferdoc.fleet.members import Pool
from inferdoc.slo.buckets import Counted
from inferdoc.slo.history import ROUTER, History
from inferdoc.slo.model import Bounds, Burning, Kept, PoolPlace, Status, Unjudged
from inferdoc.times import length_of

PER_TOKEN = ("vllm:request_time_per_output_token_seconds", "vllm:inter_token_latency_seconds")
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
        if pool.role == "prefill" and slo.histogram(history.catalogue.signals) in PER_TOKEN:
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
        is_slo=slo.promised,
        tenant=dict(slo.scope.tenant),
        place=place_of(pool),
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


def place_of(pool: Pool) -> PoolPlace:
    """A pool as a report says it."""
    return PoolPlace(pool.cluster, pool.namespace, pool.model, pool.role, pool.tier)


def place_text(place: Pool | PoolPlace) -> str:
    """In words: "prod/llm llama, decode, h100-80"."""
    where = "/".join(part for part in (place.cluster, place.namespace) if part)
    head = " ".join(part for part in (where, place.model) if part) or "all"
    rest = [part for part in ("" if place.role == "both" else place.role, place.tier) if part and part != "unknown"]
    return ", ".join([head, *rest])
