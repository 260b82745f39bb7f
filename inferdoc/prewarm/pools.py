"""Plans for every pool of an origin: capacity and lead time measured where history shows them, prefill tied to
decode."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.command import Origin
from inferdoc.prewarm.build import Capacity, Wish, build_pool
from inferdoc.prewarm.plan import PoolRow, pool_plan, window_row
from inferdoc.prewarm.week import MINUTES, grouped, segments

DEFAULT_COLD_START = 300


@dataclass(frozen=True)
class Known:
    """What the user said. capacity: load per second per replica (None = measure); cold_start: seconds (None = measure,
    else the tier's, else five minutes); pd_ratio: prefill replicas per decode replica."""

    capacity: float | None = None
    cold_start: int | None = None
    pd_ratio: float | None = None


def plan_pools(origin: Origin, wish: Wish, known: Known) -> list[PoolRow]:
    """One row per pool. A pool whose capacity was not seen is an error that names the highest load seen: a guess would
    be worse than none."""
    if origin.path is not None:
        if known.capacity is None:
            raise InferdocError(
                "--rps-per-replica is needed with --input: a file of loads does not show what a replica serves"
            )
        (series,) = origin.series()
        cold = known.cold_start or DEFAULT_COLD_START
        return [
            build_pool(
                series, replace(wish, name=clean(series.name), capacity=Capacity(known.capacity), cold_start=cold)
            )
        ]
    rows = _from_source(origin, wish, known)
    return rows if known.pd_ratio is None else tied(rows, known.pd_ratio)


def clean(name: str) -> str:
    """A pool's name as Kubernetes can carry it."""
    kept = "".join(c if c.isalnum() and c.isascii() else "-" for c in name.lower()).strip("-")
    return kept[:63].strip("-") or "pool"


def _from_source(origin: Origin, wish: Wish, known: Known) -> list[PoolRow]:
    from inferdoc.forecast.capacity import capacities
    from inferdoc.forecast.fromsource import SIGNALS, pool_series

    loads = tuple(s for choices in SIGNALS.values() for choice in choices for s in choice)
    gathered, slos = origin.gathered(loads, capacity=True)
    measured = {c.pool: c for c in capacities(gathered, slos)}
    rows = []
    for name, pool, series in pool_series(gathered, origin.load, origin.step):  # type: ignore[arg-type]
        if origin.pool in (None, name):
            capacity = _capacity(known, name, series.unit, measured.get(name))
            cold, said = _cold_start(origin, known, pool.tier)
            made = replace(wish, name=name, role=pool.role, capacity=capacity, cold_start=cold)
            row = build_pool(series, made)
            rows.append(msgspec.structs.replace(row, notes=[*row.notes, *said]))
    if not rows:
        raise InferdocError(f"pool `{origin.pool}` was not seen" if origin.pool else "no pool shows this load")
    return rows


def _capacity(known: Known, name: str, unit: str, found: Any) -> Capacity:
    if known.capacity is not None:
        return Capacity(known.capacity, unit)
    value = None if found is None else found.per_second if unit.startswith("requests") else found.tokens
    if found is None or value is None:
        seen = "" if found is None else f"; the highest load seen was {found.highest:.4g} requests/s per replica"
        raise InferdocError(f"pool {name}: what a replica serves was not seen in history{seen}; give --rps-per-replica")
    low = value if found.low is None or not found.per_second else value * found.low / found.per_second
    held = f"the objective for {found.latency}" if found.verdict == "slo" else f"the {found.latency} knee"
    return Capacity(low, unit, f"measured at {held}, low end of its band")


def _cold_start(origin: Origin, known: Known, tier: str) -> tuple[int, list[str]]:
    if known.cold_start is not None or origin.open is None:
        return known.cold_start or DEFAULT_COLD_START, []
    from inferdoc.forecast.starts import cold_starts

    source, tiers, _, _ = origin.open()
    newest = source.latest_ms()
    if newest is not None:
        seen = cold_starts(source, newest // 1000)
        if seen.seconds is not None:
            return math.ceil(seen.seconds), [
                f"cold start: 90 % of {seen.count} starts took {seen.seconds:.0f} s or less"
            ]
    figure = tiers.tiers.get(tier)
    if figure is not None and figure.cold_start_s.value:
        return int(figure.cold_start_s.value), [f"cold start: no starts seen, the value of tier {tier} is taken"]
    return DEFAULT_COLD_START, ["cold start: no starts seen, five minutes are taken"]


def tied(rows: list[PoolRow], ratio: float) -> list[PoolRow]:
    """Prefill pools with at least `ratio` replicas per decode replica of the plan at every minute, so that neither side
    of a request waits for the other to warm. Needs one decode pool."""
    if ratio <= 0:
        raise InferdocError("--pd-ratio must be above 0: prefill replicas per decode replica")
    decode = [row for row in rows if row.role == "decode" and not row.forecast.abstained]
    prefill = [row for row in rows if row.role == "prefill"]
    if len(decode) != 1 or not prefill:
        raise InferdocError(f"--pd-ratio ties prefill to one decode pool; there are {len(decode)} with a schedule")
    wanted = np.ceil(pool_plan(decode[0]).floor * ratio - 1e-9).astype(np.int64)
    return [raised(row, wanted, decode[0]) if row.role == "prefill" else row for row in rows]


def raised(row: PoolRow, wanted: np.ndarray, decode: PoolRow) -> PoolRow:
    """The pool with its floor at least `wanted` (int64[10080], local week), within its maximum."""
    if row.zone != decode.zone:
        raise InferdocError(f"pools {row.name} and {decode.name} live by different clocks; plan them with one --tz")
    zone_of(row.zone)
    floor = np.minimum(np.maximum(pool_plan(row).floor, wanted), row.maximum)
    base = int(floor.min())
    reasons = {(w.start, w.replicas): w.reason for w in row.windows}
    windows = []
    for window in grouped(segments(floor, base)):
        made = window_row(window, f"keeps the ratio to {decode.name}")
        windows.append(msgspec.structs.replace(made, reason=reasons.get((made.start, made.replicas), made.reason)))
    forecast = row.forecast
    if forecast.abstained:
        forecast = msgspec.structs.replace(
            forecast, abstained=False, reason=f"follows {decode.name}: {forecast.reason}"
        )
    hours = round(float(floor.sum()) / 60, 2)
    base_hours = round(base * MINUTES / 60, 2)
    return msgspec.structs.replace(
        row, base=base, windows=windows, hours=hours, base_hours=base_hours, forecast=forecast
    )
