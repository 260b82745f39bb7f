"""Files that the tools wrote themselves, against a vLLM 0.32.0 on a simulated accelerator: fixtures/bench/README.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferdoc.bench.curve import LatencySpread, LoadLevel, behind, rushed
from inferdoc.bench.request import levels_of
from tests.cli.command import call, refused

FILES = Path(__file__).resolve().parents[2] / "fixtures" / "bench"
LIMITS = ("--objective", "ttft_p99=1s", "--objective", "tpot_request_p99=60ms", "--objective", "error_share=0.01")


def curve(name: str) -> dict:
    done = call("bench", FILES / name, *LIMITS, "-o", "json")
    assert done.code == 0, done.err
    (only,) = json.loads(done.out)["curves"]
    return only


@pytest.mark.parametrize(
    ("name", "drive", "asked", "ended", "prompt", "answer"),
    [
        ("vllm-rate.json", "rate", 1.5, 60, 600, 101),
        ("vllm-concurrency.json", "concurrency", 8, 60, 600, 101),
        ("vllm-detailed.json", "rate", 2, 24, 608, 22),
        ("guidellm-concurrent.json", "concurrency", 6, 40, 576, 100),
        ("aiperf-rate.json", "rate", 2, 73, 599, 100),
        ("aiperf-concurrency.json", "concurrency", 6, 40, 598, 100),
    ],
)
def test_a_level_is_what_its_tool_was_told_to_do(name, drive, asked, ended, prompt, answer):
    """Prompts of some 600 and answers of 100 tokens (24 in the detailed file) were asked for in every run."""
    (level,) = curve(name)["levels"]
    assert (level["drive"], level["asked"], level["completed"], level["failed"]) == (drive, asked, ended, 0)
    assert (round(level["prompt_tokens"]), round(level["output_tokens"])) == (prompt, answer)
    assert level["served"] == pytest.approx(ended / level["seconds"], rel=0.02)


@pytest.mark.parametrize("path", sorted(FILES.glob("*-*.json")), ids=lambda path: path.stem)
def test_latencies_are_those_of_the_simulated_accelerator(path):
    """A step takes 28 ms and more (weights 24.8, overhead 3), a prompt of 600 tokens 44 ms on top, so no first token is
    earlier than 40 ms; a run at low load has gaps of 28 to 45 ms."""
    if path.stem == "aiperf-warmup":
        return
    for level in levels_of([path]):
        if level.drive == "burst" or rushed(level):
            continue
        first, between = level.reading("ttft_p50"), level.reading("tpot_request_p50")
        assert first is not None and 0.04 < first[0] < 0.3
        assert between is not None and 0.027 < between[0] < 0.046


def test_appended_runs_are_a_burst_and_a_rate():
    done = call("bench", FILES / "vllm-appended.json", *LIMITS, "-o", "json")
    drives = {row["drive"]: row["asked"] for each in json.loads(done.out)["curves"] for row in each["levels"]}
    assert drives == {"burst": None, "rate": 2.0}


def test_a_run_that_ends_while_answers_are_written_did_not_fall_behind():
    """30 requests at 2/s took 15.6 s to come and 3.3 s more to end: 1.58/s served, and no queue."""
    for name in ("vllm-appended.json", "vllm-rate.json", "vllm-detailed.json"):
        for level in levels_of([FILES / name]):
            assert not behind(level), level
    late = LoadLevel(
        "a", "t", "m", "rate", 10.0, 6.6, 30.0, 198, 0, 600.0, 100.0,
        {"ttft": LatencySpread(5.7), "tpot_request": LatencySpread(0.02)},
    )  # fmt: skip
    assert behind(late), "the first tokens of a queue came later and later"


def test_a_client_that_caught_up_is_told_and_counts_as_what_it_sent():
    """GuideLLM's workers were 40 s late and sent 545 requests where 30 were asked for: 6.6/s broke the objectives."""
    made = curve("guidellm-poisson.json")
    assert [(row["asked"], "rushed" in row["marks"]) for row in made["levels"]] == [(2.5, False), (1.0, True)]
    rate = next(each for each in made["numbers"] if each["name"] == "usable_rate")
    assert (rate["low"], rate["high"]) == (pytest.approx(2.3), pytest.approx(6.6))
    notes = " ".join(made["notes"])
    assert "where 1/s was requested, 6.6/s were served" in notes and "GuideLLM warns: p95 root dispatch delay" in notes


def test_tokens_that_a_client_counted_otherwise_than_the_server_are_told():
    notes = " ".join(curve("aiperf-rate.json")["notes"])
    assert "AIPerf counted 112.1 tokens an answer, the server 100: its TPOT is 11% low" in notes


def test_the_file_of_a_warm_up_is_refused(tmp_path):
    refused(call("bench", FILES / "aiperf-warmup.json"), 2, "4 requests of the warm-up")
    folder = tmp_path / "phases" / "warmup"
    folder.mkdir(parents=True)
    document = json.loads((FILES / "aiperf-warmup.json").read_text("utf-8"))
    del document["input_config"]["phases"][0]["requests"]
    (folder / "profile_export_aiperf.json").write_text(json.dumps(document), "utf-8")
    refused(call("bench", folder / "profile_export_aiperf.json"), 2, "warm-up")


def test_a_sweep_is_read_without_the_level_that_nothing_ended_in(tmp_path):
    """`throughput` sent 512 requests at once and was over before the first of them was."""
    done = call("bench", FILES / "guidellm-sweep.json", *LIMITS, "-o", "json")
    curves = json.loads(done.out)["curves"]
    rows = [(row["drive"], row["completed"]) for each in curves for row in each["levels"]]
    assert rows == [("rate", 4), ("concurrency", 7)]
    assert any("level throughput: no request of it ended" in note for each in curves for note in each["notes"])
    document = json.loads((FILES / "guidellm-sweep.json").read_text("utf-8"))
    document["benchmarks"][1]["metrics"]["request_totals"]["errored"] = 9
    path = tmp_path / "failed.json"
    path.write_text(json.dumps(document), "utf-8")
    refused(call("bench", path), 2, "successful: 0 requests ended well")


def test_a_rate_at_which_all_came_at_once_is_a_burst(tmp_path):
    document = json.loads((FILES / "vllm-rate.json").read_text("utf-8")) | {"request_rate": 1e15}
    path = tmp_path / "absurd.json"
    path.write_text(json.dumps(document), "utf-8")
    (only,) = json.loads(call("bench", path, *LIMITS, "-o", "json").out)["curves"]
    assert (only["levels"][0]["drive"], only["levels"][0]["asked"]) == ("burst", None)
    assert "usable_rate" not in [each["name"] for each in only["numbers"]]
