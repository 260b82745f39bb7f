"""Into what GPU time is divided, in the order in which it is taken: each part from what those before it left over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferdoc.audit.waste import WASTES


@dataclass(frozen=True)
class WasteCause:
    """title: as a report says it; formula: in words; source: the series behind it; bound: "at most" or "at least"."""

    title: str
    formula: str
    source: str
    bound: str | None = None


CAUSES: Mapping[str, WasteCause] = {
    "away": WasteCause(
        "not serving (starting, down)",
        "GPUs x time in which the target of a pod is scraped and its engine says nothing",
        "up, vllm:num_requests_running",
    ),
    "idle": WasteCause(
        "idle",
        "GPUs x time with no request running and none waiting; of a prefill pod the time in which it computed nothing",
        "vllm:num_requests_running, vllm:num_requests_waiting",
    ),
    "floor": WasteCause(
        "more replicas than the load needs",
        "GPUs x (replicas serving - those that carry the load at 60 % use, at least 2), less what was idle",
        "vllm:kv_cache_usage_perc, vllm:num_requests_running, computed prompt tokens x seconds per token",
    ),
    "lost": WasteCause(
        "work for requests that nobody waited for",
        "GPU time of the tokens that belong to no finished request: all tokens - those of finished requests",
        "vllm:prompt_tokens, vllm:generation_tokens, sums of vllm:request_prompt_tokens, _generation_tokens",
        "at least",
    ),
    "recomputed": WasteCause(
        "computed again after preemption",
        WASTES["recompute"].formula,
        "vllm:num_preemptions, vllm:prompt_tokens, vllm:generation_tokens, seconds per computed prompt token",
    ),
    "missed": WasteCause(
        "prefixes that could have hit",
        f"{WASTES['misses_of_router'].formula}; or, where an audit sees hits at the level of chance, "
        f"{WASTES['misses_by_chance'].formula}",
        "vllm:prefix_cache_hits, _queries, llm_d_epp_prefix_indexer_hit_ratio",
        "at most",
    ),
    "rejected": WasteCause(
        "rejected drafts",
        WASTES["rejected_drafts"].formula,
        "vllm:spec_decode_num_draft_tokens, _num_accepted_tokens",
    ),
    "late": WasteCause(
        "responses that missed a latency SLO",
        "working time x share of the requests that missed the worst of the SLOs on first token, time "
        "per token or whole answer",
        "buckets of vllm:time_to_first_token_seconds, _request_time_per_output_token_seconds, "
        "_e2e_request_latency_seconds",
        "at least",
    ),
}
"""All that is waste. What is left over is useful."""
USEFUL = "useful"
