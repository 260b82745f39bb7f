"""Numbers in next steps, each by a small named function with its source.

A step's text may name them in braces: "cap the queue at {safe_queue}". `[at {number}|without it]` chooses by whether
the inputs of the number are visible; a text with a number outside brackets is left out without them. Nothing is
invented, and no formula is printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from inferdoc.capacity.memory import KV_TARGET, safe_concurrency
from inferdoc.capacity.service_level import HEADROOM, decode_pods, prefill_pods, safe_queue_depth, transfer_seconds
from inferdoc.capacity.step_time import DRAFT_COST, DRAFT_HEAD_COSTS, break_even_chance, break_even_tokens
from inferdoc.judging.changes import WORKLOAD_RATIO
from inferdoc.judging.context import Context
from inferdoc.judging.deviation import STANDARD_ERRORS, shift
from inferdoc.judging.verdict import Match
from inferdoc.judging.view import Unit, View
from inferdoc.words import figure, how_many

DEFAULT_TTFT_SLO_SECONDS = 2.0
DRAFT_COSTS = (DRAFT_COST, DRAFT_HEAD_COSTS[1])
"""A step names what a usual draft head has to yield, and what a large one."""
ROLES = ("prefill", "decode")
NAME = re.compile(r"\{(\w+)\}")
OPTIONAL = re.compile(r"\[([^\[\]]*\{\w+\}[^\[\]]*)\]")
"""Brackets around a number: they and the words after their bar go where it is known."""
LINK_EFFICIENCY = (0.7, 0.9)
"""Share of a link that large transfers reach (field guide to sizing LLM inference, section 5.6)."""


LONGER_REQUESTS = {
    "runaway-generation": ("output_len_mean",),
    "prompt-growth": ("prompt_tokens_per_request", "prompt_len_mean"),
}
"""Causes that lie with the client, and the lengths that show them: of each the first that is visible."""


def longer_requests(context: Context, match: Match) -> Iterator[str]:
    """The causes of LONGER_REQUESTS whose length grew at the onset by as much as a change is reported from."""
    for cause, names in LONGER_REQUESTS.items():
        series = next((s for name in names if (s := context.view.get(match.unit, name)) is not None), None)
        if series is None or match.from_start:
            continue
        moved = shift(series.values, match.onset, match.last, context.clock)
        if moved is not None and moved.errors >= STANDARD_ERRORS and moved.after >= WORKLOAD_RATIO * moved.before > 0:
            yield cause


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
    needed = how_many(_needed(pods, *rates), "replica")
    return f"{needed} (now {pods}; {arrivals:.3g}/s arrive, {finished:.3g}/s finish per pod, x 1.2)"


def _scale_in_share(context: Context, match: Match) -> str | None:
    """The share of the load at which a pool scales out that one pod fewer still carries."""
    pods = pool_size(context, match)
    return None if pods < 2 else f"{(pods - 1) / pods:.0%}"


def _largest_batch(context: Context, match: Match) -> str | None:
    """Tokens of the largest step: one a request, and its drafts."""
    running = context.view.get(match.unit, "running")
    if running is None or not np.isfinite(running.values).any():
        return None
    peak = float(np.nanmax(running.values))
    draft = _drafted(context, match) or 0
    return None if peak < 2 else how_many(int(np.ceil(peak * (1 + draft))), "token")


def _drafted(context: Context, match: Match) -> int | None:
    """Tokens drafted per step."""
    length, share = _after(context, match, "spec_acceptance_length"), _after(context, match, "spec_acceptance_rate")
    return None if length is None or not share else max(1, round((length - 1) / share))


def _router_cores(context: Context, match: Match) -> str | None:
    """Cores of the endpoint picker: requests/s x prompt tokens / 100,000 x 0.75, and 7.5 to read 100 pods every 50 ms
    (field guide to sizing LLM inference, section 9)."""
    view, family = context.view, match.unit.member.pool.family
    units = [unit for unit in view.units if unit.member.pool.family == family]
    rates = [rate for unit in units if (rate := _middle(view, unit, "request_rate", match.onset)) is not None]
    prompt = _typical(view, units, "prompt_len_mean", match.onset)
    if not rates or not prompt:
        return None
    pods = len({unit.member.key for unit in units})
    return how_many(int(np.ceil(sum(rates) * prompt / 1e5 * 0.75 + pods * 0.075)), "core")


def _breaker_rejects(context: Context, match: Match) -> str | None:
    rejects = _after(context, match, "router_breaker_rejects")
    return f"{rejects:.3g}/s" if rejects else None


def _router_restarts(context: Context, match: Match) -> str | None:
    series = context.view.get(match.unit, "router_restarts_lately")
    count = 0.0 if series is None else np.nan_to_num(series.values[match.onset : match.last + 1]).max(initial=0.0)
    return how_many(round(count), "restart") if count >= 1 else None


def _accepted_length(context: Context, match: Match) -> str | None:
    before, after = (f(context, match, "spec_acceptance_length") for f in (_before, _after))
    return None if before is None or after is None else f"{before:.2f} to {after:.2f} tokens a step"


def _break_even(context: Context, match: Match) -> str | None:
    draft = _drafted(context, match)
    if draft is None:
        return None
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
    link = context.tiers.nic_gbits(match.unit.member.tier)
    fast, slow = (transfer_seconds(size, link, share) for share in reversed(LINK_EFFICIENCY))
    needed = f"{figure(fast, 's')} to {figure(slow, 's')}"
    return f"a read of {figure(size, 'bytes')} takes {needed} on a {link:g} Gb/s link; here {figure(took, 's')}"


def _middle(view: View, unit: Unit, signal: str, onset: int) -> float | None:
    series = view.get(unit, signal)
    seen = np.empty(0) if series is None else series.values[onset:][np.isfinite(series.values[onset:])]
    return float(np.median(seen)) if len(seen) else None


def _typical(view: View, units: Sequence[Unit], signal: str, onset: int) -> float | None:
    """The median over pods of what each shows since the onset."""
    known = [value for unit in units if (value := _middle(view, unit, signal, onset)) is not None]
    return float(np.median(known)) if known else None


NUMBERS: dict[str, Callable[[Context, Match], str | None]] = {
    "safe_queue": _safe_queue,
    "safe_running": _safe_running,
    "kv_needed": _kv_needed,
    "replicas": _replicas,
    "scale_in_share": _scale_in_share,
    "largest_batch": _largest_batch,
    "router_cores": _router_cores,
    "breaker_rejects": _breaker_rejects,
    "router_restarts": _router_restarts,
    "break_even": _break_even,
    "pd_ratio": _ratio,
    "expected_transfer": _transfer,
    "accepted_length": _accepted_length,
}
"""What steps may name in braces, None where its inputs are not visible."""


def fill(text: str, context: Context, match: Match) -> str | None:
    """The text with every {number} worked out; None where one outside brackets is not visible."""

    def value(name: str) -> str | None:
        return NUMBERS[name](context, match) if name in NUMBERS else f"{{{name}}}"

    return filled_in(text, value)


def without_numbers(text: str) -> str:
    """The text with the words that go where no number is known."""
    return OPTIONAL.sub(lambda found: found.group(1).partition("|")[2], text)


def filled_in(text: str, value: Callable[[str], str | None]) -> str | None:
    """The text with `[with {name}|without]` chosen by whether all its names have a value, and every {name} replaced;
    None where one outside brackets has no value."""

    def replaced(part: str) -> str | None:
        values = {name: value(name) for name in NAME.findall(part)}
        return None if None in values.values() else NAME.sub(lambda found: values[found.group(1)] or "", part)

    def chosen(found: re.Match[str]) -> str:
        known, _, unknown = found.group(1).partition("|")
        return unknown if replaced(known) is None else known

    return replaced(OPTIONAL.sub(chosen, text))
