"""Numbers in next steps, each by a small named function with its source.

A step's text may name them in braces: "cap the queue at {safe_queue} requests". Where the inputs are not visible the
words of the fallback stand instead, never an invented number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from inferdoc.capacity.disaggregation import decode_pods, prefill_pods
from inferdoc.capacity.memory import KV_TARGET, safe_concurrency
from inferdoc.capacity.service_level import HEADROOM, queued_tokens, safe_queue_depth
from inferdoc.capacity.speculation import DRAFT_COST, DRAFT_HEAD_COSTS, break_even_chance, break_even_tokens
from inferdoc.capacity.transfer import transfer_seconds
from inferdoc.judging.context import Context
from inferdoc.judging.verdict import Match
from inferdoc.judging.view import Unit, View
from inferdoc.words import figure, how_many

DEFAULT_TTFT_SLO_SECONDS = 2.0
DRAFT_COSTS = (DRAFT_COST, DRAFT_HEAD_COSTS[1])
"""A step names what a usual draft head has to yield, and what a large one."""
ROLES = ("prefill", "decode")
LINK_GIGABITS = 400.0
"""The link that a transfer is compared with: one NDR port."""
LINK_EFFICIENCY = (0.7, 0.9)
"""Share of a link that large transfers reach (field guide to sizing LLM inference, section 5.6)."""


def _after(context: Context, match: Match, signal: str) -> float | None:
    return _middle(context.view, match.unit, signal, match.onset)


def _before(context: Context, match: Match, signal: str) -> float | None:
    series = context.view.get(match.unit, signal)
    if series is None or match.from_start:
        return None
    seen = series.values[: match.onset]
    seen = seen[np.isfinite(seen)]
    return float(np.median(seen)) if len(seen) else None


def _acceptable_wait(context: Context, match: Match) -> float:
    """The SLO of the time to first token, or two seconds. s."""
    limits = [v for name, v in context.limits(match.unit).items() if name.startswith("ttft")]
    return min(limits, default=DEFAULT_TTFT_SLO_SECONDS)


def _safe_queue(context: Context, match: Match) -> str | None:
    rate = _after(context, match, "request_rate")
    if not rate:
        return None
    wait = _acceptable_wait(context, match)
    depth = max(1, int(safe_queue_depth(wait, rate)))
    return f"{how_many(depth, 'request')} ({rate:.3g} finish per second, {wait:g} s of acceptable wait)"


def _queued_tokens(context: Context, match: Match) -> str | None:
    pace = _after(context, match, "prefill_seconds_per_token")
    wait = _acceptable_wait(context, match)
    return None if not pace else f"{queued_tokens(wait, pace):,.0f} ({1 / pace:,.0f} prompt tokens/s, {wait:g} s)"


def _safe_running(context: Context, match: Match) -> str | None:
    capacity = _after(context, match, "kv_capacity_tokens")
    prompt, output = _after(context, match, "prompt_len_mean"), _after(context, match, "output_len_mean")
    if not capacity or not prompt or not output:
        return None
    context_tokens = prompt + output / 2
    fits = max(1, int(safe_concurrency(capacity, context_tokens)))
    return f"{fits} ({capacity:,.0f} KV tokens, {context_tokens:,.0f} tokens of live context a request on average)"


def _kv_needed(context: Context, match: Match) -> str | None:
    running, prompt, output = (_after(context, match, s) for s in ("running", "prompt_len_mean", "output_len_mean"))
    waiting = _after(context, match, "waiting_capacity") or 0.0
    if running is None or not prompt or not output:
        return None
    need = (running + waiting) * (prompt + output / 2) / KV_TARGET
    return f"{need:,.0f} tokens"


def needed_replicas(context: Context, match: Match) -> int | None:
    """Replicas that finish what arrives, with room to spare; None where no more arrives than is finished."""
    rates = _arriving(context, match)
    return None if rates is None else _needed(pool_size(context, match), *rates)


def _needed(pods: int, arrivals: float, finished: float) -> int:
    return int(np.ceil(HEADROOM * pods * arrivals / finished))


def _arriving(context: Context, match: Match) -> tuple[float, float] | None:
    """Requests per second of a pod that arrive, and that are finished; None where no more arrives than is finished."""
    arrivals, finished = _after(context, match, "arrival_rate"), _after(context, match, "request_rate")
    return (arrivals, finished) if arrivals and finished and arrivals > finished else None


def pool_size(context: Context, match: Match) -> int:
    """Pods in the pool."""
    return sum(1 for m in context.view.fleet.members if m.pool == match.unit.member.pool)


def _replicas(context: Context, match: Match) -> str | None:
    rates, pods = _arriving(context, match), pool_size(context, match)
    if rates is None:
        return None
    arrivals, finished = rates
    return f"{_needed(pods, *rates)} (now {pods}; {arrivals:.3g}/s arrive, {finished:.3g}/s finish per pod, x 1.2)"


def _accepted_length(context: Context, match: Match) -> str | None:
    before, after = (f(context, match, "spec_acceptance_length") for f in (_before, _after))
    return None if before is None or after is None else f"{before:.2f} to {after:.2f} tokens a step"


def _break_even(context: Context, match: Match) -> str | None:
    length, share = _after(context, match, "spec_acceptance_length"), _after(context, match, "spec_acceptance_rate")
    if length is None or not share:
        return None
    draft = max(1, round((length - 1) / share))
    tokens = [break_even_tokens(draft, cost) for cost in DRAFT_COSTS]
    chances = [break_even_chance(draft, cost) for cost in DRAFT_COSTS]
    costs = f"{DRAFT_COSTS[0]:.0%} to {DRAFT_COSTS[1]:.0%}"
    return (
        f"{tokens[0]:.2f} to {tokens[1]:.2f} tokens a step, which takes drafts accepted one by one with a chance of "
        f"{chances[0]:.2f} to {chances[1]:.2f} ({draft} drafted, each {costs} of a step)"
    )


def _ratio(context: Context, match: Match) -> str | None:
    """Pods that the present load keeps busy on either side, from measured speeds."""
    view, family = context.view, match.unit.member.pool.family
    sides = {
        role: [u for u in view.units if u.member.role == role and u.member.pool.family == family] for role in ROLES
    }
    rate = sum(filter(None, (_middle(view, u, "request_rate", match.onset) for u in sides["decode"])))
    computed = _typical(view, sides["prefill"], "computed_tokens_per_request", match.onset)
    pace = _typical(view, sides["prefill"], "prefill_seconds_per_token", match.onset)
    output = _typical(view, sides["decode"], "output_len_mean", match.onset)
    speeds = [s.values for u in sides["decode"] if (s := view.get(u, "generation_tokens_rate")) is not None]
    peak = max((float(np.nanmax(v)) for v in speeds if np.isfinite(v).any()), default=0.0)
    if not (rate and computed and pace and output and peak):
        return None
    need = prefill_pods(rate, computed, pace), decode_pods(rate, output, peak)
    counts = [len({u.member.key for u in sides[role]}) for role in ROLES]
    planned = [max(1, int(np.ceil(HEADROOM * n))) for n in need]
    return (
        f"{planned[0]} prefill to {planned[1]} decode pods (now {counts[0]} to {counts[1]}; {rate:.3g} requests/s keep "
        f"{need[0]:.2g} and {need[1]:.2g} busy, x {HEADROOM:g})"
    )


def _transfer(context: Context, match: Match) -> str | None:
    moved, reads = _after(context, match, "nixl_bytes_rate"), _after(context, match, "nixl_xfer_rate")
    took = _after(context, match, "nixl_xfer_mean")
    if not moved or not reads or took is None:
        return None
    size = moved / reads
    fast, slow = (transfer_seconds(size, LINK_GIGABITS, share) for share in reversed(LINK_EFFICIENCY))
    wanted = f"{figure(fast, 's')} to {figure(slow, 's')}"
    return (
        f"a read of {figure(size, 'bytes')} takes {wanted} on a {LINK_GIGABITS:.0f} Gb/s link; here {figure(took, 's')}"
    )


def _middle(view: View, unit: Unit, signal: str, onset: int) -> float | None:
    series = view.get(unit, signal)
    seen = np.empty(0) if series is None else series.values[onset:][np.isfinite(series.values[onset:])]
    return float(np.median(seen)) if len(seen) else None


def _typical(view: View, units: Sequence[Unit], signal: str, onset: int) -> float | None:
    """The median over pods of what each shows since the onset."""
    known = [value for unit in units if (value := _middle(view, unit, signal, onset)) is not None]
    return float(np.median(known)) if known else None


NUMBERS: dict[str, tuple[Callable[[Context, Match], str | None], str]] = {
    "safe_queue": (_safe_queue, "completions per second x acceptable wait x 0.85"),
    "safe_running": (_safe_running, "0.9 x KV tokens / live context"),
    "kv_needed": (_kv_needed, "requests x live context / 0.9"),
    "replicas": (_replicas, "arrivals / completions per replica x 1.2"),
    "queued_tokens": (_queued_tokens, "acceptable wait x prompt tokens/s of one engine"),
    "break_even": (_break_even, "1 + drafted tokens x cost of one over a step"),
    "pd_ratio": (_ratio, "arrivals x uncached input x s per token, to arrivals x output / tokens/s of one decode pod"),
    "expected_transfer": (_transfer, "bytes over the link: 50 GB/s on 400 Gb/s, times 0.7 to 0.9"),
    "accepted_length": (_accepted_length, "1 + accepted / drafts"),
}


def fill(text: str, context: Context, match: Match) -> str:
    """The text with every {number} worked out, or its formula in words."""

    def replace(found: re.Match[str]) -> str:
        known = NUMBERS.get(found.group(1))
        if known is None:
            return found.group(0)
        function, fallback = known
        return function(context, match) or fallback

    return re.sub(r"\{(\w+)\}", replace, text)
