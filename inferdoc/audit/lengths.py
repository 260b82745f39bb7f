"""What requests are allowed against what they use."""

from __future__ import annotations

from collections.abc import Mapping

from inferdoc.audit.quantities import Amount, Quantity, middle
from inferdoc.audit.window_data import Watched
from inferdoc.judging.view import Unit

INPUTS = ("kv_capacity_tokens", "kv_max_concurrency", "prompt_len_p99", "output_len_p90")


def limit_over_use(watched: Watched, unit: Unit) -> Amount:
    """Longest request that is allowed (--max-model-len) over the longest that come: p99 of the prompts and the longer
    of the p90 of the answers and of what clients ask for at most."""
    cache, of_full_length, prompt, answer = (middle(watched, unit, name) for name in INPUTS)
    max_tokens = middle(watched, unit, "max_tokens_p90") or 0.0
    if cache is None or not of_full_length or prompt is None or answer is None:
        return None
    return cache / of_full_length / max(1.0, prompt + max(answer, max_tokens))


QUANTITIES: Mapping[str, Quantity] = {
    "limit_over_use": Quantity(
        "Longest request allowed, over the longest that come,",
        "times",
        INPUTS,
        limit_over_use,
        optional=("max_tokens_p90",),
    ),
}
