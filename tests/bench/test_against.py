"""`inferdoc bench --against`: production at the load of the benchmark, and what of the difference the work explains."""

from __future__ import annotations

import json

import pytest

from tests.bench import made
from tests.canary.made import Pod, store
from tests.cli.command import call, refused

POOL = "llm-llama"


def files(folder, **noted):
    return [
        made.written(folder, f"{rate:g}.json", made.vllm(rate, model_id="llama", **noted)) for rate in made.RATES[:4]
    ]


def against(folder, pods, *more, **noted):
    path = store(folder / "fleet.db", pods, seconds=5400)
    done = call("bench", *files(folder, **noted), "--against", POOL, "--store", path, *more, "-o", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)["production"]


def rows(document):
    return {each["name"]: each for each in document["rows"]}


def reasons(document):
    return {each["kind"]: each for each in document["reasons"]}


def test_latencies_are_compared_at_the_same_load_of_a_replica(tmp_path):
    document = against(tmp_path, [Pod("llama-0", rate=3.0), Pod("llama-1", rate=3.0)])
    assert document["load"] == pytest.approx(3.0, rel=0.05) and document["minutes"] > 120
    found = rows(document)
    low, high = made.ttft(2.0, 0.99), made.ttft(4.0, 0.99)
    assert low < found["ttft_p99"]["benchmark"] < high
    assert found["ttft_p99"]["production"] > 1.0
    assert found["prompt_len_mean"]["ratio"] == pytest.approx(1.0, rel=0.05)
    numbers = {each["name"]: each for each in document["numbers"]}
    each = numbers["times_ttft_p99"]
    assert each["low"] <= each["value"] <= each["high"] and each["formula"] and each["inputs"] and each["source"]
    assert any("sized again" in note for note in document["notes"])


def test_lengths_and_prefix_hits_explain_their_part_and_the_rest_is_said(tmp_path):
    document = against(tmp_path, [Pod("llama-0", rate=3.0, prompt=2000.0, hits=0.75)])
    found = reasons(document)
    assert found["lengths"]["times"] == pytest.approx(2.0, rel=0.1)
    assert (
        found["prefix"]["times"] == pytest.approx(0.25, rel=0.02)
        and "75 % in production" in found["prefix"]["statement"]
    )
    whole = rows(document)["ttft_p99"]["ratio"]
    assert found["unexplained"]["times"] * found["lengths"]["times"] * found["prefix"]["times"] == pytest.approx(whole)


def test_hits_that_were_noted_with_the_run_count(tmp_path):
    document = against(tmp_path, [Pod("llama-0", rate=3.0, hits=0.5)], prefix_share="0.5")
    assert "prefix" not in reasons(document)


def test_flags_and_tier_that_differ_are_reasons(tmp_path):
    document = against(tmp_path, [Pod("llama-0", rate=3.0)], block_size="32", tp="4", tier="h100-80")
    found = reasons(document)
    assert found["flags"]["statement"] == "block_size: 32 in the benchmark, 16 in production"
    assert "h100-80" in found["tier"]["statement"]
    assert any("not visible in production: tp" in note for note in document["notes"])


def test_loads_that_never_met_compare_no_latency(tmp_path):
    document = against(tmp_path, [Pod("llama-0", rate=0.3)])
    assert document["load"] is None and document["numbers"] == []
    assert not {"ttft_p99", "tpot_request_p99"} & rows(document).keys()
    assert any("no latencies are compared" in note for note in document["notes"])


def test_replicas_behind_the_benchmark_share_its_rate(tmp_path):
    document = against(tmp_path, [Pod("llama-0", rate=1.0)], "--replicas", "4")
    assert document["load"] == pytest.approx(1.0, rel=0.05)
    assert made.ttft(3.5, 0.99) < rows(document)["ttft_p99"]["benchmark"] < made.ttft(4.6, 0.99)


def test_text_fits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    store(tmp_path / "fleet.db", [Pod("llama-0", rate=3.0, hits=0.5)], seconds=3600)
    made.written(tmp_path, "a.json", made.vllm(3.0, model_id="llama"))
    done = call("bench", "a.json", "--against", POOL, "--store", "fleet.db", "-v")
    assert f"beside {POOL}" in done.out and "live over benchmark" in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 100


def test_odd_requests_are_one_line(tmp_path):
    path = store(tmp_path / "fleet.db", [Pod("llama-0", rate=3.0)], seconds=900)
    burst = made.written(tmp_path, "burst.json", made.vllm(3.0, request_rate="inf", model_id="llama"))
    well = files(tmp_path)
    refused(call("bench", *well, "--against", "llm-lama", "--store", path), 2, 'no pool "llm-lama"', POOL)
    refused(call("bench", burst, "--against", POOL, "--store", path), 2, "no load of them is one of production")
    refused(call("bench", *well, "--store", path), 2, "require --against")
    refused(call("bench", *well, "--against", POOL, "--store", tmp_path / "none.db"), 4)
