"""`inferdoc kv`: predictions against simulations of the same traffic with other caches, and one line for what cannot
be told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import pytest
from msgspec.structs import replace

from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import EngineFlags, Expect, Length, PoolSpec, Prefixes, Scenario, Stream
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record
from tests.cli.command import call

POOL = "sim-meta-llama-llama-3-1-8b-instruct-h100-80"
CHATS = Stream(prompt=Length(500, 0.6), output=Length(150, 0.4), rate=3.0, turns=5.0, think=40.0)
PREFIXES = Stream(prompt=Length(300, 0.5), output=Length(120, 0.4), rate=4.0, prefixes=Prefixes(60, 1500, 0.8, 0.9))
PREDICTED = "prompt tokens that would hit"


@dataclass(frozen=True)
class Cache:
    """Pods under some traffic. blocks: of the KV cache of each; offload: GiB of host memory."""

    traffic: str
    blocks: int
    metrics: bool = True
    seconds: float = 2400.0
    caching: bool = True
    pods: int = 1
    offload: float = 0.0
    ranks: int = 1


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kv")
    streams = {"chats": CHATS, "prefixes": PREFIXES, "nothing": Stream(Length(100), Length(10), rate=1e-6)}
    streams["new"] = Stream(Length(800, 0.4), Length(100, 0.4), rate=2.0)
    streams["waves"] = replace(CHATS, pattern="waves", burst=0.8, wave=5400.0)
    streams["slow"] = Stream(Length(500, 0.6), Length(150, 0.4), rate=2.0, turns=8.0, think=120.0)

    @cache
    def of(which: Cache) -> str:
        flags = EngineFlags(
            blocks=which.blocks, kv_metrics=which.metrics, prefix_caching=which.caching, offload=which.offload
        )
        scenario = Scenario(
            id="kv",
            title="kv",
            expect=Expect(cause=None),
            pools=(PoolSpec(name="vllm", pods=which.pods, flags=flags, ranks=which.ranks),),
            traffic=(streams[which.traffic],),
            duration=which.seconds,
            warmup=300.0,
            scrape=30.0,
        )
        path = folder / f"{hash(which)}.db"
        with Store.open(path, "w") as held:
            write_store(record(scenario).targets, held)
        return str(path)

    return of


def document(path, *more):
    done = call("kv", "--store", path, "-o", "json", *more)
    assert done.code == 0, done.err
    return json.loads(done.out)


def unwrapped(done):
    """Its text as one line: where a sentence breaks depends on the numbers in it."""
    return " ".join(done.out.split())


def part(answer, title):
    numbers = next(each["numbers"] for each in answer["parts"] if each["title"].startswith(title))
    return {each["title"]: each for each in numbers}


def hits(answer):
    return part(answer, "prefix cache now")["prompt tokens that hit"]["value"]


@pytest.mark.parametrize(
    ("traffic", "blocks", "within"),
    [("chats", 40000, (0.06, 0.06)), pytest.param("prefixes", 5000, (0.06, 0.08), marks=pytest.mark.slow)],
)
def test_hits_at_half_and_twice_the_cache_are_those_of_a_simulation_with_that_cache(store, traffic, blocks, within):
    answer = document(store(Cache(traffic, blocks)))
    for title, factor, off in (("0.5x the cache", 0.5, within[0]), ("2x the cache", 2, within[1])):
        predicted = part(answer, PREDICTED)[title]
        true = hits(document(store(Cache(traffic, int(blocks * factor)))))
        assert predicted["value"] == pytest.approx(true, abs=off), title
        assert predicted["low"] - 0.01 <= true <= predicted["high"] + 0.01, title


def test_what_hits_save_is_their_tokens_times_the_time_they_would_have_taken(store):
    answer = document(store(Cache("prefixes", 5000)), "--gpus", "4")
    now = part(answer, "prefix cache now")
    seconds = part(answer, "bring back")["compute a token again"]["value"]
    rate = now["prompt tokens looked up"]["value"]
    assert now["hits save, mean of the time"]["value"] == pytest.approx(hits(answer) * rate * seconds * 4)
    more = part(answer, PREDICTED)["2x the cache"]["value"] - hits(answer)
    assert part(answer, "saved against now")["2x the cache"]["value"] == pytest.approx(more * rate * seconds * 4)


def test_reload_is_the_bytes_of_a_token_over_the_path_and_tiers_are_sized_in_tokens(store):
    answer = document(store(Cache("prefixes", 5000)), "--host-gib", "40", "--nvme-gib", "200", "--nvme-gbps", "14")
    tiers = part(answer, "bring back")
    assert tiers["from host memory"]["value"] == pytest.approx(131072 / 50e9)
    assert tiers["from NVMe"]["value"] == pytest.approx(131072 / 14e9)
    assert f"host memory of 40 GiB ({40 * 2**30 / 131072 / 80000:.1f}x)" in part(answer, PREDICTED)
    eight = document(store(Cache("prefixes", 5000)), "--kv-dtype", "fp8")
    assert part(eight, "bring back")["from host memory"]["value"] == pytest.approx(65536 / 50e9)
    assert not any("FP8" in title for title in part(eight, PREDICTED))


def test_every_number_has_a_unit_a_formula_and_a_source_and_lines_are_short(store):
    path = store(Cache("prefixes", 5000))
    for each in (number for held in document(path)["parts"] for number in held["numbers"]):
        assert each["unit"] and each["formula"] and each["source"], each
        assert each["low"] <= each["value"] <= each["high"], each
    done = call("kv", POOL, "--store", path, "-v")
    assert done.code == 0 and max(map(len, done.out.splitlines())) <= 100
    assert "= hits / lookups" in done.out and "from vllm:kv_block_idle_before_evict_seconds" in done.out


def test_the_page_draws_the_curve_without_script_or_network(store):
    done = call("kv", "--store", store(Cache("prefixes", 5000)), "-o", "html")
    assert done.code == 0
    assert done.out.count("<svg") == 2 and "KV cache, times that of now" in done.out
    assert "<script" not in done.out and "http" not in done.out.replace("http-equiv", "")


def test_without_the_flag_no_other_size_is_told_and_the_flag_is_named(store):
    done = call("kv", "--store", store(Cache("prefixes", 5000, metrics=False)))
    assert done.code == 3 and "--kv-cache-metrics" in done.out
    assert PREDICTED not in done.out and "bring back or compute again" in done.out


def test_where_nothing_was_evicted_that_is_said(store):
    done = call("kv", "--store", store(Cache("prefixes", 300_000, seconds=900.0)))
    assert done.code == 3 and "no block that was followed was evicted" in unwrapped(done)
    assert PREDICTED not in done.out


def test_where_no_block_is_used_again_the_histogram_is_said_to_be_empty(store):
    done = call("kv", "--store", store(Cache("new", 3000, seconds=900.0)))
    assert done.code == 3 and "the histogram of gaps is empty" in unwrapped(done)
    assert PREDICTED not in done.out


def test_growth_whose_end_is_not_in_sight_is_no_number(store):
    """Pauses of two minutes in a cache that keeps blocks for less."""
    answer = document(store(Cache("slow", 20000)))
    assert "10x the cache" not in part(answer, PREDICTED)
    assert any(each.startswith("10x the cache: gaps do not end") for each in answer["cannot_tell"])
    assert max(point["memory"] for point in answer["curve"]) < 10


@pytest.mark.parametrize(
    ("which", "more", "words"),
    [
        (Cache("nothing", 5000, seconds=900.0), (), "no prompt was looked up"),
        (Cache("prefixes", 5000, seconds=900.0, caching=False), (), "prefix caching is off"),
        (Cache("prefixes", 5000), ("--host-gib", "-1"), "--host-gib -1: expected GiB"),
        (Cache("prefixes", 5000), ("--tenant-label", "a b"), "--tenant-label a b: expected the name of a label"),
    ],
)
def test_what_has_no_ground_is_refused_in_one_line(store, which, more, words):
    done = call("kv", "--store", store(which), *more)
    assert done.code == 2 and done.out == ""
    assert words in done.err and done.err.count("\n") == 1, done.err


def test_another_pool_is_refused_with_those_that_are_there(store):
    done = call("kv", "nope", "--store", store(Cache("prefixes", 5000)))
    assert done.code == 2 and f'no pool "nope"; pools: {POOL}' in done.err


def test_a_tier_smaller_than_the_cache_holds_nothing_new(store):
    answer = document(store(Cache("prefixes", 5000)), "--host-gib", "2")
    assert any("all of it lies there already" in each for each in answer["cannot_tell"])


def test_tenants_that_no_label_tells_apart_are_not_ranked(store):
    answer = document(store(Cache("prefixes", 5000)), "--tenant-label", "team")
    assert any('label "team" has 0 values' in each for each in answer["cannot_tell"])


def test_whoever_a_label_tells_apart_is_ranked_by_hits_for_each_token_written(store):
    path = store(Cache("prefixes", 5000, seconds=900.0, pods=2))
    numbers = list(part(document(path, "--tenant-label", "pod"), "hits for each token written").values())
    assert {each["title"] for each in numbers} == {"vllm-0", "vllm-1"}
    assert [each["value"] for each in numbers] == sorted((each["value"] for each in numbers), reverse=True)
    for each in numbers:
        hit, written = (float(each["inputs"][name].split()[0].replace(",", "")) for name in ("hits", "written"))
        assert each["value"] == pytest.approx(hit / written, rel=0.01)


def test_a_tier_that_is_there_is_read_and_what_it_holds_is_not_saved_again(store):
    answer = document(store(Cache("chats", 20000, offload=80.0)))
    now = part(answer, "prefix cache now")
    served = hits(answer) + now["tier below serves"]["value"]
    alone = document(store(Cache("chats", 20000)), "--host-gib", "80")
    (told,) = (each for title, each in part(alone, PREDICTED).items() if title.startswith("host memory"))
    assert told["value"] == pytest.approx(served, abs=0.05) and told["low"] <= served <= told["high"]
    assert part(answer, "saved against now")["0.5x the cache"]["value"] == 0


def test_the_caches_of_the_ranks_of_a_pod_are_counted_together(store):
    answer = document(store(Cache("prefixes", 3000, seconds=900.0, ranks=2)))
    inputs = part(answer, "prefix cache now")["an unused block lives"]["inputs"]
    assert inputs["KV tokens of a pod"] == "96,000 tokens"
    assert part(answer, "prefix cache now")["hits save, mean of the time"]["inputs"]["GPUs of an engine"] == "1"


def test_measured_lives_that_hardly_differ_are_said_to_tell_nothing(store):
    notes = document(store(Cache("prefixes", 5000)))["notes"]
    assert any(each.startswith("the life of blocks hardly differed") for each in notes)


@pytest.mark.slow
def test_without_the_flag_twice_the_cache_is_read_from_hours_in_which_blocks_lived_longer(store):
    answer = document(store(Cache("waves", 14000, metrics=False, seconds=10800.0)))
    twice = part(answer, PREDICTED)["2x the cache"]
    true = hits(document(store(Cache("waves", 28000, metrics=False, seconds=10800.0))))
    assert "isotonic fit" in twice["formula"] and twice["value"] == pytest.approx(true, abs=0.05)
    assert any("--kv-cache-metrics" in each for each in answer["cannot_tell"])
