"""Invariants of an engine: what goes in comes out, counters never fall, histograms count requests, Little's law
holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferdoc.simulate.batch import EngineConfig
from inferdoc.simulate.engine import Engine
from inferdoc.simulate.hardware import MeasuredTime, Roofline, model, tier
from inferdoc.simulate.request import EngineRequest, RequestState


def engine(blocks: int = 4000, **flags: object) -> tuple[Engine, list[EngineRequest]]:
    done: list[EngineRequest] = []
    config = EngineConfig(blocks=blocks, **flags)  # type: ignore[arg-type]
    timing = MeasuredTime(0.008, 0.0005, 1 / 8000)
    return Engine(config, timing, np.random.default_rng(1), finished=lambda r, now: done.append(r)), done


def feed(
    kept: Engine, rate: float, seconds: float, seed: int, prompt: int = 400, output: int = 120, adapters: int = 0
) -> list[EngineRequest]:
    """Poisson arrivals; the pool is checked, and the counters watched, every half second."""
    rng = np.random.default_rng(seed)
    sent: list[EngineRequest] = []
    now, due, before = 0.0, float(rng.exponential(1 / rate)), (0, 0, 0.0)
    while now < seconds:
        now += 0.5
        while due < now:
            tokens, answer = max(1, int(rng.normal(prompt, prompt / 4))), max(1, int(rng.normal(output, output / 4)))
            adapter = int(rng.integers(adapters)) if adapters else -1
            segments = [(("prefix", len(sent) % 4), 8), (("own", len(sent)), max(tokens // 16 - 8, 0))]
            request = EngineRequest(len(sent), max(tokens, 160), answer, answer, segments, due, adapter, sent=due)
            kept.submit(request, due)
            sent.append(request)
            due += float(rng.exponential(1 / rate))
        kept.advance(now)
        kept.pool.check()
        after = (kept.stats.generation, kept.stats.prompt_tokens, kept.stats.busy)
        assert all(a >= b for a, b in zip(after, before, strict=True))
        before = after
    return sent


def drain(kept: Engine) -> None:
    for _ in range(4000):
        if not kept.live():
            return
        kept.advance(kept.now + 1.0)


@given(
    rate=st.floats(0.5, 6.0),
    blocks=st.integers(120, 3000),
    seqs=st.integers(2, 64),
    budget=st.sampled_from([256, 2048, 8192]),
    draft=st.integers(0, 4),
    loras=st.integers(0, 2),
    seed=st.integers(0, 1000),
)
@settings(max_examples=25, deadline=None)
def test_every_request_comes_out_once(
    rate: float, blocks: int, seqs: int, budget: int, draft: int, loras: int, seed: int
) -> None:
    kept, done = engine(blocks, max_seqs=seqs, budget=budget, draft=draft, loras=loras)
    sent = feed(kept, rate, 40, seed, adapters=3 * loras)
    drain(kept)
    stats = kept.stats
    assert len(done) == len(sent) == sum(stats.success.values()) == len({r.id for r in done})
    for histogram in (
        stats.e2e,
        stats.queue,
        stats.prefill,
        stats.decode,
        stats.inference,
        stats.tpot,
        stats.ttft,
        stats.request_prompt,
        stats.request_generation,
        stats.request_preemptions,
        stats.http_fine,
    ):
        assert histogram.count == len(sent)
    assert stats.generation == sum(r.output for r in sent)
    assert stats.request_generation.sum == stats.generation
    assert stats.prompt_tokens == sum(r.prompt for r in sent) == stats.computed + stats.cached + stats.transferred
    assert stats.preemptions == sum(r.preemptions for r in sent)
    assert stats.e2e.sum >= stats.inference.sum + stats.queue.sum - 1e-6
    assert kept.pool.used == 0 and not kept.running and not kept.waiting
    assert stats.accepted <= stats.draft_tokens and sum(stats.accepted_at) == stats.accepted


def test_little_s_law() -> None:
    kept, _ = engine()
    rng, total, samples, now = np.random.default_rng(3), 0.0, 0, 0.0
    due, number = 0.0, 0
    while now < 600:
        now += 0.2
        while due < now:
            number += 1
            kept.submit(EngineRequest(number, 300, 100, 100, [], due, sent=due), due)
            due += float(rng.exponential(1 / 4.0))
        kept.advance(now)
        total += kept.load
        samples += 1
    stats = kept.stats
    expected = sum(stats.success.values()) / now * (stats.e2e.sum / stats.e2e.count)
    assert total / samples == pytest.approx(expected, rel=0.05)


def test_a_small_cache_preempts_and_a_large_one_does_not() -> None:
    small, _ = engine(160, max_seqs=64)
    feed(small, 4.0, 60, 5, prompt=200, output=400)
    large, _ = engine(20_000, max_seqs=64)
    feed(large, 4.0, 60, 5, prompt=200, output=400)
    assert small.stats.preemptions > 0 and large.stats.preemptions == 0
    assert small.stats.itl.sum / small.stats.itl.count > 0


def test_a_client_that_leaves_is_in_no_engine_statistics() -> None:
    kept, done = engine()
    request = EngineRequest(1, 200, 500, 500, [], 0.0)
    kept.submit(request, 0.0)
    kept.abort(request, 2.0)
    kept.advance(10.0)
    assert request.state == RequestState.DONE and request.left and done == [request]
    assert sum(kept.stats.success.values()) == 0 and kept.stats.e2e.count == 0
    assert kept.stats.http == {"2xx": 1} and kept.stats.ttft.count == 1 and kept.pool.used == 0


def test_a_hung_engine_freezes() -> None:
    kept, _ = engine()
    feed(kept, 3.0, 20, 2)
    before = (kept.stats.generation, len(kept.running), sum(kept.stats.http.values()))
    kept.hung = True
    kept.submit(EngineRequest(9999, 100, 10, 10, [], kept.now), kept.now)
    kept.advance(60.0)
    assert (kept.stats.generation, len(kept.running), sum(kept.stats.http.values())) == before


def test_adapters_beyond_the_slots_are_deferred() -> None:
    kept, _ = engine(loras=1)
    for number in range(6):
        kept.submit(EngineRequest(number, 100, 200, 200, [], 0.0, adapter=number), 0.0)
    kept.advance(1.0)
    assert kept.waiting_by_reason() == (0, 5)
    assert len({r.adapter for r in kept.running.values()}) == 1


def test_the_roofline_follows_the_hardware() -> None:
    fast, slow = Roofline(tier("h100-80"), model("llama-3.1-8b")), Roofline(tier("l40s"), model("llama-3.1-8b"))
    decode = (16, 16 * 1000.0, 0, 0.0, 16)
    assert slow.step(*decode).seconds / fast.step(*decode).seconds == pytest.approx(3350 / 864, rel=0.35)
    before = fast.step(*decode).seconds
    fast.health.clock[0] = fast.health.bandwidth[0] = 0.5
    assert fast.step(*decode).seconds > 1.6 * before
    pair = Roofline(tier("h100-80"), model("qwen3-32b"), 2)
    good = pair.step(*decode).seconds
    pair.health.bandwidth[1] = 0.5
    assert pair.step(*decode).seconds > 1.5 * good
