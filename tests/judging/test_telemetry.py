"""What the scrapes themselves tell: signals that vanished, targets scraped twice, scrapes that are missing."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.telemetry import add_telemetry
from inferdoc.source.base import Scrapes
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from tests.judging.frames import START_MS, STEP_S, WINDOW, N, catalogue, frame_of, grid

SIGNALS = catalogue().signals
ONES = np.ones(N)
GONE = np.where(np.arange(N) < 45, 1.0, np.nan)


def scraped(labels, times_s, up=1.0):
    return Scrapes(
        labels, np.array([START_MS + round(1000 * t) for t in times_s], dtype=np.int64), np.full(len(times_s), up)
    )


def derived(name, rows, scrapes=()):
    frame = frame_of(rows)
    add_telemetry(frame, SIGNALS, scrapes)
    return frame.signals.get(name)


# ---- lost signals ---------------------------------------------------------------------------------------------------


def lost(**rows):
    matrix = derived("lost_signals", {name: {"p0/0": values} for name, values in rows.items()})
    return None if matrix is None else matrix.values[0]


def test_a_signal_that_vanishes_while_others_stay_is_lost():
    found = lost(running=ONES, waiting=ONES, kv_usage=GONE)
    assert (found[:45] == 0).all()
    assert (found[45:] == 1).all(), "from the first scrape on that lacks it"


def test_what_the_former_pods_of_a_workload_showed_a_new_one_has_lost():
    old, new = "llm-6d4b75cb6d-h8pcq/0", "llm-7f9c4d5b8f-2xk9z/0"
    before, after = np.where(np.arange(N) < 30, 1.0, np.nan), np.where(np.arange(N) < 30, np.nan, 1.0)
    renamed = {"running": {old: before, new: after}, "waiting": {old: before, new: after}, "kv_usage": {old: before}}
    soon_gone = np.where(np.arange(N) < 31, after, np.nan)
    kinds = ((renamed, 1), (renamed | {"kv_usage": {old: before, new: soon_gone}}, 1))
    for rows, count in (*kinds, (renamed | {"kv_usage": {old: before, new: after}}, 0)):
        matrix = derived("lost_signals", rows)
        of = {entity.pod: row for entity, row in zip(matrix.entities, matrix.values, strict=True)}
        assert of[new.split("/")[0]][-1] == count and np.nansum(of[old.split("/")[0]]) == 0


def test_rows_without_a_model_label_are_no_former_pods_of_those_with_one():
    old, new = ("pod", "llm-6d4b75cb6d-h8pcq"), ("pod", "llm-7f9c4d5b8f-2xk9z")
    before, after = np.where(np.arange(N) < 30, 1.0, np.nan), np.where(np.arange(N) < 30, np.nan, 1.0)
    frame = SignalFrame(grid())
    for name, pods in (("running", (old,)), ("waiting", (old, new)), ("kv_usage", (old, new))):
        frame.signals[name] = SignalMatrix(
            [Entity((("model_name", "m"), pod)) for pod in pods], np.vstack([before, after][: len(pods)])
        )
    frame.signals["kv_blocks"] = SignalMatrix([Entity((pod,)) for pod in (old, new)], np.vstack([before, after]))
    add_telemetry(frame, SIGNALS, ())
    matrix = frame.signals["lost_signals"]
    of = {entity.labels: row[-1] for entity, row in zip(matrix.entities, matrix.values, strict=True)}
    assert of[(("model_name", "m"), new)] == 1


def test_a_new_address_has_lost_what_the_engines_of_its_model_showed():
    before, after = np.where(np.arange(N) < 30, 1.0, np.nan), np.where(np.arange(N) < 30, np.nan, 1.0)

    def last(model: str) -> float:
        labels = ("namespace", "instance", "model_name")
        old, new = Entity.of(labels, ("llm", "10.0.0.1:8000", "a")), Entity.of(labels, ("llm", "10.0.0.2:8000", model))
        frame = SignalFrame(grid())
        for name, entities in (("running", (old, new)), ("waiting", (old, new)), ("kv_usage", (old,))):
            frame.signals[name] = SignalMatrix(list(entities), np.vstack([before, after][: len(entities)]))
        add_telemetry(frame, SIGNALS, ())
        matrix = frame.signals["lost_signals"]
        of = dict(zip(matrix.entities, matrix.values, strict=True))
        return float(of[new][-1])

    assert (last("a"), last("b")) == (1, 0)


def test_several_are_counted():
    assert lost(running=ONES, waiting=GONE, kv_usage=GONE, kv_usage_mean=GONE)[-1] == 3


def test_a_target_that_is_gone_altogether_lost_nothing():
    found = lost(running=GONE, waiting=GONE, kv_usage=GONE)
    assert np.nansum(found) == 0 and np.isnan(found[-1])


def test_a_pod_that_is_gone_lost_nothing_though_some_signals_are_looked_back_to_for_longer():
    longer = np.where(np.arange(N) < 48, 1.0, np.nan)
    found = lost(running=GONE, waiting=GONE, kv_usage=longer)
    assert (found[:48] == 0).all() and np.isnan(found[48:]).all()


def test_a_signal_that_comes_back_after_two_windows_was_not_lost():
    for length, lost_steps in ((2 * WINDOW, 0), (2 * WINDOW + 1, 2 * WINDOW + 1)):
        hole = ONES.copy()
        hole[40 : 40 + length] = np.nan
        assert np.nansum(lost(running=ONES, waiting=ONES, kv_usage=hole)) == lost_steps


def test_a_gap_of_a_scrape_or_two_is_no_loss():
    holes = ONES.copy()
    holes[[30, 31, 50, 70]] = np.nan
    assert np.nansum(lost(running=ONES, waiting=ONES, kv_usage=holes)) == 0


def test_what_was_never_there_is_not_lost():
    assert np.nansum(lost(running=ONES, kv_usage=np.full(N, np.nan))) == 0


def test_ratios_and_quantiles_come_and_go_with_the_traffic():
    """Without requests there is no mean and no hit ratio: nothing is wrong with the telemetry."""
    assert np.nansum(lost(running=ONES, ttft_mean=GONE, prefix_hit_ratio=GONE, ttft_p99=GONE)) == 0


# ---- duplicates -----------------------------------------------------------------------------------------------------


def running_on(*instances, since=0, **common):
    rows, entities = [], []
    for number, instance in enumerate(instances):
        labels = {"pod": "p0", "model_name": "m", "instance": instance, **common}
        entities.append(Entity.of(tuple(labels), tuple(labels.values())))
        rows.append(np.where(np.arange(N) >= (since if number else 0), 1.0, np.nan))
    frame = frame_of({"running": {"other": ONES}})
    frame.signals["running"] = SignalMatrix(entities, np.vstack(rows))
    add_telemetry(frame, SIGNALS, [])
    return frame.signals["duplicate_targets"].values[0]


def test_one_engine_under_two_addresses_is_a_duplicate():
    assert (running_on("10.0.0.1:8000", "10.0.0.1:9000") == 1).all()
    found = running_on("10.0.0.1:8000", "10.0.0.1:9000", since=40)
    assert (found[:40] == 0).all() and (found[40:] == 1).all()
    assert (running_on("a:1", "a:2", "a:3") == 2).all()


@pytest.mark.parametrize(
    ("second", "started", "work", "more"),
    [("a:2", 0.0, 1.0, 1), ("a:2", 0.0, 1.01, 1), ("a:2", 0.0, 1.1, 0), ("a:2", 7.5, 1.0, 0), ("b:2", 0.0, 1.0, 0)],
)
def test_without_a_pod_label_host_start_and_work_tell_the_process(second: str, started: float, work: float, more: int):
    first, other = (Entity((("instance", instance), ("model_name", "m"))) for instance in ("a:1", second))
    frame = frame_of({"running": {"other": ONES}})
    frame.signals["running"] = SignalMatrix([first, other], np.ones((2, N)))
    times = np.array([[1.7e9], [1.7e9 + started]]) * np.ones(N)
    frame.signals["process_start_time"] = SignalMatrix([first, other], times)
    tokens = np.array([[100.0], [100.0 * work]]) * np.ones(N)
    frame.signals["generation_tokens_rate"] = SignalMatrix([first, other], tokens)
    add_telemetry(frame, SIGNALS, [])
    assert (frame.signals["duplicate_targets"].values == more).all()


@pytest.mark.parametrize(("scraped", "more"), [(10, 1), (80, 0)])
def test_what_lies_between_two_scrapes_is_more_of_a_short_range(scraped: int, more: int):
    first, other = (Entity((("instance", instance), ("model_name", "m"))) for instance in ("a:1", "a:2"))
    frame = frame_of({"running": {"other": ONES}})
    there = np.where(np.arange(N) < N - scraped, np.nan, 1.0)
    frame.signals["running"] = SignalMatrix([first, other], np.vstack([np.ones(N), there]))
    frame.signals["process_start_time"] = SignalMatrix([first, other], np.full((2, N), 1.7e9))
    tokens = np.vstack([np.full(N, 100.0), 105.0 * there])
    frame.signals["generation_tokens_rate"] = SignalMatrix([first, other], tokens)
    add_telemetry(frame, SIGNALS, [])
    assert frame.signals["duplicate_targets"].values[0, -1] == more


@pytest.mark.parametrize(("later", "more"), [(100.0, 1), (110.0, 0)])
def test_the_first_window_of_a_rate_is_no_other_work(later: float, more: int):
    first, other = (Entity((("instance", instance), ("model_name", "m"))) for instance in ("a:1", "a:2"))
    frame = frame_of({"running": {"other": ONES}})
    frame.signals["process_start_time"] = SignalMatrix([first, other], np.full((2, N), 1.7e9))
    frame.signals["running"] = SignalMatrix([first, other], np.ones((2, N)))
    grown = np.where(np.arange(N) < WINDOW, np.arange(N) / WINDOW, 1.0)
    tokens = np.where(np.arange(N) < N // 2, np.nan, np.roll(grown, N // 2))
    frame.signals["generation_tokens_rate"] = SignalMatrix([first, other], np.vstack([100 * ONES, later * tokens]))
    add_telemetry(frame, SIGNALS, [])
    assert (frame.signals["duplicate_targets"].values == more).all()


def test_one_address_is_none():
    assert (running_on("10.0.0.1:8000") == 0).all()


def test_engines_and_models_of_one_pod_are_no_duplicates():
    engines = {"running": {"p0/0": ONES, "p0/1": ONES}}
    assert np.nansum(derived("duplicate_targets", engines).values) == 0


# ---- missing scrapes ------------------------------------------------------------------------------------------------

EVERY = list(np.arange(0, N * STEP_S, STEP_S))


def missing(times_s):
    matrix = derived("missing_scrapes", {"running": {"p0": ONES}}, [scraped({"pod": "p0", "instance": "a:1"}, times_s)])
    return None if matrix is None else matrix.values[0]


def test_steady_scrapes_are_all_there():
    found = missing(EVERY)
    assert np.nanmax(found) < 0.25, "at most one of a window, which its edge cuts off"


def test_a_hole_is_missing():
    found = missing([t for t in EVERY if not 80 <= t < 120])
    assert found[59] > 0.9 and found[35] < 0.25 and found[-1] < 0.25


def test_what_all_targets_miss_is_the_absence_of_the_server():
    holes = [t for t in EVERY if not 80 <= t < 120]
    targets = [scraped({"pod": pod, "instance": f"{pod}:1"}, holes) for pod in ("p0", "p1", "p2")]
    pages = {"running": dict.fromkeys(("p0", "p1", "p2"), ONES)}
    assert np.nanmax(derived("missing_scrapes", pages, targets).values) < 1e-9
    targets[1] = scraped({"pod": "p1", "instance": "p1:1"}, [t for t in holes if not 30 <= t < 70])
    own = derived("missing_scrapes", pages, targets).values
    assert own[1][34] > 0.9 and np.nanmax(own[[0, 2]]) < 1e-9, "only what it misses alone"


def test_every_third_scrape_lost_is_a_third():
    found = missing([t for i, t in enumerate(EVERY) if i % 3])
    assert 0.2 <= np.nanmedian(found) <= 0.5


def test_before_the_first_scrape_nothing_is_expected():
    found = missing([t for t in EVERY if t >= 60])
    assert np.isnan(found[:30]).all() and np.nanmax(found) < 0.25


def test_a_target_scraped_once_tells_nothing():
    assert missing([4.0]) is None


def test_jitter_is_not_a_missing_scrape():
    random = np.random.default_rng(2)
    assert np.nanmax(missing([t + random.uniform(0, 0.4) for t in EVERY])) <= 0.4


def test_twice_the_interval_is_not_most():
    found = missing([t for i, t in enumerate(EVERY) if t < EVERY[-1] / 2 or i % 2])
    assert np.nanmax(found) <= 0.5


def test_most_lost_shows_within_some_ten_scrapes():
    found = missing([t for i, t in enumerate(EVERY) if i < 45 or i % 4 == 0])
    assert found[44] < 0.1 and (found[45 + 12 :] > 0.5).all()


@pytest.mark.parametrize("seed", range(20))
def test_a_tenth_lost_is_not_most(seed: int):
    there = np.random.default_rng(seed).random(len(EVERY)) >= 0.1
    assert np.nanmax(missing([t for t, kept in zip(EVERY, there, strict=True) if kept])) < 0.5


def test_a_field_of_gpus_that_the_exporter_drops_is_lost_and_no_gpu_is():
    engine = {"running": {"p0/0": ONES}}
    gpus = {"gpu_util": {"p0#0": GONE, "p0#1": GONE}, "sm_clock": {"p0#0": ONES, "p0#1": ONES}}
    found = derived("lost_signals", engine | gpus)
    assert (found.values[0][:45] == 0).all() and (found.values[0][45:] == 1).all()
    assert np.nansum(derived("lost_gpus", engine | gpus).values) == 0


def test_a_gpu_that_is_gone_is_no_lost_field():
    engine = {"running": {"p0/0": ONES}}
    gpus = {name: {"p0#0": GONE, "p0#1": ONES} for name in ("gpu_util", "sm_clock")}
    assert np.nansum(derived("lost_signals", engine | gpus).values) == 0
