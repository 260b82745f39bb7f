"""What a state costs, in GPUs: a named formula for each kind of waste (GPU-hours per hour of the window's load).

Every function takes the units that show the state and answers GPUs, or None where an input is not visible. Where the
number of GPUs of a pod is not known a pod counts as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from inferdoc.audit.quantities import QUANTITIES, longer_step, middle, pool_mean
from inferdoc.audit.role_imbalance import partners, use_of_pools
from inferdoc.audit.window_data import Watched
from inferdoc.capacity.step_time import DRAFT_COST
from inferdoc.judging.view import Unit

STEPS = ("running", "generation_tokens_rate", "prefill_tokens_rate", "request_rate")
"""Signals of the step time and the share of steps with a prompt."""
LENGTHS = ("prompt_tokens_rate", "generation_tokens_rate", "request_rate")
"""Signals of prompt and output length."""
REUSE_AT_MOST = "prefix_hit_rag"
"""Hits that sticky routing is granted at most."""


@dataclass(frozen=True)
class Waste:
    """formula: in words; measure: GPUs wasted by the units of one pool."""

    formula: str
    measure: Callable[[Watched, Sequence[Unit]], float | None]


def weight(watched: Watched, unit: Unit) -> float:
    """GPUs of a unit, or one."""
    return float(watched.gpus(unit) or 1)


def busy_share(watched: Watched, unit: Unit) -> float:
    """Share of the window in which a unit is busy."""
    return float(np.mean(watched.busy(unit)))


def pace_of(watched: Watched, unit: Unit) -> float | None:
    """Seconds per computed prompt token without other delays: the lowest twentieth of the window."""
    values = watched.values(unit, "prefill_seconds_per_token")
    seen = np.empty(0) if values is None else values[np.isfinite(values) & (values > 0)]
    return float(np.quantile(seen, 0.05)) if len(seen) else None


def pace_beside_decoding(watched: Watched, unit: Unit, length: float | None = None) -> float | None:
    """Seconds by which a computed prompt token makes the steps longer that go on without it: what would be saved.
    length: tokens of a prompt that come in one step, those of the mean prompt if unknown.

    A step with a prompt takes P, one without D, and of N steps a second L have a prompt: D = t (1 - L (P - D)) with the
    mean time t of a step. So P - D = (P - t) / (1 - L t), where answers are written all the time; where nothing runs
    for a share of it, t counts for the rest. A longer prompt takes P in proportion, and D is the same.
    """
    pace, rows = pace_of(watched, unit), [watched.values(unit, name) for name in STEPS]
    if pace is None or any(row is None for row in rows):
        return pace
    running, generated, computed, requests = (float(np.nansum(row)) for row in rows if row is not None)
    if not (running and generated and computed and requests) or unit.member.role == "prefill":
        return pace
    working = float(np.mean(np.nan_to_num(np.asarray(rows[0])) > 0))
    steps = middle(watched, unit, "spec_acceptance_length") or 1.0
    step = running / generated * steps * working
    prompt = pace * computed / requests
    often = requests * watched.view.step_seconds / watched.seconds
    longer = (prompt - step) / max(1.0 - often * step, step / prompt if prompt > step else 1.0)
    tokens = computed / requests if length is None else length
    return max(0.0, pace * tokens - (prompt - longer)) / tokens


def prompt_time(
    watched: Watched, unit: Unit, tokens: np.ndarray, *, extra: bool, length: float | None = None
) -> np.ndarray | None:
    """Share of a unit's time that so many prompt tokens/s take, float64[T]: what a token makes steps longer, and no
    more than its share of all tokens (a generated token takes longer than a prompt token). extra: they come on top of
    what prefill_tokens_rate counts; length: tokens that come in one step, as of pace_beside_decoding."""
    pace, computed = pace_beside_decoding(watched, unit, length), watched.values(unit, "prefill_tokens_rate")
    generated = watched.values(unit, "generation_tokens_rate")
    if pace is None or computed is None or generated is None:
        return None
    tokens = np.nan_to_num(tokens)
    everything = np.nan_to_num(computed) + np.nan_to_num(generated) + (tokens if extra else 0.0)
    return np.minimum(tokens * pace, tokens / np.where(everything > 0, everything, np.inf))


def _sum(parts: Iterable[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _surplus(watched: Watched, units: Sequence[Unit]) -> float | None:
    of_pool = QUANTITIES["pods_to_spare"].of_pool
    assert of_pool is not None
    spare = of_pool(watched, units[0].member.pool)
    return None if spare is None else float(np.max(spare)) * float(np.mean([weight(watched, u) for u in units]))


def _unit_mean(watched: Watched, unit: Unit, name: str) -> float | None:
    """The mean of a quantity of a unit over its busy steps."""
    of_unit = QUANTITIES[name].of_unit
    assert of_unit is not None
    values = of_unit(watched, unit)
    if values is None:
        return None
    row = np.broadcast_to(np.asarray(values, dtype=np.float64), (watched.view.steps,))
    seen = row[watched.busy(unit) & np.isfinite(row)]
    return float(np.mean(seen)) if len(seen) else None


def _busy_gpus(
    watched: Watched, units: Sequence[Unit], share_of: Callable[[Watched, Unit], float | None]
) -> float | None:
    """GPUs x busy share x a share of each unit's time, which is None where it is not visible."""

    def measure_unit(unit: Unit) -> float | None:
        share = share_of(watched, unit)
        return None if share is None else weight(watched, unit) * busy_share(watched, unit) * share

    return _sum(map(measure_unit, units))


def _slowed_by_drafts(watched: Watched, unit: Unit) -> float | None:
    speed = _unit_mean(watched, unit, "speculation_speedup")
    return None if speed is None else max(0.0, 1.0 - speed)


def rejected_drafts(watched: Watched, unit: Unit) -> float | None:
    """Share of a step that drafts take which are rejected: the time of drafting, and past the batch from which on
    arithmetic binds also that of verifying, (r + k c - 1) / (r + k c), x drafts rejected."""
    draft, accepted = middle(watched, unit, "spec_draft_length"), middle(watched, unit, "spec_acceptance_rate")
    if draft is None or accepted is None:
        return None
    running = middle(watched, unit, "running") or 0.0
    whole = longer_step(watched, unit, running, draft) + draft * DRAFT_COST
    return float((whole - 1.0) / whole * (1.0 - accepted))


def recomputing(watched: Watched, unit: Unit) -> np.ndarray | None:
    """Share of a unit's time that goes into computing again what was preempted, float64[T].

    vLLM preempts the request that came last: its prompt, and what it has written since. In step with the ends of
    others requests come, so that is an answer over the requests that run. With prefix caching its blocks stay until
    streams take them, last ones first; it is let in again when a request ends, and between two ends streams take as
    many tokens of cache as one answer is long. So all of it is computed again, or so much as the mean answer is long.
    """
    rate, rows = watched.values(unit, "preemption_rate"), [watched.values(unit, name) for name in LENGTHS]
    if rate is None or any(row is None for row in rows):
        return None
    prompts, answers, requests = (float(np.nansum(row)) for row in rows if row is not None)
    if not requests:
        return None
    cached = prompts + answers / max(middle(watched, unit, "running") or 1.0, 1.0)
    again = cached if _caching_off(watched, unit) else min(cached, answers)
    again /= requests
    return prompt_time(watched, unit, rate * again, extra=True, length=again)


def _caching_off(watched: Watched, unit: Unit) -> bool:
    value, _ = watched.settings.get(unit, {}).get("enable_prefix_caching", ("True", 1.0))
    return value.lower() == "false"


def _mean_gpus(
    watched: Watched, units: Sequence[Unit], share_of: Callable[[Watched, Unit], np.ndarray | None]
) -> float | None:
    def measure_unit(unit: Unit) -> float | None:
        row = share_of(watched, unit)
        return None if row is None else weight(watched, unit) * float(np.mean(row))

    return _sum(map(measure_unit, units))


def missing(watched: Watched, unit: Unit, expected: float) -> np.ndarray | None:
    """Share of a unit's time that goes into prompt tokens which would have hit the prefix cache, float64[T]. expected:
    the hit ratio that could have been."""
    prompts = watched.values(unit, "prompt_tokens_rate")
    if prompts is None:
        return None
    hits = middle(watched, unit, "prefix_hit_ratio") or 0.0
    return prompt_time(watched, unit, max(0.0, expected - hits) * prompts, extra=False)


def _misses(
    watched: Watched, units: Sequence[Unit], hits: Callable[[Watched, Sequence[Unit]], float | None]
) -> float | None:
    expected = hits(watched, units)
    return None if expected is None else _mean_gpus(watched, units, partial(missing, expected=expected))


def hits_by_affinity(watched: Watched, units: Sequence[Unit]) -> float | None:
    """The hit ratio of a pool whose hits come by chance, if requests went to the pod that holds their prefix."""
    hits = pool_mean(watched, units[0].member.pool, lambda u: watched.values(u, "prefix_hit_ratio"), busy=True)
    if hits is None or not np.isfinite(hits).any():
        return None
    return min(float(np.nanmean(hits)) * len(units), watched.number(REUSE_AT_MOST))


def hits_of_router(watched: Watched, units: Sequence[Unit]) -> float | None:
    """The hit ratio that the router expects."""
    expected = [value for u in units if (value := middle(watched, u, "router_prefix_hit_ratio")) is not None]
    return float(np.mean(expected)) if expected else None


POSSIBLE_HITS: Mapping[str, Callable[[Watched, Sequence[Unit]], float | None]] = {
    "misses_by_chance": hits_by_affinity,
    "misses_of_router": hits_of_router,
}
"""By the formula of waste that counts misses: what could have hit."""


def _queue_for_nothing(watched: Watched, units: Sequence[Unit]) -> float | None:
    def measure_unit(unit: Unit) -> float | None:
        running, waiting = middle(watched, unit, "running"), middle(watched, unit, "waiting")
        room = _unit_mean(watched, unit, "running_room")
        if not running or waiting is None or room is None:
            return None
        more = min(waiting, max(0.0, room - running))
        return weight(watched, unit) * busy_share(watched, unit) * more / (running + more)

    return _sum(map(measure_unit, units))


def _waiting_ranks(watched: Watched, unit: Unit) -> float | None:
    balance = middle(watched, unit, "eplb_balancedness")
    return None if balance is None else 1.0 - balance


def _lower_clock(watched: Watched, unit: Unit) -> float | None:
    share = _unit_mean(watched, unit, "clock_over_peers")
    return None if share is None else 1.0 - share


def _idler_role(watched: Watched, units: Sequence[Unit]) -> float | None:
    pool = units[0].member.pool
    sides = [[pool], partners(watched, pool)]
    uses = [use_of_pools(watched, side) for side in sides]
    if uses[0] is None or uses[1] is None:
        return None
    means = [float(np.nanmean(use)) for use in uses if use is not None]
    idler = means.index(min(means))
    gpus = sum(weight(watched, unit) for each in sides[idler] for unit in watched.units(each))
    return gpus * (1.0 - min(means) / max(means)) if max(means) > 0 else None


WASTES: Mapping[str, Waste] = {
    "surplus_replicas": Waste("replicas - those that carry the peak at 60 % use (at least 2), x GPUs", _surplus),
    "slowed_by_drafts": Waste(
        "GPUs x busy share x (1 - speed with drafts over speed without)",
        partial(_busy_gpus, share_of=_slowed_by_drafts),
    ),
    "rejected_drafts": Waste(
        "GPUs x busy share x share of a step spent drafting x drafts rejected",
        partial(_busy_gpus, share_of=rejected_drafts),
    ),
    "recompute": Waste(
        "GPUs x share of time for preemptions/s x (prompt + answer / requests running, with prefix caching at most as "
        "long as an answer)",
        partial(_mean_gpus, share_of=recomputing),
    ),
    "misses_by_chance": Waste(
        "GPUs x share of time for (hits x pods, at most 80 %, - hits) x prompt tokens/s",
        partial(_misses, hits=hits_by_affinity),
    ),
    "misses_of_router": Waste(
        "GPUs x share of time for (hits the router expects - hits) x prompt tokens/s",
        partial(_misses, hits=hits_of_router),
    ),
    "queue_for_nothing": Waste(
        "GPUs x busy share x waiting requests that would fit / (running + those)", _queue_for_nothing
    ),
    "lower_clock": Waste(
        "GPUs x busy share x (1 - clock over that of the fastest pod)", partial(_busy_gpus, share_of=_lower_clock)
    ),
    "idler_role": Waste("GPUs of the idler role x (1 - its use over that of the busier one)", _idler_role),
    "waiting_ranks": Waste(
        "GPUs x busy share x (1 - mean over max load of the ranks)", partial(_busy_gpus, share_of=_waiting_ranks)
    ),
}
"""By the names that states use."""
