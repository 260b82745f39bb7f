"""What pools counted, minute by minute; a calibration sees nothing else of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.fleet.members import assignments_of
from inferdoc.forecast.fromsource import Gathered, Key, gather, gpus_of_pod, pool_name
from inferdoc.kv.live import Intervals, bucket_increases, counted, pool_chosen, settings_of
from inferdoc.times import seconds_of

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.fleet.members import Pool
    from inferdoc.source.identified import Identified


APART = ("prefill", "decode")
"""Roles of a pair, in the order in which a request passes them."""
OTHER = dict(zip(APART, reversed(APART), strict=True))
READ = "vllm:nixl_xfer_time_seconds"


@dataclass(frozen=True)
class ObservedPair:
    """prefill, decode: over the same minutes; read: seconds in which a decode pod reads one token of KV while it reads
    nothing else, None where no transfer is counted."""

    prefill: ObservedPool
    decode: ObservedPool
    read: float | None

    @property
    def sides(self) -> tuple[ObservedPool, ObservedPool]:
        """Both pools, the prefill pool first."""
        return self.prefill, self.decode

    @property
    def name(self) -> str:
        """Of both."""
        return " + ".join(each.name for each in self.sides)

    def part(self, first: int, last: int) -> ObservedPair:
        """The intervals from `first` to before `last`."""
        return replace(self, prefill=self.prefill.part(first, last), decode=self.decode.part(first, last))


def observed_for_request(
    source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any], until: int | None = None
) -> ObservedPool | ObservedPair:
    """The pool that --pool names, or the only one; of a pool that does one phase, the pair. until: Unix seconds, None
    for the newest sample. Raises InferdocError."""
    fleet = watched_fleet(source, config, catalogue, options, until)
    pools = fleet.made.pools()
    named = options.get("pool")
    if named is None and len(pools) == len(APART) and {pool.role for pool in pools} == set(APART):
        named = pool_name(next(iter(pools)))
    pool, keys = pool_chosen(fleet.made, named)
    if pool.role == "both":
        return fleet.pool(pool, keys)
    other = _other_side(pool, pools)
    by_role = {each.role: fleet.pool(each, pools[each]) for each in (pool, other)}
    prefill, decode = _over_the_same(by_role["prefill"], by_role["decode"])
    return ObservedPair(prefill, decode, _seconds_to_read(fleet, prefill, decode))


def _other_side(pool: Pool, pools: Mapping[Pool, Sequence[Key]]) -> Pool:
    """The one pool that does the other phase of the same model."""
    role = OTHER[pool.role]
    there = [each for each in pools if each.family == pool.family and each.role == role]
    if len(there) == 1:
        return there[0]
    name = pool_name(pool)
    if not there:
        raise InferdocError(f"{name}: a {pool.role} pool, and no {role} pool of {pool.model} is seen beside it")
    raise InferdocError(
        f"{name}: {len(there)} {role} pools share its requests ({', '.join(sorted(map(pool_name, there)))}); only "
        "one prefill and one decode pool can be played together"
    )


def _over_the_same(prefill: ObservedPool, decode: ObservedPool) -> tuple[ObservedPool, ObservedPool]:
    """Both over the minutes in which both were at work."""
    begin = max(each.begin for each in (prefill, decode))
    end = min(each.end for each in (prefill, decode))
    if end <= begin:
        raise InferdocError(f"{prefill.name} and {decode.name}: never at work in the same minutes")
    first, last = (each.part((begin - each.begin) // STEP, (end - each.begin) // STEP) for each in (prefill, decode))
    return first, last


def _seconds_to_read(fleet: WatchedFleet, prefill: ObservedPool, decode: ObservedPool) -> float | None:
    """Reads of a pod share its link evenly, so of n/s that take t each, one alone would take t / (1 + n t): the mean
    time in an M/G/1 queue with processor sharing is s / (1 - n s), whatever the sizes are."""
    seconds, count = (fleet.counter(f"{READ}_{part}", decode) for part in ("sum", "count"))
    tokens = prefill.mean(PROMPT) * (1.0 - decode.total(HITS) / max(1.0, decode.total(LOOKED)))
    if not count or seconds is None or not tokens > 0:
        return None
    each = seconds / count
    arriving = decode.total(f"{TTFT}_count") / decode.pods / decode.seconds
    return each / (1.0 + arriving * each) / tokens


STEP = 60
"""Seconds of an interval: four scrapes of 15 s."""
LEAST = 8
"""Intervals with traffic that a calibration and its holdout half need."""
MOST_SECONDS = 86400
GAUGES = ("waiting", "kv_capacity_tokens", "kv_block_size")
RUNNING = "running"
"""Is always gathered."""
SCRAPE = 15
"""Seconds between two looks at a gauge that goes up and down within an interval."""
GLANCES = ("waiting", "kv_usage")
TTFT, ITL, TPOT = (
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:request_time_per_output_token_seconds",
)
QUEUE, PREFILL = "vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds"
PROMPT, OUTPUT, COMPUTED = (
    "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens",
    "vllm:request_prefill_kv_computed_tokens",
)
STEPS = "vllm:iteration_tokens_total"
LOOKED, HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
PREEMPTED, FINISHED = "vllm:num_preemptions_total", "vllm:request_success_total"
DRAFTS, DRAFTED, ACCEPTED = (
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
)
MEANS = (TTFT, ITL, QUEUE, PREFILL, PROMPT, OUTPUT, COMPUTED)
"""Histograms of which sum and count are read."""
SPREADS = (TTFT, ITL, TPOT, PROMPT, OUTPUT, COMPUTED, STEPS)
"""Histograms of which buckets are read."""
COUNTERS = (
    *(f"{name}_{part}" for name in MEANS for part in ("sum", "count")),
    f"{STEPS}_count",
    LOOKED,
    HITS,
    PREEMPTED,
    FINISHED,
    DRAFTS,
    DRAFTED,
    ACCEPTED,
)


@dataclass(frozen=True)
class Spread:
    """A histogram over the pods of a pool. bounds: float64[n], finite; cells: float64[n + 1, intervals]."""

    bounds: np.ndarray
    cells: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """float64[n + 1]: over all intervals."""
        whole: np.ndarray = self.cells.sum(axis=1)
        return whole


@dataclass(frozen=True)
class ObservedPool:
    """begin: Unix seconds; counters: name -> float64[pods, intervals], increases; gauges: signal -> the same, NaN if
    unknown; glances: the same every SCRAPE seconds; spreads: histogram -> its buckets; gpus: of a pod, None if
    unknown; engines: of a pod; settings: labels of vllm:cache_config_info."""

    name: str
    pool: Pool
    keys: Sequence[Key]
    begin: int
    counters: Mapping[str, np.ndarray]
    gauges: Mapping[str, np.ndarray]
    glances: Mapping[str, np.ndarray]
    spreads: Mapping[str, Spread]
    gpus: int | None
    engines: int
    settings: Mapping[str, str]

    @property
    def pods(self) -> int:
        """How many, at most at a time."""
        return max(1, int(np.isfinite(self.gauges["running"]).sum(axis=0).max()))

    @property
    def intervals(self) -> int:
        """How many, of STEP seconds each."""
        return int(self.counters[f"{TTFT}_count"].shape[1])

    @property
    def seconds(self) -> float:
        """Length of all intervals."""
        return float(self.intervals * STEP)

    @property
    def end(self) -> int:
        """Unix seconds just after the last interval."""
        return self.begin + self.intervals * STEP

    def total(self, name: str) -> float:
        """Increase of a counter over pods and intervals."""
        return float(self.counters[name].sum())

    def mean(self, name: str) -> float:
        """Mean of a histogram; NaN without observations."""
        count = self.total(f"{name}_count")
        return self.total(f"{name}_sum") / count if count else float("nan")

    def middle(self, gauge: str) -> float | None:
        """Median of a gauge; None where no pod shows it."""
        values = self.gauges[gauge]
        return float(np.nanmedian(values)) if np.isfinite(values).any() else None

    @property
    def arrivals(self) -> np.ndarray:
        """float64[intervals]: requests that came. vLLM counts a request at its first token: those that came to wait
        since the interval before are added, those that no longer wait taken off."""
        waiting = np.nansum(self.gauges["waiting"], axis=0)
        came = self.counters[f"{TTFT}_count"].sum(axis=0) + np.diff(waiting, prepend=waiting[0])
        requests: np.ndarray = np.maximum(came, 0.0)
        return requests

    def part(self, first: int, last: int) -> ObservedPool:
        """The intervals from `first` to before `last`."""
        inside = slice(first, last)
        return replace(
            self,
            begin=self.begin + first * STEP,
            counters={name: rows[:, inside] for name, rows in self.counters.items()},
            gauges={name: rows[:, inside] for name, rows in self.gauges.items()},
            glances={
                name: rows[:, first * STEP // SCRAPE : last * STEP // SCRAPE] for name, rows in self.glances.items()
            },
            spreads={name: Spread(each.bounds, each.cells[:, inside]) for name, each in self.spreads.items()},
        )


@dataclass(frozen=True)
class WatchedFleet:
    """Every engine of a source over the last --history. made, fine: gauges every STEP and every SCRAPE seconds;
    intervals: of both."""

    source: Identified
    config: Config
    catalogue: Catalogue
    made: Gathered
    fine: Gathered
    intervals: Intervals

    def pool(self, pool: Pool, keys: Sequence[Key]) -> ObservedPool:
        """What a pool counted while it was at work. Raises InferdocError where it is too little."""
        count = self.intervals.count
        read = counted(self.source, self.catalogue, self.intervals, COUNTERS)
        blank = np.zeros((len(keys), count))
        rows = {name: read.of(name, keys) for name in COUNTERS}
        spreads = {name: bucket_increases(self.source, self.catalogue, self.intervals, name, keys) for name in SPREADS}
        lacking = [name for name in (*MEANS, STEPS) if rows[f"{name}_count"] is None] + [
            name for name in SPREADS if spreads[name] is None
        ]
        if lacking:
            raise InferdocError(
                f"{pool_name(pool)}: {lacking[0]} is not visible, and a calibration needs it: see doctor"
            )
        whole = ObservedPool(
            pool_name(pool),
            pool,
            keys,
            self.intervals.start,
            {name: blank if each is None else each for name, each in rows.items()},
            {name: np.vstack([_last(self.made, name, key, count) for key in keys]) for name in (RUNNING, *GAUGES)},
            {
                name: np.vstack([_last(self.fine, name, key, count * STEP // SCRAPE) for key in keys])
                for name in (RUNNING, *GLANCES)
            },
            {name: Spread(*each) for name, each in spreads.items() if each is not None},
            gpus_of_pod(self.source, self.config.pods, self.made, keys),
            max(len(read.engines.get(key, ())) for key in keys),
            settings_of(self.source, self.catalogue, self.made, keys),
        )
        return _at_work(whole)

    def counter(self, name: str, pool: ObservedPool) -> float | None:
        """Increase of a further counter over the pods and the minutes of a pool; None where no pod has it."""
        intervals = Intervals(pool.begin, STEP, pool.intervals)
        rows = counted(self.source, self.catalogue, intervals, (name,)).of(name, pool.keys)
        return None if rows is None else float(rows.sum())


def observed(
    source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any], until: int | None = None
) -> ObservedPool:
    """The pool that --pool names, or the only one, over the last --history. until: Unix seconds, None for the newest
    sample. Raises InferdocError where there is none, or too little of it."""
    fleet = watched_fleet(source, config, catalogue, options, until)
    return fleet.pool(*pool_chosen(fleet.made, options.get("pool")))


def watched_fleet(
    source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any], until: int | None = None
) -> WatchedFleet:
    """The engines of a source over the last --history. until: Unix seconds, None for the newest sample. Raises
    InferdocError where there is none."""
    seconds = seconds_of(options["history"], "--history")
    if not LEAST * STEP <= seconds <= MOST_SECONDS:
        raise InferdocError(
            f"--history {options['history']}: expected {LEAST * STEP // 60}m to {MOST_SECONDS // 3600}h"
        )
    assigned = assignments_of(config.pods)
    made = gather(source, GAUGES, catalogue.tiers, assigned, days=1, until=until, step=STEP, window=STEP)
    fine = gather(source, GLANCES, catalogue.tiers, assigned, days=1, until=made.end, step=SCRAPE, window=STEP)
    first = max(made.first_seen, made.end - int(seconds) // STEP * STEP)
    return WatchedFleet(source, config, catalogue, made, fine, Intervals(first, STEP, (made.end - first) // STEP))


def _last(made: Gathered, signal: str, key: Key, count: int) -> np.ndarray:
    return made.row(signal, key)[-count:]


def _at_work(whole: ObservedPool) -> ObservedPool:
    """From the first interval after the first scrape: the increase of a counter before its first scrape is unknown."""
    busy = np.flatnonzero(whole.counters[f"{TTFT}_count"].sum(axis=0) > 0)
    if len(busy) < LEAST + 1:
        raise InferdocError(
            f"{whole.name}: {len(busy)} minutes with first tokens, {LEAST + 1} are needed: a longer --history, or wait"
        )
    return whole.part(int(busy[0]) + 1, int(busy[-1]) + 1)
