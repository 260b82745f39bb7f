"""`inferdoc size --like`: shares of a live pool, tried on its own history, and one line where it cannot be."""

from __future__ import annotations

import json

import pytest

from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import Expect, Length, PoolSpec, Scenario, Stream
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record
from tests.cli.command import call

POOL = "sim-meta-llama-llama-3-1-8b-instruct-l40s"


def stored(path, *, rate, seconds):
    """An 8B model on one L40S, whose load swings by 80 % about its mean."""
    waves = Stream(
        prompt=Length(600, 0.6), output=Length(250, 0.5), rate=rate, pattern="waves", burst=0.8, wave=seconds / 2
    )
    scenario = Scenario(
        id="pool",
        title="pool",
        expect=Expect(cause=None),
        pools=(PoolSpec(name="vllm", pods=1, tier="l40s", model="llama-3.1-8b", gpus=1),),
        traffic=(waves,),
        duration=seconds,
    )
    with Store.open(path, "w") as store:
        write_store(record(scenario).targets, store)
    return str(path)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("like") / "pool.db", rate=2.0, seconds=5400.0)


def options(pool, *more):
    return call("size", "--like", POOL, "--store", pool, *more)


def test_lengths_rate_and_shares_are_those_of_the_pool_and_the_errors_are_said(pool):
    done = options(pool, "--tp", "1", "-o", "json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    found = {each["name"]: each for part in document["parts"] for each in part["numbers"]}
    assert (document["model"], document["tier"]) == ("llama-3.1-8b", "l40s")
    assert found["context_mean"]["value"] == pytest.approx(600 * 1.197 + 250 * 1.133 * 1.284 / 2, rel=0.05)
    assert found["kv_tokens"]["value"] == found["kv_tokens"]["low"], "the engine's own count is exact"
    assert found["itl_error"]["value"] < 0.05 and found["itl_within"]["value"] > 0.85
    assert found["ttft_error"]["value"] < 0.2
    assert abs(found["kv_tokens_error"]["value"]) < 0.05
    assert "measured on" in found["step_seconds"]["source"]


def test_the_share_of_the_bandwidth_is_the_one_that_the_machine_has(pool):
    """The simulated machine reaches 0.75 of the published bandwidth, before half a millisecond of host a step."""
    done = options(pool, "--tp", "1", "-o", "json")
    found = {each["name"]: each for part in json.loads(done.out)["parts"] for each in part["numbers"]}
    reached = float(found["step_seconds"]["inputs"]["MBU"].removesuffix(" %")) / 100
    assert reached == pytest.approx(0.75, rel=0.05)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "give --tp"),
        (("--tp", "1", "--tier", "h100-80"), "--tier h100-80: the pods of"),
        (("--tp", "1", "--model", "qwen3-32b"), "--model qwen3-32b: the pods of"),
        (("--tp", "2"), "check --tp, --dtype"),
    ],
)
def test_flags_that_the_pool_contradicts_are_refused_in_one_line(pool, more, words):
    done = options(pool, *more)
    assert done.code == 2 and done.out == ""
    assert words in done.err and done.err.count("\n") == 1, done.err


def test_a_pool_that_is_not_there_is_named_with_those_that_are(pool):
    done = call("size", "--like", "nope", "--store", pool, "--tp", "1")
    assert done.code == 2 and f'no pool "nope"; pools: {POOL}' in done.err


def test_a_pool_that_was_hardly_loaded_is_no_ground_for_numbers(tmp_path):
    done = options(stored(tmp_path / "idle.db", rate=0.002, seconds=1800.0), "--tp", "1")
    assert done.code == 2 and "30 are needed" in done.err and done.err.count("\n") == 1, done.err
