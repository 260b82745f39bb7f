"""Pools that serve the same requests: a request that was prefilled waits for decode, and the other way round.

Each side is planned for its own kind of load, but both are ready at the same moment, a side without a rhythm of its own
follows the other, and --pd-ratio keeps a ratio of prefill to decode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Pool
from inferdoc.forecast.series import LoadSeries
from inferdoc.forecast.units import Load, Rate
from inferdoc.prewarm.build import Outlook, PoolOptions
from inferdoc.prewarm.plan import PoolRow, pool_plan, window_row
from inferdoc.prewarm.policy import CAP_DAYS
from inferdoc.prewarm.week import MINUTES, grouped, segments

OTHER = {"prefill": "decode", "decode": "prefill"}


@dataclass(frozen=True)
class PoolDraft:
    """A pool before it is planned: its load, its options, its outlook, and notes on the source of its numbers."""

    pool: Pool
    series: LoadSeries
    options: PoolOptions
    outlook: Outlook
    notes: tuple[str, ...] = ()


def started_together(pools: Sequence[PoolDraft]) -> list[PoolDraft]:
    """The pools, those of one model with prefill and decode apart with the longest cold start among them."""
    return [_as_early(each, [p for p in pools if p.pool.family == each.pool.family]) for each in pools]


def _as_early(each: PoolDraft, family: Sequence[PoolDraft]) -> PoolDraft:
    if not _others(each, family):
        return each
    slowest = max((p for p in family if p.pool.role in OTHER), key=lambda p: p.options.cold_start)
    if slowest.options.cold_start <= each.options.cold_start:
        return each
    early = f"started as early as {slowest.options.name}, {slowest.options.cold_start} s: a request needs both sides"
    options = replace(each.options, cold_start=slowest.options.cold_start)
    return replace(each, options=options, notes=(*each.notes, early))


def with_followers(pools: Sequence[PoolDraft]) -> list[PoolDraft]:
    """The pools, those without a forecast of their own with what the other side of their model is planned for."""
    return [_beside(each, [p for p in pools if p.pool.family == each.pool.family]) for each in pools]


def _beside(each: PoolDraft, family: Sequence[PoolDraft]) -> PoolDraft:
    others = _others(each, family)
    leading = [p for p in others if not p.outlook.result.abstained and p.outlook.load.values.any()]
    return _following(each, leading) if each.outlook.result.abstained and leading else each


def _others(each: PoolDraft, family: Sequence[PoolDraft]) -> list[PoolDraft]:
    return [p for p in family if p.pool.role == OTHER.get(each.pool.role)]


def _following(each: PoolDraft, leading: Sequence[PoolDraft]) -> PoolDraft:
    """The pool with a load in step with the other side's: as much of its own kind for one of theirs as over the last
    days."""
    theirs = sum(_recent(p) for p in leading)
    own = _recent(each)
    ahead = [p.outlook.load.values * (1.0 if p.options.tuning is None else p.options.safety) for p in leading]
    if not (theirs > 0 and own > 0) or len({len(values) for values in ahead}) > 1:
        return each
    unit, result = each.outlook.load.unit, each.outlook.result
    share = Rate(own / theirs, unit)
    names = ", ".join(p.options.name for p in leading)
    follows = f"follows {names}, {share.per_second:.3g} {unit.value} for 1 {leading[0].outlook.load.unit.value} there"
    result = replace(result, abstained=False, reason=f"{follows}; alone: {result.reason}", method="of the other side")
    result = replace(result, notes=(*result.notes, follows))
    return replace(each, outlook=Outlook(result, Load(np.sum(ahead, axis=0) * share.per_second, unit), None))


def _recent(each: PoolDraft) -> float:
    """The mean load of the last days, per second."""
    values = each.series.before(each.series.end, CAP_DAYS).values
    return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0


def tied(rows: list[PoolRow], ratio: float) -> list[PoolRow]:
    """Prefill pools with at least `ratio` replicas, all together, per decode replica of the plan at every minute, so
    that neither side of a request waits for the other to warm. Raises InferdocError where a side is missing."""
    if ratio <= 0:
        raise InferdocError("--pd-ratio must be above 0: prefill replicas per decode replica")
    decode = [row for row in rows if row.role == "decode" and not row.forecast.abstained]
    prefill = [row for row in rows if row.role == "prefill"]
    if not decode or not prefill:
        raise InferdocError(
            f"--pd-ratio ties prefill to decode; there are {len(decode)} decode and {len(prefill)} prefill pools "
            "with a schedule"
        )
    floors = {row.name: pool_plan(row).floor for row in prefill}
    have = np.sum(list(floors.values()), axis=0)
    required = np.ceil(np.sum([pool_plan(row).floor for row in decode], axis=0) * ratio - 1e-9)
    parts = {name: np.where(have > 0, floor / np.maximum(have, 1), 1 / len(floors)) for name, floor in floors.items()}
    return [
        raised(row, np.ceil(required * parts[row.name] - 1e-9).astype(np.int64), decode) if row.name in parts else row
        for row in rows
    ]


def raised(row: PoolRow, required: np.ndarray, decode: Sequence[PoolRow]) -> PoolRow:
    """The pool with its floor at least `required` (int64[10080], local week), within its maximum."""
    names = ", ".join(other.name for other in decode)
    if any(row.zone != other.zone for other in decode):
        raise InferdocError(f"pools {row.name} and {names} have different time zones; plan them with one --tz")
    floor = np.minimum(np.maximum(pool_plan(row).floor, required), row.maximum)
    base = int(floor.min())
    reasons = {(w.start, w.replicas): w.reason for w in row.windows}
    windows = []
    for window in grouped(segments(floor, base)):
        made = window_row(window, f"keeps the ratio to {names}")
        windows.append(msgspec.structs.replace(made, reason=reasons.get((made.start, made.replicas), made.reason)))
    forecast = row.forecast
    if forecast.abstained:
        forecast = msgspec.structs.replace(forecast, abstained=False, reason=f"follows {names}: {forecast.reason}")
    hours = round(float(floor.sum()) / 60, 2)
    base_hours = round(base * MINUTES / 60, 2)
    return msgspec.structs.replace(
        row, base=base, windows=windows, hours=hours, base_hours=base_hours, forecast=forecast
    )
