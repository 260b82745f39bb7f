"""What a live pool shows of its prefix cache: lookups, hits and writes by interval, and how its blocks lived."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from inferdoc.capacity.reuse import ReuseCounts
from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import assignments_of
from inferdoc.forecast.fromsource import Gathered, Key, gather, gpus_of_pod, pool_name
from inferdoc.forecast.series import DAY
from inferdoc.source.frame import Entity
from inferdoc.source.grid import DEFAULT_INTERVAL_MS
from inferdoc.source.histograms import common_bounds
from inferdoc.source.plan import BY
from inferdoc.source.reads import Grid, Read, ReadResult
from inferdoc.times import seconds_of

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.fleet.members import Pool
    from inferdoc.source.base import Source
    from inferdoc.source.identified import Identified


@dataclass(frozen=True)
class Intervals:
    """Even intervals of a time range. start: Unix seconds; step: seconds; count: how many."""

    start: int
    step: int
    count: int

    def grids(self) -> Iterable[tuple[int, Grid]]:
        """The grid of each day, and its first interval: so much is read at once. Values are at the ends."""
        of_day = max(1, DAY // self.step)
        for first in range(0, self.count, of_day):
            count = min(of_day, self.count - first)
            begin = (self.start + (first + 1) * self.step) * 1000 + 1
            yield first, Grid(begin, self.step * 1000, count, DEFAULT_INTERVAL_MS, self.step * 1000, self.step * 1000)


@dataclass
class CounterIncreases:
    """increases: metric -> pod -> float64[intervals], NaN where nothing is known; engines: pod -> labels of its
    data-parallel ranks."""

    intervals: Intervals
    increases: dict[str, dict[Key, np.ndarray]]
    engines: dict[Key, set[str]]

    def of(self, name: str, keys: Collection[Key]) -> np.ndarray | None:
        """float64[pods, intervals] of a counter, 0 where nothing is known; None where no pod has it."""
        rows = self.increases.get(name, {})
        if not any(key in rows for key in keys):
            return None
        blank = np.zeros(self.intervals.count)
        return np.vstack([np.nan_to_num(rows.get(key, blank)) for key in keys])


def counted(source: Source, catalogue: Catalogue, intervals: Intervals, names: Iterable[str]) -> CounterIncreases:
    """Increases of counters. Raises SourceError."""
    by = BY["engine"]
    increases: dict[str, dict[Key, np.ndarray]] = {}
    engines: dict[Key, set[str]] = {}
    for first, name, result in _results(source, catalogue, intervals, list(names), by):
        rows = increases.setdefault(name, {})
        for key, values in zip(result.keys, result.values, strict=True):
            entity = Entity.of(by, key)
            engines.setdefault(entity.member, set()).add(entity.engine)
            _add(rows.setdefault(entity.member, np.full(intervals.count, np.nan)), first, values)
    return CounterIncreases(intervals, increases, engines)


def increases_by_label(
    source: Source, catalogue: Catalogue, intervals: Intervals, name: str, where: tuple[Collection[Key], str]
) -> dict[str, float]:
    """Value of a label -> increase of a counter over the whole time, of some pods. where: these pods, and the label.
    Raises SourceError."""
    keys, label = where
    own = tuple(each for each in BY["engine"] if each != label)
    totals: dict[str, float] = {}
    pods = set(keys)
    for _, _, result in _results(source, catalogue, intervals, [name], (*own, label)):
        for key, values in zip(result.keys, result.values, strict=True):
            if key[-1] and Entity.of((*own, label), key).member in pods:
                totals[key[-1]] = totals.get(key[-1], 0.0) + float(np.nansum(values))
    return totals


def bucket_increases(
    source: Source, catalogue: Catalogue, intervals: Intervals, name: str, keys: Collection[Key]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Of a histogram over some pods: the finite upper bounds that all of them have all the time, float64[n], and
    float64[n + 1, intervals] observations by bucket; None where there are none. Raises SourceError."""
    by, pods = (*BY["engine"], "le"), set(keys)
    engines: dict[Entity, dict[float, np.ndarray]] = {}
    for first, _, result in _results(source, catalogue, intervals, [f"{name}_bucket"], by):
        for key, values in zip(result.keys, result.values, strict=True):
            entity = Entity.of(by[:-1], key[:-1])
            if entity.member in pods:
                own = engines.setdefault(entity, {})
                _add(own.setdefault(float(key[-1]), np.full(intervals.count, np.nan)), first, values)
    bounds = np.array(common_bounds(engines.values()))
    if len(bounds) < 2 or not np.isinf(bounds[-1]):
        return None
    rows = np.array([np.sum([np.nan_to_num(own[bound]) for own in engines.values()], axis=0) for bound in bounds])
    return bounds[:-1], np.maximum(np.diff(rows, axis=0, prepend=0.0), 0.0)


def _results(
    source: Source, catalogue: Catalogue, intervals: Intervals, names: list[str], by: tuple[str, ...]
) -> Iterable[tuple[int, str, ReadResult]]:
    """First interval, metric and result of each read."""
    aliases = catalogue.aliases
    spellings = {name: aliases.of(name) for name in names}
    source.expect([spelling for each in spellings.values() for spelling in each])
    for first, grid in intervals.grids():
        source.identify(grid.start_ms - grid.rate_ms, grid.end_ms)
        present = source.names(grid.start_ms - grid.rate_ms, grid.end_ms)
        reads = {
            Read(spelling, "increase", by): name
            for name, known in spellings.items()
            for spelling in [next((each for each in known if each in present), None)]
            if spelling is not None
        }
        for read, result in source.evaluate(list(reads), grid).items():
            yield first, reads[read], result


def _add(row: np.ndarray, first: int, values: np.ndarray) -> None:
    """Adds values to a row in place, from an interval on; where nothing was known, what is known now."""
    known = np.flatnonzero(np.isfinite(values))
    row[first + known] = np.nan_to_num(row[first + known]) + values[known]


SIGNALS = ("kv_usage_mean", "kv_capacity_tokens", "prefill_seconds_per_token", "offload_seconds_per_gb")
LOOKED, HITS, GENERATED, BELOW = (
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:generation_tokens_total",
    "vllm:external_prefix_cache_hits_total",
)
LIVED, IDLE, GAP = (
    "vllm:kv_block_lifetime_seconds",
    "vllm:kv_block_idle_before_evict_seconds",
    "vllm:kv_block_reuse_gap_seconds",
)
SETTINGS = "vllm:cache_config_info"
STEP = 600
"""Seconds of an interval."""
OF_HOUR, LONG = 6, 48
"""Intervals of an hour; from so many with traffic on, hours are drawn again and not intervals."""
QUIET = 1 / 3
"""Prefill is read in the intervals with the least traffic: there it waits for nothing."""


@dataclass(frozen=True)
class BlockLives:
    """Of the evicted blocks that were followed, by interval. number, lived, idle, gap_seconds: float64[intervals];
    bounds: float64[n]; gaps: float64[n + 1, intervals]."""

    number: np.ndarray
    lived: np.ndarray
    idle: np.ndarray
    bounds: np.ndarray
    gaps: np.ndarray
    gap_seconds: np.ndarray


@dataclass(frozen=True)
class CachedPool:
    """keys: its pods; looked, hits, generated: tokens, float64[pods, intervals]; below: those that a tier below served,
    the same (of decode pods these are the transfer, and 0 here); usage: share of the KV cache that running requests
    hold, the same; capacity: KV tokens of one pod; engines: data-parallel ranks of it; blocks: None without
    --kv-cache-metrics; prefill: seconds per computed token, low, middle and high, None if unknown; reload: measured
    seconds per byte from host memory; gpus: of a pod, None if unknown; settings: labels of vllm:cache_config_info.
    """

    name: str
    pool: Pool
    keys: Sequence[Key]
    intervals: Intervals
    looked: np.ndarray
    hits: np.ndarray
    generated: np.ndarray
    below: np.ndarray
    usage: np.ndarray
    capacity: float
    engines: int
    blocks: BlockLives | None
    prefill: tuple[float, float, float] | None
    reload: float | None
    gpus: int | None
    settings: Mapping[str, str]

    @property
    def pods(self) -> int:
        """How many."""
        return len(self.keys)

    @property
    def step(self) -> int:
        """Seconds of an interval."""
        return self.intervals.step

    @property
    def busy(self) -> np.ndarray:
        """int64[n]: intervals with lookups; where blocks are followed, those in which some were evicted."""
        there = self.looked.sum(axis=0) > 0
        if self.blocks is not None and (self.blocks.number > 0).any():
            there &= self.blocks.number > 0
        return np.flatnonzero(there)

    @property
    def draws(self) -> list[np.ndarray]:
        """The busy intervals in the pieces that a bootstrap draws: hours, of a short history intervals."""
        busy = self.busy
        if len(busy) < LONG:
            return [busy[[at]] for at in range(len(busy))]
        hours = busy // OF_HOUR
        return [busy[hours == hour] for hour in np.unique(hours)]

    @property
    def served(self) -> float:
        """Share of the prompt tokens that were not computed: hits, and what a tier below served."""
        return (self.total(self.hits) + self.total(self.below)) / self.total(self.looked)

    @property
    def seconds(self) -> float:
        """Length of the busy intervals together."""
        return float(len(self.busy) * self.step)

    def total(self, values: np.ndarray, where: np.ndarray | None = None) -> float:
        """Sum over pods and busy intervals, or some of them."""
        return float(values[:, self.busy if where is None else where].sum())

    def counts(self, where: np.ndarray) -> ReuseCounts:
        """What engines counted in some intervals; only with blocks."""
        blocks = self.blocks
        assert blocks is not None
        return ReuseCounts(
            self.total(self.looked, where),
            self.total(self.hits, where),
            self.total(self.generated, where),
            float(blocks.number[where].sum()),
            float(blocks.lived[where].sum()),
            float(blocks.idle[where].sum()),
            blocks.bounds,
            blocks.gaps[:, where].sum(axis=1),
            float(blocks.gap_seconds[where].sum()),
        )


def pool_for_request(
    source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any]
) -> CachedPool:
    """The pool that is named, or the only one. Raises InferdocError where there is none, or its cache was never at
    work."""
    days = max(1, math.ceil(seconds_of(options["history"], "--history") / DAY))
    made = gather(source, SIGNALS, catalogue.tiers, assignments_of(config.pods), days=days, step=STEP, window=STEP)
    pool, keys = pool_chosen(made, options.get("pool"))
    intervals = Intervals(made.start, made.step, made.count)
    parts = (f"{name}_{part}" for name in (LIVED, IDLE, GAP) for part in ("sum", "count"))
    read = counted(source, catalogue, intervals, (LOOKED, HITS, GENERATED, BELOW, *parts))
    name = pool_name(pool)
    looked, hits, generated, below = (read.of(metric, keys) for metric in (LOOKED, HITS, GENERATED, BELOW))
    settings = settings_of(source, catalogue, made, keys)
    if settings.get("enable_prefix_caching") == "False":
        raise InferdocError(f"{name}: prefix caching is off: start vLLM with --enable-prefix-caching, its default")
    if looked is None or hits is None or generated is None or looked.sum() <= 0:
        raise InferdocError(f"{name}: no prompt was looked up in the prefix cache: see doctor, or wait for traffic")
    capacity = np.vstack([made.row("kv_capacity_tokens", key) for key in keys])
    if not np.isfinite(capacity).any():
        raise InferdocError(f"{name}: the size of the KV cache is not visible: collect vllm:cache_config_info")
    engines = max(len(read.engines.get(key, ())) for key in keys)
    return CachedPool(
        name,
        pool,
        keys,
        intervals,
        looked,
        hits,
        generated,
        np.zeros_like(looked) if below is None or pool.role == "decode" else below,
        np.vstack([made.row("kv_usage_mean", key) for key in keys]),
        float(np.nanmedian(capacity)) * engines,
        engines,
        _blocks(source, catalogue, read, keys),
        _prefill(made, keys, looked),
        _middle(made, "offload_seconds_per_gb", keys, 1e9),
        gpus_of_pod(source, config.pods, made, keys),
        settings,
    )


def pool_chosen(made: Gathered, name: str | None) -> tuple[Pool, Sequence[Key]]:
    """The pool that is named, or the only one, and its pods. Raises InferdocError."""
    pools = {pool_name(pool): (pool, keys) for pool, keys in made.pools().items()}
    if name is None and len(pools) == 1:
        return next(iter(pools.values()))
    if name is None:
        raise InferdocError(f"which pool? name one of {', '.join(sorted(pools))}")
    if name not in pools:
        raise InferdocError(f'no pool "{name}"{nearest(name, pools)}; pools: {", ".join(sorted(pools))}')
    return pools[name]


def _blocks(
    source: Identified, catalogue: Catalogue, read: CounterIncreases, keys: Collection[Key]
) -> BlockLives | None:
    sums = [read.of(f"{name}_{part}", keys) for name, part in ((LIVED, "count"), (LIVED, "sum"), (IDLE, "sum"))]
    buckets = bucket_increases(source, catalogue, read.intervals, GAP, keys)
    gap_seconds = read.of(f"{GAP}_sum", keys)
    if buckets is None or gap_seconds is None or any(each is None for each in sums):
        return None
    number, lived, idle = (each.sum(axis=0) for each in sums if each is not None)
    return BlockLives(number, lived, idle, *buckets, gap_seconds.sum(axis=0))


def _prefill(made: Gathered, keys: Sequence[Key], looked: np.ndarray) -> tuple[float, float, float] | None:
    rows = np.vstack([made.row("prefill_seconds_per_token", key) for key in keys])
    known = np.isfinite(rows) & (rows > 0) & (looked > 0)
    if not known.any():
        return None
    quiet = known & (looked <= np.quantile(looked[known], QUIET))
    low, middle, high = (float(each) for each in np.quantile(rows[quiet], (0.1, 0.5, 0.9)))
    return low, middle, high


def _middle(made: Gathered, signal: str, keys: Sequence[Key], per: float) -> float | None:
    rows = np.vstack([made.row(signal, key) for key in keys])
    return float(np.nanmedian(rows)) / per if np.isfinite(rows).any() else None


def settings_of(source: Identified, catalogue: Catalogue, made: Gathered, keys: Collection[Key]) -> dict[str, str]:
    """Labels of the pool's newest page of settings."""
    pods, last = set(keys), Intervals(made.end - made.step, made.step, 1)
    (_, grid), *_ = last.grids()
    for series in source.info(SETTINGS, grid):
        if Entity.of_labels(series.labels).member in pods:
            return dict(series.labels)
    return {}
