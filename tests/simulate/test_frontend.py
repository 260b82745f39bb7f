"""The front end of an engine: one process serves one request at a time, images and grammars are kept, the guard counts
what runs."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.simulate.batch import EngineConfig
from inferdoc.simulate.engine import Engine
from inferdoc.simulate.hardware import Roofline, model, tier
from inferdoc.simulate.request import EngineRequest
from inferdoc.simulate.workload import IMAGE, IMAGES_KEPT, FrontEnd, Grammars


def request(number: int, prompt: int = 400, output: int = 20, **more: object) -> EngineRequest:
    return EngineRequest(number, prompt, output, output, [(("own", number), prompt // 16)], 0.0, **more)  # type: ignore[arg-type]


def engine(**flags: object) -> tuple[Engine, list[EngineRequest]]:
    done: list[EngineRequest] = []
    timing = Roofline(tier("h100-80"), model("llama-3.1-8b"))
    config = EngineConfig(blocks=2000, **flags)  # type: ignore[arg-type]
    return Engine(config, timing, np.random.default_rng(1), finished=lambda r, now: done.append(r)), done


def test_one_process_serves_one_request_at_a_time() -> None:
    front = FrontEnd(1, 0.0)
    assert [front.ready_at(0.0, 0.1, 0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert front.lag(0.05) == pytest.approx(0.25)


def test_a_second_process_halves_the_wait() -> None:
    front = FrontEnd(2, 0.0)
    assert [front.ready_at(0.0, 0.1, 0) for _ in range(4)] == pytest.approx([0.1, 0.1, 0.2, 0.2])


def test_streaming_takes_time_from_prompts() -> None:
    """25 microseconds for each of 20,000 tokens a second are half of one process."""
    waits = [FrontEnd(1, 0.0).ready_at(10.0, 0.01, tokens) - 10.0 for tokens in (0, 200_000)]
    assert waits == pytest.approx([0.01, 0.02])


def test_an_image_is_processed_once_while_it_is_kept() -> None:
    front = FrontEnd(1, 0.0)
    first, new = front.images(request(0, images=(7, 8)))
    again, known = front.images(request(1, images=(7, 8)))
    assert (new, known) == (2, 0)
    assert first == pytest.approx(2 * IMAGE)
    assert again < 0.05 * first
    front.images(request(2, images=tuple(range(100, 100 + IMAGES_KEPT))))
    assert front.images(request(3, images=(7,)))[1] == 1
    assert (front.media_queries, front.media_hits) == (5 + IMAGES_KEPT, 2)


def test_a_schema_is_compiled_once_and_threads_are_shared() -> None:
    grammars = Grammars(1, 0.0)
    assert grammars.ready_at(1, 2.0, 0.0) == pytest.approx(2.0)
    assert grammars.ready_at(1, 2.0, 5.0) <= 5.0
    assert grammars.ready_at(2, 2.0, 5.0) == pytest.approx(7.0)
    assert grammars.ready_at(3, 2.0, 5.0) == pytest.approx(9.0)


def test_requests_wait_deferred_for_their_grammar_and_others_pass() -> None:
    kept, done = engine(grammar_workers=1)
    kept.submit(request(0, schema=1, schema_seconds=3.0), 0.0)
    kept.submit(request(1), 0.0)
    kept.advance(1.0)
    assert kept.waiting_by_reason() == (0, 1)
    assert [r.id for r in done] == [1]
    kept.advance(5.0)
    assert [r.id for r in done] == [1, 0]
    assert done[1].scheduled - done[1].queued == pytest.approx(3.0, abs=0.1)


def test_a_client_that_leaves_while_its_grammar_is_compiled_is_gone() -> None:
    kept, _ = engine(grammar_workers=1)
    waits = request(0, schema=1, schema_seconds=3.0)
    kept.submit(waits, 0.0)
    kept.advance(1.0)
    kept.abort(waits, 1.0)
    kept.advance(6.0)
    assert kept.load == 0
    assert waits.left
    assert sum(kept.stats.success.values()) == 0


def test_the_guard_counts_running_requests() -> None:
    kept, done = engine(max_queued=3)
    for number in range(5):
        kept.submit(request(number, output=2000), 0.0)
    kept.advance(0.5)
    assert len(kept.running) == 3
    assert kept.front.rejected == 2
    assert kept.stats.http == {"5xx": 2}
    assert [r.id for r in done if r.failed] == [3, 4]


def test_a_slow_front_end_delays_first_tokens_and_leaves_gaps_alone() -> None:
    quick, _ = engine()
    slow, _ = engine()
    slow.front.slower = 100.0
    for kept in (quick, slow):
        for number in range(10):
            kept.submit(request(number), 0.5 * number)
        kept.advance(60.0)
    mean = {h: h.stats.ttft.sum / h.stats.ttft.count for h in (quick, slow)}
    assert mean[slow] > mean[quick] + 0.08
    assert slow.stats.queue.sum == pytest.approx(quick.stats.queue.sum, abs=0.01)
    gaps = {h: h.stats.itl.sum / h.stats.itl.count for h in (quick, slow)}
    assert gaps[slow] == pytest.approx(gaps[quick], rel=0.1)


def test_a_batch_beyond_the_captured_graphs_pays_for_its_launch() -> None:
    timing = Roofline(tier("h100-80"), model("llama-3.1-8b"), graphs=16)
    inside, outside = (timing.step(n, n * 500.0, 0, 0.0, n).seconds for n in (16, 17))
    assert outside > 2 * inside


def test_a_parser_of_another_format_finds_no_call() -> None:
    shares = []
    for misses in (0.0, 1.0):
        kept, done = engine()
        kept.parser_misses = misses
        for number in range(40):
            kept.submit(request(number, output=2, tools=True), 0.1 * number)
        kept.advance(60.0)
        assert len(done) == 40
        shares.append(kept.stats.tools.get("no_tool_call", 0) / 40)
        assert any(r.missed for r in done) == bool(misses)
    assert shares[0] < 0.6
    assert shares[1] == 1.0
