"""What changed in the window: restarts, outages that ended, capacity, traffic, gaps."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.diagnose.changes import find_events, gaps, workload_events
from inferdoc.diagnose.model import stamp
from inferdoc.source.base import Scrapes
from tests.diagnose.frames import CALM, START_MS, STEP_S, N, scene, step, unit_of, wobble

START_S = START_MS / 1000


def target(up, labels=None, keep=None):
    times = START_MS + 2000 * np.arange(len(up), dtype=np.int64)
    kept = np.ones(len(up), dtype=bool) if keep is None else np.asarray(keep)
    return Scrapes(labels or {"pod": "p0", "instance": "a:1"}, times[kept], np.asarray(up, dtype=float)[kept])


def events(scrapes=(), **rows):
    context = scene({name: {"p0": values} for name, values in rows.items()} or {"load": {"p0": np.ones(N)}})
    return find_events(context, scrapes)


def test_a_quiet_window_has_no_changes():
    flat = {"process_start_time": np.full(N, START_S - 5000), "kv_blocks": np.full(N, 500.0)}
    assert events([target(np.ones(N))], **flat) == []


def test_a_new_start_time_is_a_restart_at_that_time():
    (event,) = events(process_start_time=step(START_S - 5000, START_S + 77.5))
    assert event.kind == "restart" and event.entity == "p0"
    assert event.at == pytest.approx(START_S + 77.5) and stamp(event.at) in event.detail


def test_a_restart_is_seen_across_the_gap_it_leaves():
    started = step(START_S - 5000, START_S + 100)
    started[CALM - 5 : CALM + 5] = np.nan
    (event,) = events(process_start_time=started)
    assert event.kind == "restart"


def test_clock_jitter_is_no_restart():
    assert events(process_start_time=START_S + 0.3 * np.random.default_rng(1).random(N)) == []


def test_another_number_of_blocks_is_a_change_of_capacity():
    (event,) = events(kv_blocks=step(500, 420))
    assert event.kind == "capacity" and event.at == START_S + CALM * STEP_S
    assert "500" in event.detail and "420" in event.detail


def test_an_outage_that_ended_says_how_long():
    (event,) = events([target(step(1, 0, at=30, until=42))])
    assert event.kind == "outage" and event.at == START_S + 60
    assert "24 s" in event.detail and event.entity == "p0"


@pytest.mark.parametrize("up", [step(1, 0), step(0, 1), np.zeros(N), np.ones(N)])
def test_an_outage_without_a_beginning_or_an_end_is_no_event(up):
    assert events([target(up)]) == []


def test_a_target_without_a_pod_is_named_by_its_address():
    (event,) = events([target(step(1, 0, at=30, until=42), {"instance": "a:1"})])
    assert event.entity == "a:1"


def test_changes_are_in_order_of_time():
    found = events(
        [target(step(1, 0, at=30, until=42))], kv_blocks=step(500, 420, at=10), process_start_time=step(0, START_S + 90)
    )
    assert [e.kind for e in found] == ["capacity", "outage", "restart"]
    assert [e.at for e in found] == sorted(e.at for e in found)


# ---- traffic --------------------------------------------------------------------------------------------------------


def workload(**rows):
    context = scene({name: {"p0": values} for name, values in rows.items()})
    return workload_events(context, unit_of(context), CALM, N - 1)


def test_twice_the_traffic_is_a_change_of_the_workload():
    (event,) = workload(arrival_rate=wobble(step(2, 4)))
    assert event.kind == "workload" and event.at == START_S + CALM * STEP_S
    assert "2/s" in event.detail or "1.9" in event.detail or "2.0" in event.detail


def test_half_the_traffic_too():
    assert len(workload(arrival_rate=wobble(step(4, 1.5)))) == 1


@pytest.mark.parametrize("values", [wobble(step(2, 2.4)), wobble(np.full(N, 2.0)), np.zeros(N), step(0, 5)])
def test_a_little_more_or_from_nothing_is_no_change(values):
    assert workload(arrival_rate=values) == []


def test_longer_prompts_and_longer_answers_are_named():
    found = workload(prompt_tokens_per_request=wobble(step(300, 3000)), output_len_mean=wobble(step(80, 600)))
    assert len(found) == 2
    assert any("3,0" in e.detail or "2,9" in e.detail for e in found)


# ---- gaps -----------------------------------------------------------------------------------------------------------


def test_missing_scrapes_are_a_gap_of_the_target():
    keep = np.ones(N, dtype=bool)
    keep[20:30] = False
    (gap,) = gaps([target(np.ones(N), keep=keep)], 2000)
    assert gap.entity == "p0"
    assert (gap.from_, gap.until) == (stamp(START_S + 38), stamp(START_S + 60))


def test_failed_scrapes_are_a_gap_too():
    (gap,) = gaps([target(step(1, 0, at=20, until=30))], 2000)
    assert (gap.from_, gap.until) == (stamp(START_S + 38), stamp(START_S + 60))


def test_two_scrapes_missed_are_none():
    keep = np.ones(N, dtype=bool)
    keep[[20, 21, 40]] = False
    assert gaps([target(np.ones(N), keep=keep)], 2000) == []
