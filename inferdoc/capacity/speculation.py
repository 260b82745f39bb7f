"""What drafted tokens yield: tokens per step over the time of the step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

DRAFT_COST = 0.05
"""Time of a drafted token over that of a plain step: a small draft head (own choice)."""
DRAFT_HEAD_COSTS = (0.02, 0.10)
"""From the smallest draft head to the largest (own choice; n-grams cost nothing, small models up to 0.3)."""


def expected_tokens(chance: float, draft_length: int) -> float:
    """Tokens per verification step where each drafted token is accepted with this chance, independent of the others:
    (1 - a^(k+1)) / (1 - a) (Leviathan, Kalman, Matias: Fast inference from transformers via speculative decoding)."""
    return sum(chance**position for position in range(draft_length + 1))


def tokens_per_step(accepted: Sequence[float], draft_length: int) -> float:
    """1 + A1 + ... + Ak. accepted: share of drafts whose first i tokens were all accepted, as vLLM counts by position;
    beyond the last it goes on falling by its last ratio."""
    shares = list(accepted[:draft_length])
    while len(shares) < draft_length:
        before = shares[-2] if len(shares) > 1 else 1.0
        shares.append(shares[-1] * shares[-1] / before if before else 0.0)
    return 1.0 + sum(shares)


def speculative_speedup(
    accepted: Sequence[float], draft_length: int, draft_cost: float, longer: Callable[[int], float]
) -> float:
    """Speed with drafts over that without: tokens / (r(k) + k x c). draft_cost: time of a drafted token over that of a
    plain step, as DRAFT_COST; longer: r(k), a step over k + 1
    times the tokens against a plain one."""
    return tokens_per_step(accepted, draft_length) / (longer(draft_length) + draft_length * draft_cost)


def best_draft_length(
    accepted: Sequence[float], draft_cost: float, longer: Callable[[int], float], longest: int | None = None
) -> int:
    """The draft length that yields most, 0 where none pays."""
    lengths = range((len(accepted) if longest is None else longest) + 1)
    return max(lengths, key=lambda k: speculative_speedup(accepted, k, draft_cost, longer))


def break_even_tokens(draft_length: float, draft_cost: float) -> float:
    """Tokens a step must yield for speculation to pay: 1 + k x c, c being the time of a drafted token over that of a
    step of the target (same source; a batch that is short of compute needs more)."""
    return 1.0 + draft_length * draft_cost


def break_even_chance(draft_length: int, draft_cost: float) -> float:
    """The chance of a drafted token to be accepted at which speculation breaks even, by bisection. 0..1."""
    target, low, high = break_even_tokens(draft_length, draft_cost), 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, draft_length) < target else (low, middle)
    return high
