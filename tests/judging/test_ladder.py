"""A fault that is older than the window and the history before it: hours further back it was better."""

from __future__ import annotations

import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.references.providers import HOUR_MS, WORSE, _much_worse, _stretch, _worse
from inferdoc.simulate.output import write_store
from inferdoc.simulate.recording import record
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.store import Store
from tests.judging.frames import grid

ONE_OF_THREE = """\
id: cpu-starvation
title: One engine of three is short of CPU for hours
expect: {cause: cpu-starvation, pods: [vllm-1], onset: 40m}
pools:
  - {name: vllm, pods: 3, tier: h100-80, model: llama-3.1-8b}
traffic:
  - rate: 3
    prompt: {median: 400, sigma: 0.5, max: 3000}
    output: {median: 200, sigma: 0.5, max: 1000}
faults:
  - {kind: cpu, at: 40m, pods: [vllm-1], cpu: 0.08}
duration: 3h40m
seed: 3
"""
QUEUE_WITHOUT_END = """\
id: demand-beyond-capacity
title: More arrives for hours than one engine can finish
expect: {cause: demand-beyond-capacity, pods: [vllm-0], onset: 40m}
pools:
  - {name: vllm, pods: 1, tier: a100-80, model: qwen3-32b, gpus: 2, flags: {max_seqs: 16}}
traffic:
  - load: 0.5
    prompt: {median: 500, sigma: 0.4, max: 3000}
    output: {median: 200, sigma: 0.4, max: 900}
faults:
  - {kind: traffic, at: 40m, rate: 3.0}
duration: 3h40m
seed: 3
"""


@pytest.mark.parametrize("text", [ONE_OF_THREE, QUEUE_WITHOUT_END], ids=["one-of-three", "queue-without-end"])
def test_a_fault_of_three_hours_is_named_by_who_looks_at_the_last_one(tmp_path, text):
    """Its neighbours are well, so that no median over a pool tells; a queue is harm by any limit, of whatever cause."""
    path = tmp_path / "scenario.yaml"
    path.write_text(text, "utf-8")
    scenario = load_scenario(str(path))
    with Store.open(tmp_path / "fleet.db", "w") as store:
        write_store(record(scenario).targets, store)
    source = open_source(store=tmp_path / "fleet.db")
    try:
        answer = diagnose(source, since="1h", until=scenario.start + scenario.duration)
    finally:
        source.close()
    (finding,) = answer.findings
    assert (finding.id, tuple(finding.scope.pods)) == (scenario.expect.cause, scenario.expect.pods)


@pytest.mark.parametrize(
    ("now", "then", "by", "much"),
    [
        ({"e2e_mean": 1.5}, {"e2e_mean": 1.0}, ["e2e_mean"], False),
        ({"e2e_mean": 1.4}, {"e2e_mean": 0.8}, ["e2e_mean"], False),
        ({"e2e_mean": 1.4}, {"e2e_mean": 1.0}, [], False),
        ({"waiting": 3.0}, {"waiting": 1.0}, ["waiting"], True),
        ({"waiting": 2.9}, {"waiting": 0.97}, [], False),
        ({"waiting": 2.0}, {"waiting": 0.0}, ["waiting"], True),
        ({"ttft_mean": 0.09}, {"ttft_mean": 0.01}, [], False),
        ({"waiting": 7.5, "e2e_mean": 3.0}, {"waiting": 5.0, "e2e_mean": 2.0}, ["e2e_mean", "waiting"], True),
        ({"waiting": 7.5, "e2e_mean": 3.0}, {"waiting": 5.0}, ["waiting"], False),
        ({"waiting": 7.5}, {}, [], False),
    ],
)
def test_worse_are_two_quantities_or_one_by_far_and_each_so_that_a_user_can_notice(now, then, by, much):
    assert _worse(now, then, WORSE) == by
    assert _much_worse(now, then, WORSE) == much


@pytest.mark.parametrize(("steps", "seconds"), [(300, 598), (900, 1798), (3600, 1800)])
def test_a_stretch_ends_so_long_before_and_is_as_long_as_the_window_up_to_half_an_hour(steps, seconds):
    window = grid(steps)
    before, yesterday = (
        _stretch(window, "history", HOUR_MS),
        _stretch(window, "same-hour-yesterday", 24 * HOUR_MS),
    )
    assert before.end_ms == window.start_ms - HOUR_MS
    assert yesterday.end_ms == window.end_ms - 24 * HOUR_MS
    assert {each.end_ms - each.start_ms + each.step_ms for each in (before, yesterday)} == {seconds * 1000}
