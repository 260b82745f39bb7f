"""What single mechanisms of the simulator do: drafts under a grammar, KV in host memory, failing reads, caches that are
not asked, processes that come back with other flags, and a router that renders prompts in its own way."""

from __future__ import annotations

import pytest

from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.link import HostTier
from inferdoc.simulate.request import expected
from inferdoc.simulate.scenario_files import read_scenario

POOL = "{{name: vllm, pods: 2, tier: h100-80, model: llama-3.1-8b{more}}}"
TRAFFIC = """
traffic:
  - rate: {rate}
    prompt: {{median: 300, sigma: 0.3, max: 1000}}
    output: {{median: 100, sigma: 0.3, max: 300}}
    prefixes: {{count: {count}, tokens: 2000}}
"""
SPLIT = """
  - {name: vllm-prefill, pods: 1, tier: h100-80, model: llama-3.1-8b, role: prefill}
  - {name: vllm-decode, pods: 1, tier: h100-80, model: llama-3.1-8b, role: decode, flags: {on_failed_read: POLICY}}
"""


def fleet(
    pools: str, faults: str = "", rate: float = 3, count: int = 10, policy: str = "round-robin"
) -> SimulatedFleet:
    text = f"id: t\ntitle: t\nexpect: {{cause: null}}\npools:\n{pools}\nrouter: {{policy: {policy}}}\n"
    text += TRAFFIC.format(rate=rate, count=count) + (f"faults:\n  - {faults}\n" if faults else "")
    return SimulatedFleet(read_scenario(text, "t"))


def pool(more: str = "") -> str:
    return "  - " + POOL.format(more=more)


def test_tokens_of_a_draft_follow_from_its_chances() -> None:
    accepted, verified = expected([0.8, 0.5])
    assert (accepted, verified) == (pytest.approx(0.8 + 0.4), 2.0)
    accepted, verified = expected([0.8, 0.5], valid=0.5)
    assert (accepted, verified) == (pytest.approx(0.8 * 0.5 + 0.4 * 0.25), pytest.approx(0.75))


def test_a_grammar_shortens_drafts_and_leaves_the_acceptance_of_the_rest() -> None:
    flags = ", flags: {draft: 4, accept: [0.8, 0.8, 0.8, 0.8]}"
    free = fleet(pool(flags))
    bound = fleet(pool(flags), "{kind: traffic, at: 0s, structured: 1.0}")
    lengths, shares = [], []
    for each in (free, bound):
        each.run(200.0)
        stats = each.pods[0].engine.stats
        lengths.append(stats.draft_tokens / stats.drafts)
        shares.append(stats.accepted / stats.draft_tokens)
    assert lengths[0] == pytest.approx(4.0, rel=0.01)
    assert lengths[1] < 0.3 * lengths[0]
    assert shares[1] >= shares[0]


def test_host_memory_forgets_what_was_used_longest_ago() -> None:
    tier = HostTier(blocks=10, block_bytes=100, rate=1e6)
    tier.store([("a", 4)])
    tier.store([("b", 4)])
    assert tier.matched([("a", 4)]) == 4
    tier.store([("c", 4)])
    assert (tier.matched([("b", 4)]), tier.matched([("a", 4)]), tier.matched([("c", 4)])) == (0, 4, 4)
    assert tier.stats.store_bytes == 1200
    assert tier.stats.store_seconds == pytest.approx(1200 / 1e6)
    tier.store([("a", 4)])
    assert tier.stats.store_bytes == 1200, "what is here is not copied again"


def test_prompts_found_in_host_memory_are_loaded_not_computed_and_wait_for_the_path() -> None:
    def run(more: str, faults: str = "") -> tuple[float, float, float]:
        simulated = fleet(pool(f", flags: {{blocks: 1200{more}}}"), faults, count=30)
        simulated.run(300.0)
        engine = simulated.pods[0].engine
        engine.pool.check()
        loaded = engine.host.stats.load_bytes if engine.host else 0.0
        return engine.stats.computed, engine.stats.ttft.sum / engine.stats.ttft.count, loaded

    computed, _, _ = run("")
    with_tier, quick, loaded = run(", offload: 50")
    _, slow, _ = run(", offload: 50", "{kind: host-link, at: 0s, factor: 0.02}")
    assert with_tier < 0.6 * computed
    assert loaded > 1e9
    assert slow > 2 * quick


@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_a_failed_read_ends_the_request_or_has_its_prompt_computed(policy: str) -> None:
    simulated = fleet(
        SPLIT.replace("POLICY", policy), "{kind: read-failure, at: 0s, pods: [vllm-decode-0], share: 0.5}"
    )
    simulated.run(200.0)
    stats = simulated.pods[1].engine.stats
    assert stats.failed_transfers > 50
    finished = sum(stats.success.values())
    if policy == "fail":
        assert 0.35 < stats.success["error"] / finished < 0.65
        assert stats.computed == 0
    else:
        assert stats.success["error"] == 0
        own = stats.prompt_tokens - 2000 * finished  # the shared beginnings are in the cache of the decode pod
        assert 0.3 < stats.computed / own < 0.7
    simulated.pods[0].engine.pool.check()
    simulated.pods[1].engine.pool.check()


def test_prompt_log_probabilities_pass_the_cache_by() -> None:
    simulated = fleet(pool(), "{kind: traffic, at: 0s, logprobs: 1.0}")
    simulated.run(100.0)
    stats = simulated.pods[0].engine.stats
    assert stats.prompt_tokens > 10_000
    assert (stats.prefix_queries, stats.prefix_hits, stats.cached) == (0, 0, 0)


def test_a_process_comes_back_with_other_flags() -> None:
    flags = "flags: {blocks: 500, prefix_caching: false}"
    simulated = fleet(pool(), f"{{kind: restart, at: 20s, after: 60s, pods: [vllm-1], {flags}}}")
    simulated.run(200.0)
    same, changed = simulated.pods
    assert changed.engine.config.blocks == 500 < same.engine.config.blocks
    assert not changed.engine.config.prefix_caching and same.engine.config.prefix_caching
    assert changed.engine.stats.prefix_queries == 0 < changed.engine.stats.prompt_tokens


def test_the_routers_index_expects_what_engines_render_differently() -> None:
    similar = fleet(pool(), policy="prefix")
    apart = fleet(pool(), "{kind: traffic, at: 0s, template: true}", policy="prefix")
    hits = []
    for each in (similar, apart):
        each.run(200.0)
        found = each.router.stats.expected_hits
        assert found.sum / found.count > 0.5
        stats = [p.engine.stats for p in each.pods]
        hits.append(sum(s.prefix_hits for s in stats) / sum(s.prefix_queries for s in stats))
    assert hits[0] > 0.5
    assert hits[1] < 0.01


def test_answers_from_broken_logits_are_counted() -> None:
    simulated = fleet(pool(", flags: {nan_check: true}"), "{kind: corrupt, at: 0s, pods: [vllm-0], share: 0.5}")
    simulated.run(200.0)
    broken, sound = (p.engine.stats for p in simulated.pods)
    assert 0.3 < broken.corrupted / sum(broken.success.values()) < 0.7
    assert sound.corrupted == 0
