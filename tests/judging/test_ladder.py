"""A fault that is older than the window and the history before it: hours further back it was better."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.references.providers import HOUR_MS, WORSE, _block, _much_worse, _worse, earlier_span
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record
from tests.judging.frames import START_MS, frame_of, grid

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


@pytest.mark.takes_long("close to four hours of a fleet are simulated")
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
def test_a_block_is_as_long_as_the_window_up_to_half_an_hour(steps, seconds):
    block = _block(grid(steps), START_MS - HOUR_MS)
    assert block.end_ms == START_MS - HOUR_MS
    assert block.end_ms - block.start_ms + block.step_ms == seconds * 1000


WINDOW = grid(900)


def session_where(waits):
    """A source in which one pod shows this time to first token, seconds, so many hours before the window."""

    def read(_, steps):
        hours = (steps.times_ms - WINDOW.start_ms) / HOUR_MS
        frame = frame_of({"ttft_mean": {"a": [waits(-hour) for hour in hours]}})
        frame.grid = steps
        return frame

    frame = read((), WINDOW)
    view = SimpleNamespace(units=["a"], frame=frame)
    return SimpleNamespace(
        frame=frame, context=SimpleNamespace(view=view), read=read, source=SimpleNamespace(names=lambda *_: {"up"})
    )


@pytest.mark.parametrize(
    ("waits", "hours"),
    [
        (lambda before: 2.0 if before < 0.1 else 0.2, 0.5),  # the hour before the history is no hole
        (lambda before: 2.0 if before < 2.2 else 0.2, 2.5),
        (lambda before: max(0.2, 2.0 - 0.45 * max(before, 0.0)), 4.5),  # a climb of four hours begins where it begins
        (lambda before: 2.0, None),
    ],
)
def test_the_nearest_block_before_a_climb_is_the_reference(waits, hours):
    lead = earlier_span(session_where(waits))
    assert (lead and (lead[0], round((WINDOW.start_ms - lead[1][1]) / HOUR_MS, 2))) == (hours and ("history", hours))
