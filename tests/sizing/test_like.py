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


def test_the_steps_are_those_of_the_calibrated_sizing(pool):
    done, document = options(pool, "--tp", "1", "--steps"), json.loads(options(pool, "--tp", "1", "-o", "json").out)
    assert done.code == 0, done.err
    numbers = {each["name"]: each["value"] for part in document["parts"] for each in part["numbers"]}
    assert f"{numbers['streams']:.0f} requests within the objectives" in done.out


def test_an_off_peak_job_takes_as_long_as_the_shares_of_the_pool_say(pool):
    """The rate is that of the pool. Without it the shares of its tier count, which the simulated machine exceeds."""
    job = ("--tp", "1", "--batch", "requests=20000 prompt=3000 output=300 window=8h load=0.2", "-o", "json")
    done = options(pool, *job)
    assert done.code == 0, done.err
    document = json.loads(done.out)
    (row,) = document["rows"]
    assert (row["tier"], row["layout"]) == ("l40s", "TP 1") and 0 < row["batch"] <= 8 * 3600
    assert f"shares of the GPUs: measured on {POOL}" in document["notes"]
    lengths = ("--prompt-tokens", "718,1700", "--output-tokens", "283,650", "--rate", "2")
    plain = call("size", "--model", "llama-3.1-8b", "--tier", "l40s", "--dtype", "bf16", *lengths, *job)
    assert row["batch"] != pytest.approx(json.loads(plain.out)["rows"][0]["batch"], rel=0.02)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--batch", "requests=20000 prompt=3000 output=300 window=8h load=0.2"), "give --tp, the layout of its pods"),
        (("--tp", "1", "--tier", "l40s,t4"), "--like is mutually exclusive with several tiers and --escalate-to"),
        (("--tp", "1", "--steps", "-o", "json"), "--steps is mutually exclusive with -o json and -o html"),
    ],
)
def test_options_that_a_live_pool_excludes_are_one_line(pool, more, words):
    done = options(pool, *more)
    assert done.code == 2 and words in done.err and "Traceback" not in done.err


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
