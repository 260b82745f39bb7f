"""Capacity at a service level: who meets it, how many replicas it takes, where to stop queueing."""

from __future__ import annotations

import math
from collections.abc import Sequence

BREAKER = 0.85
"""A breaker opens at 80-90 % of the largest safe queue (field guide to sizing LLM inference, section 9.4)."""
HEADROOM = 1.2
"""A fifth to spare over a measured load (field guide, section 9.1: 1.2 where it is stable, 1.5 where it is new)."""
HEADROOM_NEW = 1.5
"""The same for a load that nobody has measured."""


def joint_share(shares: Sequence[float]) -> tuple[float, float]:
    """Bounds of the share of requests that meet all of several objectives, from the share that meets each: histograms
    do not show more. (low, high), 0..1."""
    return max(0.0, sum(shares) - (len(shares) - 1)), min(shares)


def replicas_needed(peak: float, usable: float, safety: float) -> int:
    """Replicas for a peak: ceil(peak x safety / usable), both in the same unit per second; 0 where there is no load."""
    return math.ceil(round(peak * safety / usable, 9))


def safe_queue_depth(acceptable_wait_seconds: float, completions_per_second: float) -> float:
    """Little's law: the longest queue whose wait stays acceptable, times the breaker share. Requests.

    The rate is the sustainable completion rate, never the arrival rate: in a spike the latter loosens the limit.
    """
    return BREAKER * acceptable_wait_seconds * completions_per_second


def queued_tokens(ttft_seconds: float, prefill_seconds_per_token: float) -> float:
    """Prompt tokens that one engine prefills within the time to first token: --max-num-queued-tokens. Tokens."""
    return ttft_seconds / prefill_seconds_per_token


def price_per_million_tokens(price_per_hour: float, tokens_per_second: float) -> float:
    """Price of a million tokens: price x GPUs / (3600 x tokens/s) x 1e6, with the tokens really produced, so that idle
    time is in it."""
    return price_per_hour / (3600.0 * tokens_per_second) * 1e6


def tokens_per_joule(tokens_per_second: float, watts: float) -> float:
    """Tokens per joule of the GPUs alone; a facility takes its PUE times the energy. Tokens and joules of any interval
    give the same."""
    return tokens_per_second / watts


def kwh_per_million_tokens(tokens_per_second: float, watts: float) -> float:
    """Kilowatt-hours per million tokens."""
    return watts / tokens_per_second * 1e6 / 3.6e6


def routed_price(share_small: float, small: float, large: float) -> float:
    """Price where a router sends a share of the requests to a small model and the others to a large one."""
    return share_small * small + (1.0 - share_small) * large


def escalated_price(share_escalated: float, small: float, large: float) -> float:
    """Price where a small model sees every request and hands a share on to a large one."""
    return small + share_escalated * large
