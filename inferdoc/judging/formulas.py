"""The formulas behind the numbers in advice. Pure arithmetic, each with its source."""

from __future__ import annotations

BREAKER = 0.85
"""A breaker opens at 80-90 % of the largest safe queue (field guide to sizing LLM inference, section 9.4)."""
HEADROOM = 1.2
"""A fifth to spare over a measured load (field guide, section 9.1: 1.2 where it is stable, 1.5 where it is new)."""
KV_TARGET = 0.9
"""Share of the KV cache to plan for (field guide, section 9.3)."""


def safe_queue_depth(acceptable_wait_seconds: float, completions_per_second: float) -> float:
    """Little's law: the longest queue whose wait stays acceptable, times the breaker share. Requests.

    The rate is the sustainable completion rate, never the arrival rate: in a spike the latter loosens the limit.
    """
    return BREAKER * acceptable_wait_seconds * completions_per_second


def queued_tokens(ttft_seconds: float, prefill_seconds_per_token: float) -> float:
    """Prompt tokens that one engine prefills within the time to first token: --max-num-queued-tokens. Tokens."""
    return ttft_seconds / prefill_seconds_per_token


def safe_concurrency(capacity_tokens: float, live_context_tokens: float) -> float:
    """Running requests that fit 90 % of the KV cache at the mean live context. Requests."""
    return KV_TARGET * capacity_tokens / live_context_tokens


def expected_tokens(chance: float, draft_length: int) -> float:
    """Tokens per verification step where each drafted token is accepted with this chance, independent of the others:
    (1 - a^(k+1)) / (1 - a) (Leviathan, Kalman, Matias: Fast inference from transformers via speculative decoding)."""
    return sum(chance**position for position in range(draft_length + 1))


def break_even_tokens(draft_length: float, draft_cost: float) -> float:
    """Tokens a step must yield for speculation to pay: 1 + k x c, c being the time of a drafted token over that of a
    step of the target (same source; a batch that is short of compute needs more)."""
    return 1.0 + draft_length * draft_cost


def break_even_chance(draft_length: int, draft_cost: float) -> float:
    """The chance of a drafted token to be accepted at which speculation breaks even, by bisection. 0..1."""
    wanted, low, high = break_even_tokens(draft_length, draft_cost), 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, draft_length) < wanted else (low, middle)
    return high


def prefill_pods(requests_per_second: float, computed_tokens: float, seconds_per_token: float) -> float:
    """Prefill pods kept busy: arrivals x uncached prompt tokens x seconds per computed token of one pod."""
    return requests_per_second * computed_tokens * seconds_per_token


def decode_pods(requests_per_second: float, output_tokens: float, tokens_per_second: float) -> float:
    """Decode pods kept busy: arrivals x answer tokens over the tokens/s that one pod reaches."""
    return requests_per_second * output_tokens / tokens_per_second


def transfer_seconds(size_bytes: float, link_gigabits: float, efficiency: float) -> float:
    """Time of a transfer on a link: bytes over gigabits/8 (a 400 Gb/s card moves 50 GB/s) times its efficiency."""
    return size_bytes / (link_gigabits / 8 * 1e9 * efficiency)
