"""Numbers in next steps, each by a small named function with its source.

A step's text may name them in braces: "cap the queue at {safe_queue} requests". Where the inputs are not visible the
words of the fallback stand instead, never an invented number.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from inferdoc.diagnose.context import Context
from inferdoc.diagnose.match import Match

DEFAULT_TTFT_SLO_SECONDS = 2.0
BREAKER = 0.85
"""A breaker opens at 80-90 % of the largest safe queue (field guide to sizing LLM inference, section 9.4)."""


def safe_queue_depth(acceptable_wait_seconds: float, completions_per_second: float) -> float:
    """Little's law: the longest queue whose wait stays acceptable, times the breaker share. Requests.

    The rate is the sustainable completion rate, never the arrival rate: in a spike the latter loosens the limit.
    """
    return BREAKER * acceptable_wait_seconds * completions_per_second


def safe_concurrency(capacity_tokens: float, live_context_tokens: float) -> float:
    """Running requests that fit 90 % of the KV cache at the mean live context. Requests."""
    return 0.9 * capacity_tokens / live_context_tokens


def tokens_per_step(acceptance: float, draft_length: float) -> float:
    """Tokens per verification step: 1 + accepted per draft (accepted share x draft length)."""
    return 1.0 + acceptance * draft_length


def _after(context: Context, match: Match, signal: str) -> float | None:
    series = context.view.get(match.unit, signal)
    if series is None:
        return None
    seen = series.values[match.onset :]
    seen = seen[np.isfinite(seen)]
    return float(np.median(seen)) if len(seen) else None


def _before(context: Context, match: Match, signal: str) -> float | None:
    series = context.view.get(match.unit, signal)
    if series is None or match.from_start:
        return None
    seen = series.values[: match.onset]
    seen = seen[np.isfinite(seen)]
    return float(np.median(seen)) if len(seen) else None


def _safe_queue(context: Context, match: Match) -> str | None:
    rate = _after(context, match, "request_rate")
    if not rate:
        return None
    depth = max(1, int(safe_queue_depth(DEFAULT_TTFT_SLO_SECONDS, rate)))
    return f"{depth} requests ({rate:.3g} finish per second, {DEFAULT_TTFT_SLO_SECONDS:g} s of acceptable wait)"


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
    need = (running + waiting) * (prompt + output / 2) / 0.9
    return f"{need:,.0f} tokens"


def _replicas(context: Context, match: Match) -> str | None:
    arrivals, finished = _after(context, match, "arrival_rate"), _after(context, match, "request_rate")
    if not arrivals or not finished or arrivals <= finished:
        return None
    pods = sum(1 for m in context.view.fleet.members if m.pool == match.unit.member.pool)
    needed = int(np.ceil(1.2 * pods * arrivals / finished))
    return f"{needed} (now {pods}; {arrivals:.3g}/s arrive, {finished:.3g}/s finish per pod, x 1.2)"


def _accepted_length(context: Context, match: Match) -> str | None:
    before, after = (f(context, match, "spec_acceptance_length") for f in (_before, _after))
    return None if before is None or after is None else f"{before:.2f} to {after:.2f} tokens a step"


NUMBERS: dict[str, tuple[Callable[[Context, Match], str | None], str]] = {
    "safe_queue": (_safe_queue, "completions per second x acceptable wait x 0.85"),
    "safe_running": (_safe_running, "0.9 x KV tokens / live context"),
    "kv_needed": (_kv_needed, "requests x live context / 0.9"),
    "replicas": (_replicas, "arrivals / completions per replica x 1.2"),
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
