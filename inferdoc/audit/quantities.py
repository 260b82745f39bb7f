"""Quantities that absolute observations compare with limits, each worked out from signals by a named function.

A function answers float64[T], or a number, or None where an input is missing; `inputs` are the signals that must be
there, so that an undetermined issue can list them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from inferdoc.audit.window_data import BUSY_CLOCK, Watched, mean_of_rows
from inferdoc.capacity.step_time import DRAFT_COST, chance_of, expected_tokens
from inferdoc.catalogue.slo import limits
from inferdoc.fleet.members import UNKNOWN_TIER, Pool
from inferdoc.judging.view import Unit

MFU_PREFILL, MBU_DECODE = 0.57, 0.67
"""Shares of the datasheet figures that whole steps reach on H100, BF16 (aiconfigurator 0.12, its sums of measured
kernels): prefill of 2048 tokens, decode of 64 streams."""
AFTER_SCALE_IN = "pool_busy"
LEAST_REPLICAS = 2
"""A pool keeps one replica more than it needs: what remains carries the load when one is lost."""

STARTED = "process_start_time"
LEAST_AGES = 3
"""Two ages that agree may do so by chance."""
ANSWERS = "running"
"""What an engine shows from when it has loaded its model."""

Amount = np.ndarray | float | None


@dataclass(frozen=True)
class Quantity:
    """title and unit: as a report says them; inputs: signals that it needs; of: worked out per unit or per pool;
    setting: what must be known of the unit besides (`Watched.settings`)."""

    title: str
    unit: str
    inputs: tuple[str, ...]
    of_unit: Callable[[Watched, Unit], Amount] | None = None
    of_pool: Callable[[Watched, Pool], Amount] | None = None
    optional: tuple[str, ...] = ()
    setting: str | None = None


def compute_bound_batch(watched: Watched, unit: Unit) -> float:
    """Tokens in a step from which on arithmetic takes longer than reading the weights (2 bytes each, nominal figures
    of the tier x the shares that steps reach); the cautious limit of the catalogue where the tier is unknown."""
    tier = watched.tiers.tiers.get(unit.member.tier)
    if tier is None or unit.member.tier == UNKNOWN_TIER:
        return watched.number("spec_crossover_tokens")
    nominal = tier.bf16_tflops.value * 1e12 / (tier.memory_gbps.value * 1e9)
    return nominal * MBU_DECODE / MFU_PREFILL if nominal else watched.number("spec_crossover_tokens")


def _speedup(watched: Watched, unit: Unit, draft_cost: float = DRAFT_COST) -> Amount:
    """Tokens per verification step over its time in steps without drafts: E / (r + k c). r: a step over k + 1 times the
    tokens is longer only past the batch from which on arithmetic binds; draft_cost: c, 0 of n-gram lookup."""
    tokens, draft = watched.values(unit, "spec_acceptance_length"), watched.values(unit, "spec_draft_length")
    running = watched.values(unit, "running")
    if tokens is None or draft is None or running is None:
        return None
    return np.asarray(tokens / (longer_step(watched, unit, running, draft) + draft * draft_cost))


def longer_step(watched: Watched, unit: Unit, running: np.ndarray | float, draft: np.ndarray | float) -> np.ndarray:
    """Time of a step that verifies drafts over that of one without: 1 as long as memory binds."""
    room = compute_bound_batch(watched, unit)
    return np.asarray(np.maximum(running * (draft + 1) / room, 1.0) / np.maximum(running / room, 1.0))


def best_draft(acceptance_length: float, draft: int) -> int:
    """Drafted tokens at which speculation yields most, of 0 to the present number, in a batch that memory binds: from
    the chance of a token that explains the accepted length, the same at every position."""
    chance = chance_of(acceptance_length, draft)
    return max(range(draft + 1), key=lambda k: expected_tokens(chance, k) / (1 + k * DRAFT_COST))


def _best_draft(watched: Watched, unit: Unit) -> Amount:
    tokens, draft = middle(watched, unit, "spec_acceptance_length"), middle(watched, unit, "spec_draft_length")
    return None if tokens is None or draft is None else float(best_draft(tokens, max(1, round(draft))))


def _prefill_busy(watched: Watched, unit: Unit) -> Amount:
    """Computed prompt tokens/s x seconds per computed token. Prompts that share a step count twice, so it is at most
    too high."""
    rate, pace = watched.values(unit, "prefill_tokens_rate"), watched.values(unit, "prefill_seconds_per_token")
    if rate is None:
        return None
    return np.zeros_like(rate) if pace is None else np.where(rate > 0, rate * np.nan_to_num(pace), 0.0)


def _batch_share(watched: Watched, unit: Unit) -> Amount:
    running = watched.values(unit, "running")
    return None if running is None else np.asarray(running / compute_bound_batch(watched, unit))


def unit_use(watched: Watched, unit: Unit) -> Amount:
    """Use of a replica: generated tokens over the plateau of a benchmark where the configuration has one. Else the
    scarcest of three: KV cache, time spent on prefill, and the batch over half of that from which on arithmetic binds
    (half: an ITL target binds before)."""
    plateau = watched.values(unit, "fleet_utilisation")
    if plateau is not None:
        return plateau
    cache, batch = watched.values(unit, "kv_usage_mean"), _batch_share(watched, unit)
    prefill = _prefill_busy(watched, unit)
    if cache is None or batch is None or prefill is None:
        return None
    return np.asarray(np.fmax(np.fmax(cache, prefill), batch / watched.number("batch_memory_bound", unit.member.tier)))


def pool_mean(watched: Watched, pool: Pool, of: Callable[[Unit], Amount], busy: bool = False) -> np.ndarray | None:
    """The mean over the units of a pool at every step, or of their busy steps alone; None without any."""
    rows = []
    for unit in watched.units(pool):
        values = of(unit)
        if values is not None:
            row = np.broadcast_to(np.asarray(values, dtype=np.float64), (watched.view.steps,))
            rows.append(np.where(watched.busy(unit), row, np.nan) if busy else row)
    return mean_of_rows(rows) if rows else None


def use_of(watched: Watched, pool: Pool) -> np.ndarray | None:
    """Use of a pool at every step, float64[T]; None where it is not visible."""
    return pool_mean(watched, pool, lambda unit: unit_use(watched, unit))


def peak_use(watched: Watched, pool: Pool) -> float | None:
    """Use of a pool at the busiest twentieth of the window."""
    use = use_of(watched, pool)
    return None if use is None or not np.isfinite(use).any() else float(np.nanquantile(use, 0.95))


def to_spare(watched: Watched, pool: Pool, use: float, replicas: float) -> float:
    """Replicas beyond those that carry such a use at 60 %, and beyond two; below 0 where there are too few."""
    return replicas - max(LEAST_REPLICAS, int(np.ceil(replicas * use / watched.number(AFTER_SCALE_IN, pool.tier))))


def _pods_to_spare(watched: Watched, pool: Pool) -> Amount:
    """Replicas beyond what the busiest twentieth of the window needs."""
    use = peak_use(watched, pool)
    return None if use is None else to_spare(watched, pool, use, len(watched.units(pool)))


def serving(watched: Watched, pool: Pool) -> list[Unit]:
    """The units of a pool that had traffic."""
    return [unit for unit in watched.units(pool) if not watched.quiet(unit)]


def _hits(watched: Watched, pool: Pool) -> list[float]:
    found = (middle(watched, unit, "prefix_hit_ratio") for unit in serving(watched, pool))
    return [value for value in found if value is not None]


def _hits_times_pods(watched: Watched, pool: Pool) -> Amount:
    hits = pool_mean(watched, pool, lambda unit: watched.values(unit, "prefix_hit_ratio"), busy=True)
    return None if hits is None else hits * len(serving(watched, pool))


def _hits_spread(watched: Watched, pool: Pool) -> Amount:
    hits = _hits(watched, pool)
    return (max(hits) - min(hits)) / max(float(np.mean(hits)), 1e-9) if hits else None


def _whole_hits(watched: Watched, unit: Unit) -> Amount:
    computed, prompts = watched.values(unit, "computed_tokens_p10"), watched.values(unit, "prompt_len_p10")
    return None if computed is None or prompts is None else np.asarray(computed / np.maximum(prompts, 1.0))


def _router_gap(watched: Watched, unit: Unit) -> Amount:
    expected, hits = watched.values(unit, "router_prefix_hit_ratio"), watched.values(unit, "prefix_hit_ratio")
    return None if expected is None or hits is None else np.asarray(expected - hits)


def _objective_excess(watched: Watched, unit: Unit) -> Amount:
    """The worst latency of a unit over its objective; 0 without an objective."""
    pool = unit.member.pool
    targets = limits(watched.slos, pool)
    rows = [values / target for name, target in targets.items() if (values := watched.values(unit, name)) is not None]
    if not rows:
        return None if targets else 0.0
    return np.asarray(np.fmax.reduce(rows))


def _running_flat(watched: Watched, unit: Unit) -> Amount:
    running = watched.values(unit, "running")
    seen = np.empty(0) if running is None else running[watched.busy(unit) & np.isfinite(running)]
    if not len(seen):
        return None
    low, high = np.quantile(seen, [0.1, 0.9])
    return float(low / high) if high else None


def _running_room(watched: Watched, unit: Unit) -> Amount:
    """Requests that fit the KV cache to 90 % at the context of the present ones, and half of the batch from which on
    arithmetic binds: the fewer of both."""
    running, usage = middle(watched, unit, "running"), middle(watched, unit, "kv_usage_mean")
    if not running or not usage:
        return None
    tier = unit.member.tier
    room = watched.number("batch_memory_bound", tier) * compute_bound_batch(watched, unit)
    return float(np.floor(min(watched.number("kv_usage_high", tier) * running / usage, max(room, running))))


def _requests_per_gpu(watched: Watched, unit: Unit) -> Amount:
    """Requests/s of a GPU at full use, over those of the best engine with fewer GPUs that serves the same model, role
    and tier with prompts and outputs of like length; 1 without one."""
    own = _served_per_gpu(watched, unit)
    if own is None:
        return None
    smaller = [
        rate
        for other in watched.view.units
        if _comparable(watched, unit, other) and (rate := _served_per_gpu(watched, other)) is not None
    ]
    return own / max(smaller) if smaller else 1.0


def _served_per_gpu(watched: Watched, unit: Unit) -> float | None:
    gpus, rate, use = watched.gpus(unit), middle(watched, unit, "request_rate"), unit_use(watched, unit)
    if gpus is None or not rate or use is None or not np.isfinite(use).any():
        return None
    busy = np.asarray(use)[watched.busy(unit) & np.isfinite(use)]
    return rate / gpus / max(float(np.median(busy)), LEAST_USE) if len(busy) else None


def _comparable(watched: Watched, unit: Unit, other: Unit) -> bool:
    own, another = unit.member.pool, other.member.pool
    if (own.model, own.role, own.tier) != (another.model, another.role, another.tier):
        return False
    if (watched.gpus(other) or 1) >= (watched.gpus(unit) or 1):
        return False
    for signal in ("prompt_len_mean", "output_len_mean"):
        lengths = middle(watched, unit, signal), middle(watched, other, signal)
        if None in lengths or max(lengths) > LIKE_LENGTH * min(lengths):  # type: ignore[type-var,operator]
            return False
    return True


def _draft_batch(watched: Watched, unit: Unit) -> Amount:
    """Running requests up to which a step verifies drafts of the present length without becoming longer."""
    draft = middle(watched, unit, "spec_draft_length")
    return None if draft is None else float(np.floor(compute_bound_batch(watched, unit) / (draft + 1)))


def _gpus_per_engine(watched: Watched, unit: Unit) -> Amount:
    count = watched.gpus(unit)
    return None if count is None else float(count)


def clock_over_peers(watched: Watched, unit: Unit) -> Amount:
    """Clock of a pod's GPUs while they work, over that of the fastest pod of its pool, float64[T]."""
    own = watched.values(unit, BUSY_CLOCK)
    if own is None:
        return None
    fastest = watched.fastest_clock[unit.member.pool]
    return np.asarray(own / np.where(fastest > 0, fastest, np.nan))


def middle(watched: Watched, unit: Unit, signal: str) -> float | None:
    """The median of a signal of a unit over its busy steps, or None."""
    values = watched.values(unit, signal)
    if values is None:
        return None
    seen = values[watched.busy(unit) & np.isfinite(values)]
    return float(np.median(seen)) if len(seen) else None


LEAST_USE = 0.05
"""Use below which a pod shows nothing of what it could serve."""
LIKE_LENGTH = 1.25
"""Ratio up to which mean lengths of two pods count as alike (own choice)."""


def drafts_over_room(watched: Watched, unit: Unit) -> Amount:
    """Tokens of a verification step over those from which on arithmetic binds: above 1 drafts displace streams."""
    running, draft = watched.values(unit, "running"), watched.values(unit, "spec_draft_length")
    if running is None or draft is None:
        return None
    return np.asarray(running * (draft + 1) / compute_bound_batch(watched, unit))


def limit_over_use(watched: Watched, unit: Unit) -> Amount:
    """Longest request that is allowed (--max-model-len) over the longest that come: p99 of the prompts and the longer
    of the p90 of the answers and of what clients ask for at most."""
    cache, of_full_length, prompt, answer = (middle(watched, unit, name) for name in LENGTH_INPUTS)
    max_tokens = middle(watched, unit, "max_tokens_p90") or 0.0
    if cache is None or not of_full_length or prompt is None or answer is None:
        return None
    return cache / of_full_length / max(1.0, prompt + max(answer, max_tokens))


def starts_of(watched: Watched, unit: Unit) -> list[tuple[float, float]]:
    """(start, first page) of every process that started in the window, Unix seconds."""
    starts, answers = watched.values(unit, STARTED), watched.values(unit, ANSWERS)
    if starts is None or answers is None:
        return []
    times = watched.view.frame.grid.times_ms / 1000
    seen = np.flatnonzero(np.isfinite(starts) & np.isfinite(answers))
    _, first = np.unique(starts[seen], return_index=True)
    steps = seen[np.sort(first)]
    pages = zip(starts[steps].tolist(), times[steps].tolist(), strict=True)
    return [(start, page) for start, page in pages if start > times[0]]


def cold_start(watched: Watched, unit: Unit) -> Amount:
    """From the start of a process to its first page, seconds, less the half step by which a page is late on average;
    0 without a start."""
    half = watched.view.step_seconds / 2
    seconds = [page - start - half for start, page in starts_of(watched, unit)]
    return float(np.median(seconds)) if seconds else 0.0


def same_ages(watched: Watched, unit: Unit) -> Amount:
    """1 - (longest - shortest) / mean age at which the processes of a unit were replaced; 0 of fewer than three."""
    starts = watched.values(unit, STARTED)
    if starts is None:
        return None
    ages = np.diff(np.unique(starts[np.isfinite(starts)]))
    if len(ages) < LEAST_AGES:
        return 0.0
    return float(1 - (ages.max() - ages.min()) / ages.mean())


LENGTH_INPUTS = ("kv_capacity_tokens", "kv_max_concurrency", "prompt_len_p99", "output_len_p90")
USE_INPUTS = ("kv_usage_mean", "running", "prefill_tokens_rate")
USE_OPTIONAL = ("fleet_utilisation", "prefill_seconds_per_token")

QUANTITIES: Mapping[str, Quantity] = {
    "speculation_speedup": Quantity(
        "Speed with drafts, of that without,",
        "ratio",
        ("spec_acceptance_length", "spec_draft_length", "running"),
        _speedup,
    ),
    "best_draft": Quantity(
        "Draft length that yields most", "tokens", ("spec_acceptance_length", "spec_draft_length"), _best_draft
    ),
    "lookup_speedup": Quantity(
        "Speed with drafts that take no time, of that without,",
        "ratio",
        ("spec_acceptance_length", "spec_draft_length", "running"),
        partial(_speedup, draft_cost=0.0),
    ),
    "draft_batch": Quantity(
        "Running requests up to which drafts are verified for free", "requests", ("spec_draft_length",), _draft_batch
    ),
    "requests_per_gpu_ratio": Quantity(
        "Requests per GPU at full use, over those of an engine with fewer GPUs,",
        "ratio",
        ("request_rate", "prompt_len_mean", "output_len_mean", *USE_INPUTS),
        _requests_per_gpu,
        optional=USE_OPTIONAL,
    ),
    "prefill_busy": Quantity(
        "Time spent on prefill", "ratio", ("prefill_tokens_rate",), _prefill_busy, optional=USE_OPTIONAL
    ),
    "batch_share": Quantity("Batch over that from which on arithmetic binds", "ratio", ("running",), _batch_share),
    "pool_use": Quantity("Use of the pool", "ratio", USE_INPUTS, unit_use, optional=USE_OPTIONAL),
    "pods_to_spare": Quantity(
        "Replicas beyond what the peak needs", "replicas", USE_INPUTS, of_pool=_pods_to_spare, optional=USE_OPTIONAL
    ),
    "pool_peak_use": Quantity(
        "Use of the pool at its busiest twentieth", "ratio", USE_INPUTS, of_pool=peak_use, optional=USE_OPTIONAL
    ),
    "pods_serving": Quantity(
        "Pods with traffic", "pods", (), of_pool=lambda watched, pool: float(len(serving(watched, pool)))
    ),
    "hits_times_pods": Quantity(
        "Prefix hits over chance (one in the number of pods)", "times", ("prefix_hit_ratio",), of_pool=_hits_times_pods
    ),
    "hits_spread": Quantity(
        "Spread of the prefix hits over the pods", "ratio", ("prefix_hit_ratio",), of_pool=_hits_spread
    ),
    "whole_hits": Quantity(
        "Computed tokens over requested tokens, both at the lowest tenth",
        "ratio",
        ("computed_tokens_p10", "prompt_len_p10"),
        _whole_hits,
    ),
    "router_gap": Quantity(
        "Prefix hits that the router expects, less those of the engine",
        "ratio",
        ("router_prefix_hit_ratio", "prefix_hit_ratio"),
        _router_gap,
    ),
    "objective_excess": Quantity("Worst latency over its objective", "times", (), _objective_excess),
    "running_flat": Quantity("Evenness of the batch (p10 over p90)", "ratio", ("running",), _running_flat),
    "running_room": Quantity("Requests that would fit", "requests", ("running", "kv_usage_mean"), _running_room),
    "gpus_per_engine": Quantity("GPUs of one engine", "GPUs", ("gpu_util",), _gpus_per_engine),
    "clock_over_peers": Quantity(
        "Clock of the GPUs while they work, over that of the fastest pod,",
        "ratio",
        (BUSY_CLOCK,),
        clock_over_peers,
    ),
    "scrape_interval": Quantity(
        "Time between two scrapes", "s", (), lambda watched, _: watched.view.frame.grid.interval_ms / 1000
    ),
    "drafts_over_room": Quantity(
        "Tokens of a verification step, over those from which on arithmetic binds,",
        "times",
        ("running", "spec_draft_length"),
        drafts_over_room,
    ),
    "limit_over_use": Quantity(
        "Longest request allowed, over the longest that come,",
        "times",
        LENGTH_INPUTS,
        limit_over_use,
        optional=("max_tokens_p90",),
    ),
    "cold_start": Quantity(
        "Time from the start of a process to its first page", "s", (), cold_start, optional=(STARTED,)
    ),
    "ages_alike": Quantity("Evenness of the ages at which processes end", "ratio", (STARTED,), same_ages),
}
"""By the names that observations.yaml and the steps of states use."""
