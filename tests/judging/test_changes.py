"""What changed in the window: restarts, outages that ended, capacity, traffic, gaps."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.fleet.members import Fleet
from inferdoc.judging.changes import find_events, gaps, workload_events
from inferdoc.judging.model import stamp
from inferdoc.judging.reading import names_of
from inferdoc.source.base import InfoSeries, Scrapes
from inferdoc.source.reads import Grid
from tests.judging.frames import CALM, START_MS, STEP_S, N, catalogue, scene, step, unit_of, wobble

START_S = START_MS / 1000


def target(up, labels=None, keep=None):
    times = START_MS + 2000 * np.arange(len(up), dtype=np.int64)
    kept = np.ones(len(up), dtype=bool) if keep is None else np.asarray(keep)
    return Scrapes(labels or {"pod": "p0", "instance": "a:1"}, times[kept], np.asarray(up, dtype=float)[kept])


def events(scrapes=(), **rows):
    context = scene({name: {"p0": values} for name, values in rows.items()} or {"load": {"p0": np.ones(N)}})
    return find_events(context, scrapes, catalogue().markers)


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
    found = events([target(step(1, 0, at=30, until=42))], kv_blocks=step(500, 420, at=10))
    assert [e.kind for e in found] == ["capacity", "outage"]
    assert [e.at for e in found] == sorted(e.at for e in found)


# ---- settings, versions, pods ---------------------------------------------------------------------------------------


def labelled(*spans, pod="p0", **common):
    """Info series of a pod: (from step, to step, labels)."""
    found = []
    for begin, end, labels in spans:
        values = np.full(N, np.nan)
        values[begin:end] = 1.0
        found.append(InfoSeries({"pod": pod, "instance": "a:1", "engine": "0", **common, **labels}, values))
    return {"vllm:cache_config_info": found}


def settings(infos, scrapes=(), **rows):
    pods = {"p0": np.ones(N)}
    context = scene({"load": pods, **{name: {"p0": values} for name, values in rows.items()}})
    return find_events(context, scrapes, catalogue().markers, infos)


def test_another_setting_is_named_with_both_values():
    (event,) = settings(labelled((0, CALM, {"cache_dtype": "auto"}), (CALM, N, {"cache_dtype": "fp8"})))
    assert (event.kind, event.entity, event.detail) == ("config", "p0", "cache_dtype auto -> fp8")
    assert event.at == START_S + CALM * STEP_S


def test_the_look_back_of_a_gauge_is_no_second_process():
    (event,) = settings(labelled((0, CALM + 3, {"cache_dtype": "auto"}), (CALM, N, {"cache_dtype": "fp8"})))
    assert event.at == START_S + CALM * STEP_S


def test_a_baseline_from_elsewhere_moves_no_change():
    context = scene({"load": {"p0": np.ones(N)}})
    context.view.lead = Grid(START_MS - 86_400_000, 2000, 30, 2000, 10_000, 5000)
    infos = labelled((0, CALM, {"cache_dtype": "auto"}), (CALM, N, {"cache_dtype": "fp8"}))
    (event,) = find_events(context, [], catalogue().markers, infos)
    assert event.at == START_S + CALM * STEP_S


def test_server_processes_side_by_side_are_no_change():
    assert settings(labelled((0, N, {"cache_dtype": "auto"}), (5, N, {"cache_dtype": "fp8"}))) == []


def test_labels_that_follow_from_others_and_addresses_do_not_count():
    before, after = {"kv_cache_size_tokens": "100"}, {"kv_cache_size_tokens": "200", "instance": "b:1"}
    assert settings(labelled((0, CALM, before), (CALM, N, after))) == []


def test_two_settings_at_once_earn_a_warning():
    before = {"gpu_memory_utilization": "0.9", "block_size": "16"}
    after = {"gpu_memory_utilization": "0.8", "block_size": "32"}
    (event,) = settings(labelled((0, CALM, before), (CALM, N, after)))
    assert "gpu_memory_utilization 0.9 -> 0.8" in event.detail and "cannot be distinguished" in event.detail


def test_what_a_rollout_shows_is_one_change():
    infos = labelled((0, CALM, {"block_size": "16"}), (CALM + 6, N, {"block_size": "32"}))
    started = step(START_S - 5000, START_S + CALM * STEP_S + 5)
    (event,) = settings(infos, kv_blocks=step(500, 250, at=CALM + 6), process_start_time=started)
    assert event.kind == "config" and event.at == pytest.approx(START_S + CALM * STEP_S + 5)
    assert "block_size 16 -> 32" in event.detail and "500" in event.detail and "process started" in event.detail


def pods_scraped(**spans):
    """Scrapes of pods between steps; every pod runs an engine."""
    context = scene({"load": {pod: np.ones(N) for pod in spans}})
    scrapes = []
    for pod, (begin, end) in spans.items():
        keep = np.zeros(N, dtype=bool)
        keep[begin:end] = True
        scrapes.append(target(np.ones(N), {"pod": pod, "instance": pod}, keep))
    return find_events(context, scrapes)


def test_pods_that_go_are_a_change_of_replicas():
    (event,) = pods_scraped(p0=(0, N), p1=(0, N), p2=(0, 50))
    assert event.kind == "replicas" and event.detail == "3 -> 2 pods; gone: p2"
    assert event.at == START_S + 49 * STEP_S


def test_pods_that_come_are_one_too():
    (event,) = pods_scraped(p0=(0, N), p1=(40, N))
    assert event.detail == "1 -> 2 pods; new: p1" and event.at == START_S + 40 * STEP_S


def test_pods_that_go_while_others_come_are_a_rollout():
    (event,) = pods_scraped(p0=(0, N), p1=(0, 40), p2=(44, N))
    assert event.kind == "rollout" and event.detail == "2 -> 2 pods; new: p2; gone: p1"


def test_a_pod_that_misses_a_few_scrapes_at_an_end_was_there():
    assert pods_scraped(p0=(0, N), p1=(3, N - 3)) == []


# ---- traffic --------------------------------------------------------------------------------------------------------


def workload(**rows):
    context = scene({name: {"p0": values} for name, values in rows.items()})
    return workload_events(context, unit_of(context), CALM, N - 1)


def test_arrivals_are_those_of_the_api_server_where_it_counts_them():
    """Clients that hang up leave no trace in what the engine finishes: while more come, less of it arrives."""
    (event,) = workload(http_arrival_rate=wobble(step(2, 8)), arrival_rate=wobble(step(2, 0.7)))
    assert event.detail.startswith("HTTP requests arriving ") and event.detail.endswith("-> 8.14/s")


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
    (gap,) = gaps([target(np.ones(N), keep=keep)], 2000, Fleet())
    assert gap.entity == "p0"
    assert (gap.from_, gap.until) == (stamp(START_S + 38), stamp(START_S + 60))


def test_failed_scrapes_are_a_gap_too():
    (gap,) = gaps([target(step(1, 0, at=20, until=30))], 2000, Fleet())
    assert (gap.from_, gap.until) == (stamp(START_S + 38), stamp(START_S + 60))


def test_two_scrapes_missed_are_none():
    keep = np.ones(N, dtype=bool)
    keep[[20, 21, 40]] = False
    assert gaps([target(np.ones(N), keep=keep)], 2000, Fleet()) == []


def test_series_that_tell_of_changes_are_read_beside_those_of_the_signals():
    names = names_of(["running"], catalogue(), catalogue().aliases)
    assert {"vllm:num_requests_running", "vllm:cache_config_info"} <= names
    assert "vllm:num_requests_waiting" not in names
