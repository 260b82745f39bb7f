"""A store read by several workers gives the answers of one process, bit for bit, also where workers end."""

from __future__ import annotations

import json

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.errors import TooSlowError
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario_files import adapted, load_scenario
from inferdoc.simulate.scrape import simulate
from inferdoc.source import parallel_store
from inferdoc.source.executors import LocalProcesses
from inferdoc.source.parallel_store import ParallelStore
from inferdoc.source.reads import Grid, Read
from inferdoc.source.store_source import StoreSource
from inferdoc.store import Store
from inferdoc.store.budget import ReadBudget

READS = [
    Read("vllm:generation_tokens_total", "rate", ("pod", "model_name")),
    Read("vllm:num_requests_running", "last", ("model_name",)),
    Read("vllm:num_requests_running", "max", ("model_name",), agg="max"),
    Read("vllm:kv_cache_usage_perc", "mean", (), agg="min"),
    Read("nothing_is_called_so", "last", ("pod",)),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Six pods, of which each half of the targets holds some, and what else a fleet has."""
    found = tmp_path_factory.mktemp("parallel") / "fleet.db"
    with Store.open(found, "w") as store:
        write_store(simulate(adapted(load_scenario("slow-gpu"), 6, 3, "20m")), store)
    return found


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch):
    """Two processes, whatever this machine has."""
    monkeypatch.setattr(parallel_store, "LEAST_SCRAPES", 1)
    monkeypatch.setattr(parallel_store, "usable_cores", lambda: 2)


def grid_of(source) -> Grid:
    end = source.latest_ms() + 1
    return Grid(end - 20 * 15_000, 15_000, 21, 15_000, 75_000, 37_500)


def asked(source):
    grid = grid_of(source)
    return source.evaluate(READS, grid), source.scrapes(grid.start_ms, grid.end_ms)


def same(one, other):
    for read in READS:
        assert one[read].keys == other[read].keys
        np.testing.assert_array_equal(one[read].values, other[read].values)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_target_is_of_one_part(path, count):
    here, others = LocalProcesses(count).shares()
    assert len(others) == count - 1
    targets = StoreSource(path)._store.targets()
    assert {sum(part.has(target) for part in (here, *others)) for target in targets} == {1}


def test_both_halves_hold_pods(path):
    grid = grid_of(StoreSource(path))
    here, (there,) = LocalProcesses(2).shares()
    pods = [len(StoreSource(path, part=part).evaluate(READS[:1], grid)[READS[0]].keys) for part in (here, there)]
    assert min(pods) > 0 and sum(pods) == 6


def test_two_processes_answer_as_one(path):
    both, alone = ParallelStore(path), StoreSource(path)
    results, scrapes = asked(both)
    assert both._hands, "or nothing was tried"
    expected, expected_scrapes = asked(alone)
    same(results, expected)
    assert [s.labels for s in scrapes] == [s.labels for s in expected_scrapes]
    grid = grid_of(alone)
    assert both.label_names(grid.start_ms, grid.end_ms) == alone.label_names(grid.start_ms, grid.end_ms)
    name = "vllm:cache_config_info"
    assert [s.labels for s in both.info(name, grid)] == [s.labels for s in alone.info(name, grid)] != []
    both.close()


def test_a_diagnosis_is_the_same(path):
    answers = []
    for parallel in (2, 1):
        source = open_source(store=path, parallel=parallel)
        answer = json.loads(diagnose(source, since="20m", until="latest").to_json())
        answer.pop("timing")
        answers.append(answer)
        source.close()
    assert answers[0] == answers[1] and answers[0]["findings"]


def test_where_the_other_process_ends_another_takes_its_part_and_then_this_one_does_all(path):
    both = ParallelStore(path)
    expected = asked(StoreSource(path))[0]
    asked(both)
    for ends in (1, 2):
        both._hands[0].worker.close()
        same(asked(both)[0], expected)
        assert len(both._hands) == (1 if ends == 1 else 0)
    assert both.warnings == []
    both.close()


def test_what_does_not_fit_in_a_half_is_left_out_of_both_or_of_none(path, monkeypatch):
    both = ParallelStore(path)
    grid = grid_of(both)
    both._share(grid.start_ms, grid.end_ms)
    both._own._store.budget = ReadBudget(series=10)
    results, _ = asked(both)
    assert not both._hands and not [line for line in both.warnings if "left out" in line]
    same(results, asked(StoreSource(path))[0])
    both.close()


def test_an_error_is_raised_and_the_next_call_has_its_own_answer(path):
    both = ParallelStore(path)
    asked(both)
    assert both._hands
    grid = grid_of(both)
    both._own._time._seconds = -1.0
    with pytest.raises(TooSlowError):
        both.evaluate([Read("vllm:prompt_tokens_total", "rate", ("pod",))], grid)
    both._own._time._seconds = 60.0
    same(asked(both)[0], asked(StoreSource(path))[0])
    assert both._hands
    both.close()


def test_few_scrapes_are_read_by_one_process(path, monkeypatch):
    monkeypatch.setattr(parallel_store, "LEAST_SCRAPES", 10**9)
    one = ParallelStore(path)
    counted, count = [], one._own.scrape_count
    monkeypatch.setattr(one._own, "scrape_count", lambda *segment: counted.append(segment) or count(*segment))
    asked(one)
    asked(one)
    assert not one._hands and len(counted) == 1, "a segment no longer than one that held few is not counted"
    one.close()
