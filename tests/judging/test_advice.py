"""Numbers in next steps: worked out from what was seen, left out where it was not, never invented, never a formula."""

from __future__ import annotations

import re

import numpy as np
import pytest

from inferdoc.capacity.memory import safe_concurrency
from inferdoc.capacity.service_level import safe_queue_depth, transfer_seconds
from inferdoc.capacity.step_time import break_even_chance, break_even_tokens, expected_tokens
from inferdoc.config_sections import SloSection
from inferdoc.judging.advice import NUMBERS, fill
from inferdoc.judging.places import PLACES
from inferdoc.judging.settings import PREVIOUS
from inferdoc.judging.verdict import Match
from tests.judging.frames import N, catalogue, recipe, scene, step, unit_of

ONSET = 70
"""Late, so that most of the window lies before it."""
BRACED = re.compile(r"\{(\w+)\}")


def told(text, from_start=False, pods=("p0",), **rows):
    context = scene(
        {name: dict.fromkeys(pods, values) for name, values in rows.items()} or {"load": {"p0": np.ones(N)}}
    )
    match = Match(recipe(), unit_of(context), ONSET, N - 1, from_start, [], "likely")
    return fill(text, context, match)


def test_the_formulas():
    assert safe_queue_depth(2.0, 10.0) == pytest.approx(17.0), "Little's law, 85 %"
    assert safe_concurrency(100_000, 1000) == pytest.approx(90.0)


def test_the_queue_that_is_still_answered_in_time():
    text = told("cap it at {safe_queue}", request_rate=step(99, 10, at=ONSET))
    assert text.startswith("cap it at 17 requests (10 finish per second"), "after the onset, not before"
    assert told("{safe_queue}", request_rate=np.full(N, 0.1)).startswith("1 request ("), "never 0"


def test_the_batch_that_fits_the_cache():
    lengths = {"prompt_len_mean": np.full(N, 800.0), "output_len_mean": np.full(N, 400.0)}
    text = told("{safe_running}", kv_capacity_tokens=np.full(N, 100_000.0), **lengths)
    assert text.startswith("90 (100,000 KV tokens, 1,000 tokens")


def test_the_cache_that_the_load_needs():
    rows = {"prompt_len_mean": np.full(N, 800.0), "output_len_mean": np.full(N, 400.0), "running": step(1, 6, at=ONSET)}
    assert told("{kv_needed}", **rows) == "6,667 tokens"
    assert told("{kv_needed}", **rows, waiting_capacity=step(0, 3, at=ONSET)) == "10,000 tokens"


def test_the_replicas_that_the_arrivals_need():
    rates = {"arrival_rate": step(2, 9, at=ONSET), "request_rate": np.full(N, 3.0)}
    text = told("scale to {replicas}", pods=("p0", "p1"), **rates)
    assert text.startswith("scale to 8 replicas (now 2;"), "9 / 3 x 2 pods x 1.2 = 7.2"


def test_what_a_draft_gave_and_gives():
    assert told("{accepted_length}", spec_acceptance_length=step(4.2, 1.1, at=ONSET)) == "4.20 to 1.10 tokens a step"


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_without_its_inputs_a_number_is_left_out(name):
    assert told(f"use {{{name}}} of it") is None
    assert told(f"use it[, {{{name}}} of it]") == "use it"
    assert told(f"use [{{{name}}}|some of it], then [ {{{name}}}|more]") == "use some of it, then more"


def test_words_in_brackets_without_a_number_stay():
    assert told("{.items[0].metadata.name} [or {nobody}]") == "{.items[0].metadata.name} or {nobody}"


def test_no_number_where_the_inputs_make_none():
    assert told("{safe_queue}", request_rate=np.zeros(N)) is None
    assert told("{replicas}", arrival_rate=np.full(N, 2.0), request_rate=np.full(N, 3.0)) is None
    assert told("{accepted_length}", from_start=True, spec_acceptance_length=step(4, 1, at=ONSET)) is None


def test_one_pod_fewer_carries_its_share_of_the_load():
    assert told("{scale_in_share}", pods=("p0", "p1", "p2"), load=np.ones(N)) == "67%"


def test_the_largest_step_has_a_token_and_its_drafts_for_each_request():
    drafts = {"spec_acceptance_length": np.full(N, 1.6), "spec_acceptance_rate": np.full(N, 0.2)}
    assert told("{largest_batch}", running=step(10, 24, at=ONSET)) == "24 tokens"
    assert told("{largest_batch}", running=step(10, 24, at=ONSET), **drafts) == "96 tokens"


def test_the_cores_of_the_router_follow_from_requests_prompts_and_pods():
    """2 pods x 10 requests/s x 10,000 tokens / 100,000 x 0.75 = 1.5; 2 pods x 0.075 = 0.15."""
    rates = {"request_rate": np.full(N, 10.0), "prompt_len_mean": np.full(N, 10_000.0)}
    assert told("{router_cores}", pods=("p0", "p1"), **rates) == "2 cores"


def test_other_braces_stay():
    assert told('{"a": 1} and {nobody}') == '{"a": 1} and {nobody}'


def test_every_number_that_a_cause_names_exists():
    for one in catalogue().recipes.values():
        for words in one.next_steps:
            assert set(BRACED.findall(words.undo)) <= NUMBERS.keys() | PLACES.keys() | {PREVIOUS}, (one.id, words.undo)
            for text in (words.do, words.why, words.cost, words.command or ""):
                assert set(BRACED.findall(text)) <= NUMBERS.keys() | PLACES.keys(), (one.id, text)


def test_speculation_breaks_even():
    assert expected_tokens(0.8, 3) == pytest.approx(2.952), "1 + 0.8 + 0.64 + 0.512"
    assert break_even_tokens(3, 0.1) == pytest.approx(1.3)
    assert expected_tokens(break_even_chance(3, 0.1), 3) == pytest.approx(1.3)
    text = told("{break_even}", spec_acceptance_length=np.full(N, 1.6), spec_acceptance_rate=np.full(N, 0.2))
    assert text.startswith("1.15 to 1.30 tokens a step") and "3 drafted" in text


def test_gigabits_are_no_gigabytes():
    assert transfer_seconds(0.67e9, 400, 1.0) == pytest.approx(0.0134)
    rows = {"nixl_bytes_rate": np.full(N, 1.34e9), "nixl_xfer_rate": np.full(N, 2.0), "nixl_xfer_mean": np.full(N, 0.5)}
    assert told("{expected_transfer}", **rows) == (
        "a read of 670 MB takes 14.9 ms to 19.1 ms on a 400 Gb/s link; here 500 ms"
    )


def test_the_slo_says_how_long_may_be_waited():
    rows = {"request_rate": {"p0": np.full(N, 10.0)}}
    context = scene(rows, slo=[SloSection(limits={"ttft_p99": 0.5})])
    match = Match(recipe(), unit_of(context), ONSET, N - 1, False, [], "likely")
    assert fill("{safe_queue}", context, match).startswith("4 requests (10 finish per second, 0.5 s")


def test_the_ratio_of_prefill_to_decode():
    """4 requests/s x 1000 tokens x 0.5 ms = 2 prefill pods; 4 x 150 over 200 tokens/s = 3 decode pods; both x 1.2."""
    pods = {"p-prefill-0": "prefill", "p-decode-0": "decode", "p-decode-1": "decode"}
    values = {
        "prefill": {"computed_tokens_per_request": 1000.0, "prefill_seconds_per_token": 5e-4},
        "decode": {"request_rate": 2.0, "output_len_mean": 150.0, "generation_tokens_rate": 200.0},
    }
    rows: dict = {}
    for pod, role in pods.items():
        for name, value in values[role].items():
            rows.setdefault(name, {})[pod] = np.full(N, value)
    context = scene(rows, {pod: {"role": role} for pod, role in pods.items()})
    match = Match(recipe(), unit_of(context, "p-decode-0"), ONSET, N - 1, False, [], "likely")
    assert fill("{pd_ratio}", context, match).startswith(
        "3 prefill to 4 decode pods (now 1 to 2; 4 requests/s keep 2 and 3"
    )
