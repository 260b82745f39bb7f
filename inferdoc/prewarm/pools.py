"""Plans for every pool of an origin: capacity and lead time measured where history shows them. A pool that cannot be
planned is left out with its reason.

Prefill and decode pools of a model serve the same requests. Each side is planned for its own kind of load, but both are
ready at the same moment, a side without a rhythm of its own follows the other, and --pd-ratio keeps their ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Pool
from inferdoc.forecast.capacity import PoolCapacity, Served, capacities
from inferdoc.forecast.command import Origin
from inferdoc.forecast.engine import HISTORY_DAYS
from inferdoc.forecast.fromsource import Gathered, add, called_alike, counted, pool_name, pool_series
from inferdoc.forecast.series import DAY, Load, LoadSeries, LoadUnit, Rate
from inferdoc.forecast.starts import DEFAULT_COLD_START, ColdStart, Starts, cold_start, pool_starts
from inferdoc.prewarm.build import Outlook, outlook, shaped
from inferdoc.prewarm.plan import PoolRow, pool_plan, window_row
from inferdoc.prewarm.plan_options import CAP_DAYS, CAP_QUANTILE, Capacity, PlanOptions, PoolOptions
from inferdoc.prewarm.replay import REPLAYED_DAYS, tuned
from inferdoc.prewarm.week import MINUTES, SLOT, grouped, segments
from inferdoc.times import rfc3339

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


OLDEST = DAY
EARLIEST = 600
"""Clocks differ by minutes; a load of later is stamped in another zone, or wrong."""
COARSEST = 3600
"""A schedule has times of day; bins longer than an hour do not hold them."""
ENOUGH = 100
FALLS_OF_A_COUNTER = 0.01
"""A load falls about as often as it rises; a counter only when its process restarts."""


def fit_for_a_plan(series: LoadSeries, now: int, chosen: bool = False) -> None:
    """Raises InferdocError, one line, for a series that no schedule can be made of. now: Unix seconds that the plan is
    made at; chosen: whether the user gave that time, so that later samples are left out and not an error."""
    last = _newest(series)
    if last is not None and not chosen and last - series.step - now > EARLIEST:
        raise InferdocError(
            f"the newest load is of {rfc3339(last)}, {_long(last - now)} after the plan: check the clock that stamped "
            "it (local time taken for UTC?), or plan as of a moment with --from"
        )
    series = series.before(now)
    newest = _newest(series)
    if newest is None:
        raise InferdocError("no load was seen")
    if now - newest > OLDEST:
        raise InferdocError(
            f"the newest load is of {rfc3339(newest)}, {(now - newest) / DAY:.1f} days before the plan: collect again, "
            "or plan as of then with --from"
        )
    if series.step > COARSEST:
        raise InferdocError(f"bins of {series.step / 3600:g} h hold no times of day; give bins of an hour or shorter")
    if _is_counter(series.values[np.isfinite(series.values)]):
        raise InferdocError(
            "the values only grow, as a raw counter does; give what was added per bin, or a rate such as rate(x[5m])"
        )


def _newest(series: LoadSeries) -> int | None:
    """Unix seconds just after the last known bin."""
    known = np.flatnonzero(np.isfinite(series.values))
    return series.start + series.step * (int(known[-1]) + 1) if len(known) else None


def _long(seconds: int) -> str:
    return f"{seconds / DAY:.1f} days" if seconds > DAY else f"{seconds / 3600:.1f} hours"


def _is_counter(values: np.ndarray) -> bool:
    """Whether values (float64[n]) almost never fall, and those that do fall below what was ever counted up from."""
    steps = np.diff(values)
    moves, falls = np.count_nonzero(steps), np.flatnonzero(steps < 0)
    resets = bool((values[falls + 1] < 0.5 * values[falls]).all())
    return bool(moves >= ENOUGH and len(falls) <= FALLS_OF_A_COUNTER * moves) and resets


@dataclass(frozen=True)
class Planned:
    """rows: one per pool with a plan; left_out: (pool, why) of the others; seen: by pool, its load and the outlook."""

    rows: list[PoolRow]
    left_out: list[tuple[str, str]]
    seen: dict[str, tuple[LoadSeries, Outlook]] = field(default_factory=dict)


def plan_pools(origin: Origin, options: PlanOptions, now: int) -> Planned:
    """The plan of each pool. now: Unix seconds that the plan is made at. Raises InferdocError where no pool can be
    planned."""
    made = _of_file(origin, options, now) if origin.path is not None else _of_source(origin, options, now)
    if not made.rows:
        alike = len({why for _, why in made.left_out}) == 1
        reasons = dict.fromkeys(why if alike else f"{pool}: {why}" for pool, why in made.left_out)
        raise InferdocError("; ".join(reasons))
    return made


def clean(name: str) -> str:
    """A pool's name as Kubernetes can carry it."""
    kept = "".join(c if c.isalnum() and c.isascii() else "-" for c in name.lower()).strip("-")
    return kept[:63].strip("-") or "pool"


def _of_file(origin: Origin, options: PlanOptions, now: int) -> Planned:
    (series,) = origin.series()
    name = clean(series.name)
    _refuse_unknown(options, {name})
    rates = options.capacity.own.get(name) or options.capacity.usual
    if len(rates) != 1:
        raise InferdocError(
            "--input needs one --capacity 'NUMBER UNIT': a file of loads does not show what a replica serves"
        )
    fit_for_a_plan(series, now, options.request.begin is not None)
    capacity = Capacity(Rate(rates[0].per_second, LoadUnit.OF_FILE))
    cold = cold_start(options.cold_start.of(name) or DEFAULT_COLD_START, None, "", None)
    pool_options = options.pool_options(name, options.role, capacity, cold.seconds)
    ahead, pool_options = tuned(series, outlook(series, pool_options), pool_options)
    return Planned([shaped(ahead, pool_options)], [], {name: (series, ahead)})


def _of_source(origin: Origin, options: PlanOptions, now: int) -> Planned:
    origin, options = _with_replayed_days(origin, options)
    gathered = origin.gathered((), SLOT * 60)
    loads = _Loads(origin, gathered)
    pools = {pool_name(pool): pool for pool in gathered.pools()}
    if origin.pool is not None and origin.pool not in pools:
        raise InferdocError(f"pool `{origin.pool}` was not seen; there are {', '.join(sorted(pools))}")
    _refuse_unknown(options, set(pools))
    names = sorted(pools) if origin.pool is None else [origin.pool]
    measured, starts = _Measured(origin), _Starts(origin, gathered)
    drafts: list[PoolDraft] = []
    rows: list[PoolRow] = []
    alike = called_alike(gathered.pools())
    left_out = [(name, alike[name]) for name in names if name in alike]
    for name in [name for name in names if name not in alike]:
        pool = pools[name]
        try:
            series, capacity = _binding(loads, pool, _choices(origin, options, pool, name, measured))
            fit_for_a_plan(series, now, options.request.begin is not None)
            cold = starts.of(pool, options.cold_start.of(name))
            pool_options = options.pool_options(name, pool.role, capacity, cold.seconds)
            notes = (f"capacity: {capacity.rate} per replica, {capacity.source}", f"cold start: {cold.basis}")
            drafts.append(PoolDraft(pool, series, pool_options, outlook(series, pool_options), notes))
        except InferdocError as fault:
            left_out.append((name, str(fault)))
    drafts_together = started_together(drafts)
    seen = {}
    for each in with_followers([_tuned(each) for each in drafts_together]):
        try:
            row = shaped(each.outlook, each.options)
            where = {"cluster": each.pool.cluster or "", "namespace": each.pool.namespace or ""}
            where = {name: "" if value == "unknown" else value for name, value in where.items()}
            seen[row.name] = (each.series, each.outlook)
            rows.append(msgspec.structs.replace(row, notes=[*row.notes, *each.notes], **where))
        except InferdocError as fault:
            left_out.append((each.options.name, str(fault)))
    return Planned(rows if options.pd_ratio is None or not rows else tied(rows, options.pd_ratio), left_out, seen)


def _with_replayed_days(origin: Origin, options: PlanOptions) -> tuple[Origin, PlanOptions]:
    """Reads the replayed days in addition to the history: each of them is planned from as much history as the plan
    itself."""
    if not options.tune:
        return origin, options
    request = replace(options.request, history_days=min(HISTORY_DAYS, float(origin.days)))
    return replace(origin, days=origin.days + REPLAYED_DAYS), replace(options, request=request)


def _tuned(each: PoolDraft) -> PoolDraft:
    ahead, pool_options = tuned(each.series, each.outlook, each.options)
    return replace(each, outlook=ahead, options=pool_options)


def _refuse_unknown(options: PlanOptions, pools: set[str]) -> None:
    unknown = sorted(options.named - pools)
    if unknown:
        raise InferdocError(f"no pool is called `{unknown[0]}`; there are {', '.join(sorted(pools))}")


class _Loads:
    """Load series of pools; a kind of load is read from the source when it is first needed. Bins are as long as the
    slots of a floor, a quarter of an hour."""

    def __init__(self, origin: Origin, gathered: Gathered) -> None:
        self._origin, self._gathered = origin, gathered
        self._read: set[LoadUnit] = set()

    def of(self, pool: Pool, unit: LoadUnit) -> LoadSeries | None:
        if unit not in self._read:
            add(self._gathered, self._origin.opened.source, counted(unit), self._origin.match)
            self._read.add(unit)
        return pool_series(self._gathered, pool, unit)


class _Measured:
    """Capacities of replicas, read from history when first needed."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._found: dict[LoadUnit | None, dict[str, PoolCapacity]] = {}

    def of(self, pool: str, unit: LoadUnit | None) -> PoolCapacity | None:
        if unit not in self._found:
            history, slos = self._origin.capacity_history
            self._found[unit] = {each.pool: each for each in capacities(history, slos, unit)}
        return self._found[unit].get(pool)


class _Starts:
    """How long replicas take to start, read from history for all pools when it is first needed."""

    def __init__(self, origin: Origin, gathered: Gathered) -> None:
        self._origin, self._gathered = origin, gathered

    @cached_property
    def _seen(self) -> dict[Pool, Starts]:
        return pool_starts(self._origin.opened.source, self._gathered, self._origin.match)

    def of(self, pool: Pool, given: int | None) -> ColdStart:
        usual = self._origin.opened.tiers.cold_start(pool.tier)
        return cold_start(given, None if given is not None else self._seen.get(pool), pool.tier, usual.value)


def _choices(origin: Origin, options: PlanOptions, pool: Pool, name: str, measured: _Measured) -> list[Capacity]:
    """The capacities of a replica of the pool, one per known kind of load; InferdocError if none is known."""
    given = [rate for rate in options.capacity.of(name, pool.role) if origin.unit in (None, rate.unit)]
    if given:
        return [Capacity(rate) for rate in given]
    if name in options.capacity.own and origin.unit is not None:
        raise InferdocError(f"its capacity is not given in {origin.unit.value}, which --load counts")
    found = measured.of(name, origin.unit)
    served = [] if found is None else [each for each in found.served if each.safe is not None]
    if served:
        return [seen(each) for each in served]
    unit = origin.unit or (LoadUnit.REQUESTS if found is None else found.served[0].unit)
    why = "no load was seen" if found is None else found.served[0].basis
    raise InferdocError(f"what a replica serves is not known ({why}); give --capacity '{name}=NUMBER {unit.value}'")


def seen(served: Served) -> Capacity:
    """A measured capacity as a plan takes it: the low end of its band."""
    assert served.safe is not None
    return Capacity(served.safe, served.basis if served.low is None else f"low end of its band: {served.basis}")


def _binding(loads: _Loads, pool: Pool, choices: Sequence[Capacity]) -> tuple[LoadSeries, Capacity]:
    """The kind of load that needs most replicas at the peak of the last days."""
    found: list[tuple[float, LoadSeries, Capacity]] = []
    for capacity in choices:
        series = loads.of(pool, capacity.rate.unit)
        if series is not None:
            recent = series.before(series.end, CAP_DAYS).values
            known = recent[np.isfinite(recent)]
            peak = float(np.quantile(known, CAP_QUANTILE)) if len(known) else 0.0
            found.append((peak / capacity.rate.per_second, series, capacity))
    if not found:
        raise InferdocError(f"no load in {' or '.join(c.rate.unit.value for c in choices)} was seen")
    _, series, capacity = max(found, key=lambda each: each[0])
    return series, capacity
