"""How latencies spread: a tail that leaves its median under load, or at every large prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from inferdoc.audit.quantities import USE_INPUTS, USE_OPTIONAL, Amount, Quantity, unit_use
from inferdoc.audit.window_data import Watched
from inferdoc.catalogue.slo import limits
from inferdoc.judging.view import Unit

PEAK, REST = 0.9, 0.5
"""Quantiles of a unit's own load: what lies above the first is its peak, what lies below the second its rest."""
LOAD = "request_rate"
PER_TOKEN = ("itl_", "tpot_")
REFUSALS = ("admission_rejections_rate", "router_flow_rejects")


def tail_at_peak(watched: Watched, unit: Unit) -> Amount:
    """p99 over median of the time to first token, median over the busiest tenth of the window."""
    return _tail(watched, unit, lambda load: load >= np.nanquantile(load, PEAK))


def tail_at_rest(watched: Watched, unit: Unit) -> Amount:
    """The same over the half of the window with the fewest requests."""
    return _tail(watched, unit, lambda load: load <= np.nanquantile(load, REST))


def stalls(watched: Watched, unit: Unit) -> Amount:
    """p99 over median of the inter-token latency."""
    tail, median = watched.values(unit, "itl_p99"), watched.values(unit, "itl_p50")
    if tail is None or median is None:
        return None
    return np.asarray(tail / np.where(median > 0, median, np.nan))


def queue_over_promise(watched: Watched, unit: Unit) -> Amount:
    """p99 queue time over the TTFT objective; 0 without an objective."""
    queue = watched.values(unit, "queue_time_p99")
    targets = [target for name, target in _find_targets(watched, unit).items() if name.startswith("ttft_")]
    if not targets:
        return 0.0
    return None if queue is None else np.asarray(queue / min(targets))


def tokens_over_promise(watched: Watched, unit: Unit) -> Amount:
    """The worst time per token over its objective; 1 without an objective."""
    targets = {name: target for name, target in _find_targets(watched, unit).items() if name.startswith(PER_TOKEN)}
    rows = [values / target for name, target in targets.items() if (values := watched.values(unit, name)) is not None]
    if not rows:
        return None if targets else 1.0
    return np.asarray(np.fmax.reduce(rows))


def ttft_at_low_load(watched: Watched, unit: Unit) -> Amount:
    """TTFT over its objective, median over the half of the window with the fewest requests; 0 without an objective."""
    return _over_target_at_low_load(watched, unit, ("ttft_",))


def itl_at_low_load(watched: Watched, unit: Unit) -> Amount:
    """Time per token over its objective, as `ttft_at_low_load`."""
    return _over_target_at_low_load(watched, unit, PER_TOKEN)


def use_at_low_load(watched: Watched, unit: Unit) -> Amount:
    """Use of the pod, median over the half of the window with the fewest requests."""
    use = unit_use(watched, unit)
    return None if use is None else _median_at_low_load(watched, unit, np.asarray(use))


def _over_target_at_low_load(watched: Watched, unit: Unit, names: tuple[str, ...]) -> Amount:
    targets = {name: target for name, target in _find_targets(watched, unit).items() if name.startswith(names)}
    if not targets:
        return 0.0
    rows = [values / target for name, target in targets.items() if (values := watched.values(unit, name)) is not None]
    return _median_at_low_load(watched, unit, np.fmax.reduce(rows)) if rows else None


def _median_at_low_load(watched: Watched, unit: Unit, values: np.ndarray) -> float | None:
    load = watched.values(unit, LOAD)
    if load is None or not np.isfinite(load).any():
        return None
    seen = values[(load <= np.nanquantile(load, REST)) & np.isfinite(values)]
    return float(np.median(seen)) if len(seen) else None


def refused(watched: Watched, unit: Unit) -> Amount:
    """Requests refused by engine or router, 1/s; 0 where neither shows any."""
    rows = [np.nan_to_num(values) for name in REFUSALS if (values := watched.values(unit, name)) is not None]
    return np.asarray(np.sum(rows, axis=0)) if rows else 0.0


def _find_targets(watched: Watched, unit: Unit) -> dict[str, float]:
    pool = unit.member.pool
    return limits(watched.slos, pool)


def _tail(watched: Watched, unit: Unit, chosen: Callable[[np.ndarray], np.ndarray]) -> float | None:
    load, ratio = watched.values(unit, LOAD), watched.values(unit, "ttft_tail_ratio")
    if load is None or ratio is None or not np.isfinite(load).any():
        return None
    seen = ratio[chosen(load) & np.isfinite(ratio)]
    return float(np.median(seen)) if len(seen) else None


QUANTITIES: Mapping[str, Quantity] = {
    "tail_at_peak": Quantity(
        "Time to first token at the busiest tenth of the window, p99 over median,",
        "times",
        (LOAD, "ttft_tail_ratio"),
        tail_at_peak,
    ),
    "tail_at_rest": Quantity(
        "Time to first token at the quieter half of the window, p99 over median,",
        "times",
        (LOAD, "ttft_tail_ratio"),
        tail_at_rest,
    ),
    "stalls": Quantity("Inter-token latency, p99 over median,", "times", ("itl_p99", "itl_p50"), stalls),
    "queue_over_promise": Quantity(
        "Queue time (p99), over the TTFT objective,",
        "times",
        (),
        queue_over_promise,
        optional=("queue_time_p99",),
    ),
    "tokens_over_promise": Quantity("Time per token, over its objective,", "times", (), tokens_over_promise),
    "ttft_at_low_load": Quantity(
        "TTFT at the quieter half of the window, over its objective,", "times", (LOAD,), ttft_at_low_load
    ),
    "itl_at_low_load": Quantity(
        "Time per token at the quieter half of the window, over its objective,", "times", (LOAD,), itl_at_low_load
    ),
    "use_at_low_load": Quantity(
        "Use of the pod at the quieter half of the window",
        "ratio",
        (LOAD, *USE_INPUTS),
        use_at_low_load,
        optional=USE_OPTIONAL,
    ),
    "refused": Quantity("Requests refused", "1/s", (), refused, optional=REFUSALS),
}
