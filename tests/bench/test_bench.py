"""`inferdoc bench`: files of three tools about one server prove one rate, and whatever proves nothing gets one line."""

from __future__ import annotations

import copy
import json
from math import log
from pathlib import Path

import pytest

from tests.bench import made
from tests.cli.command import call, refused

P99 = ("--objective", "ttft_p99=1s")
TRUE_RATE = made.SERVES - log(100)  # where -ln(0.01) / (20 - rate) is 1 s
LOW = -log(0.01) / (made.SERVES - 4.0)  # the second of the lowest third of the levels; the median of two is between


def answer(files, *more):
    done = call("bench", *files, *more, "-o", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def numbers(document, curve=0):
    return {each["name"]: each for each in document["curves"][curve]["numbers"]}


@pytest.mark.parametrize("tool", ["vllm", "guidellm", "aiperf"])
def test_each_tool_proves_the_rate_of_the_server_behind_it(tmp_path, tool):
    rate = numbers(answer(made.runs(tmp_path, tool), *P99))["usable_rate"]
    assert (rate["low"], rate["high"], rate["unit"]) == (12.0, 16.0, "1/s")
    assert rate["low"] < rate["value"] < rate["high"]
    assert rate["low"] < TRUE_RATE < rate["high"]


def test_the_knee_is_where_the_p99_stays_at_twice_its_low_load_value(tmp_path):
    knee = numbers(answer(made.runs(tmp_path, "vllm"), *P99))["knee"]
    low = (made.ttft(2.0, 0.99) + made.ttft(4.0, 0.99)) / 2
    true = made.SERVES + log(0.01) / (2 * low)
    assert knee["low"] < true < knee["high"] and knee["low"] < knee["value"] < knee["high"]


def test_rows_are_told_in_seconds_whatever_the_unit_of_the_file(tmp_path):
    for tool in ("vllm", "guidellm", "aiperf"):
        row = answer(made.runs(tmp_path, tool), *P99)["curves"][0]["levels"][3]
        assert row["latencies"]["ttft_p99"] == pytest.approx(made.ttft(12.0, 0.99))
        assert row["latencies"]["tpot_request_p99"] == pytest.approx(made.tpot(12.0, 0.99))
        assert (row["prompt_tokens"], row["output_tokens"], row["within"]) == (made.PROMPT, made.ANSWER, True)
    nanoseconds = made.aiperf(4.0)
    nanoseconds["time_to_first_token"] = {"unit": "ns", "avg": 2e8, "p50": 1e8, "p99": 3e8}
    row = answer([made.written(tmp_path, "ns.json", nanoseconds)])["curves"][0]["levels"][0]
    assert row["latencies"]["ttft_p99"] == pytest.approx(0.3)


def test_files_whose_highest_load_is_well_prove_a_lower_bound(tmp_path):
    rate = numbers(answer(made.runs(tmp_path, "vllm")[:3], *P99))["usable_rate"]
    assert rate["value"] == 8.0 and rate["high"] is None


def test_an_objective_missed_everywhere_leaves_no_rate(tmp_path):
    document = answer(made.runs(tmp_path, "vllm"), "--objective", "ttft_p99=10ms")
    assert "usable_rate" not in numbers(document) and "no rate" in document["summary"]
    assert any("missed at every level" in note for note in document["curves"][0]["notes"])


def test_a_percentile_that_the_file_lacks_is_bounded_by_the_next_higher_one(tmp_path):
    document = answer(made.runs(tmp_path, "vllm"), "--objective", "ttft_p95=1s")
    assert numbers(document)["usable_rate"]["low"] == 12.0
    assert any("ttft_p99 stands for ttft_p95" in note for note in document["curves"][0]["notes"])
    exact = answer(made.runs(tmp_path, "aiperf"), "--objective", "ttft_p95=1s")
    assert numbers(exact)["usable_rate"]["low"] == 16.0


def test_each_request_of_a_detailed_file_gives_the_percentiles_it_lacks(tmp_path):
    times = [0.1] * 94 + [0.5] * 6
    detailed = made.vllm(4.0, ttfts=[*times, 0.0], itls=[[0.02]] * 100 + [[]], errors=[""] * 100 + ["timed out"])
    row = answer([made.written(tmp_path, "d.json", detailed)], "--objective", "ttft_p95=200ms")
    note = row["curves"][0]["notes"]
    assert any("ttft_p95 within 200 ms was missed at every level" in each for each in note)
    assert not any("stands for" in each for each in note)


def test_appended_runs_are_levels(tmp_path):
    path = tmp_path / "appended.json"
    path.write_text("\n".join(json.dumps(made.vllm(rate)) for rate in made.RATES))
    assert len(answer([path], *P99)["curves"][0]["levels"]) == len(made.RATES)


def test_requests_of_other_lengths_or_another_drive_are_another_curve(tmp_path):
    longer = made.vllm(3.0, total_input_tokens=round(3 * made.SECONDS * 4000))
    closed = made.vllm(5.0, request_rate="inf", max_concurrency=8)
    burst = made.vllm(6.0, request_rate="inf")
    files = [
        made.written(tmp_path, f"{n}.json", each) for n, each in enumerate((made.vllm(2.0), longer, closed, burst))
    ]
    curves = answer(files, *P99)["curves"]
    assert sorted(each["levels"][0]["drive"] for each in curves) == ["burst", "concurrency", "rate", "rate"]
    at_once = next(each for each in curves if each["levels"][0]["drive"] == "burst")
    assert [each["name"] for each in at_once["numbers"]] == ["highest_rate"]


def test_both_versions_of_guidellm_say_the_same(tmp_path):
    one, two = (
        answer([made.written(tmp_path, f"{version}.json", made.guidellm(version=version))], *P99) for version in (1, 2)
    )
    assert numbers(one)["usable_rate"]["value"] == numbers(two)["usable_rate"]["value"]


def test_failed_requests_break_the_objective_of_errors(tmp_path):
    files = made.runs(tmp_path, "vllm")[:3]
    files.append(made.written(tmp_path, "bad.json", made.vllm(12.0, failed=200)))
    found = numbers(answer(files, *P99, "--objective", "error_share=0.005"))
    assert found["usable_rate"]["low"] == 8.0 and found["usable_rate"]["high"] == 12.0
    few = made.written(tmp_path, "few.json", made.vllm(0.1, failed=2))
    assert answer([few], "--objective", "error_share=0.005")["curves"][0]["levels"][0]["within"]


def test_a_level_that_broke_below_one_that_kept_is_told(tmp_path):
    files = made.runs(tmp_path, "vllm")[:3]
    files[1] = made.written(tmp_path, "odd.json", made.vllm(4.0, p99_ttft_ms=3000.0))
    document = answer(files, *P99)
    assert numbers(document)["usable_rate"]["low"] == 8.0
    assert any("broken at 4/s already" in note for note in document["curves"][0]["notes"])


def test_the_goodput_of_the_tool_stands_beside_its_level(tmp_path):
    document = answer([made.written(tmp_path, "a.json", made.vllm(4.0, request_goodput=3.5))], *P99)
    assert document["curves"][0]["levels"][0]["marks"] == ["3.5/s good by its own limits"]


def test_what_weakens_a_number_is_told(tmp_path):
    brief = made.vllm(4.0, duration=60.0, completed=240, total_input_tokens=240_000, total_output_tokens=48_000)
    behind = made.vllm(12.0, request_rate=24.0)
    files = [made.written(tmp_path, f"{n}.json", each) for n, each in enumerate((brief, behind))]
    notes = " ".join(answer(files, *P99)["curves"][0]["notes"])
    assert "p99 of 240 requests" in notes and "1 min" in notes.replace("60 s", "1 min") and "fell behind" in notes


def test_promises_count_and_starting_points_are_assumed(tmp_path):
    assumed = answer(made.runs(tmp_path, "vllm"))
    assert assumed["assumed"] and all(each["assumed"] for each in assumed["objectives"])
    (tmp_path / "inferdoc.toml").write_text('[[slo]]\nsignal = "ttft"\npercentile = 99\ntarget = 1.0\n')
    done = call("--config", tmp_path / "inferdoc.toml", "bench", *made.runs(tmp_path, "vllm"), "-o", "json")
    promised = {each["signal"]: each for each in json.loads(done.out)["objectives"]}["ttft_p99"]
    assert (promised["limit"], promised["assumed"]) == (1.0, False)


def test_every_number_has_a_unit_a_formula_inputs_and_a_source_and_lines_fit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    files = [made.written(Path(), "benchmarks.json", made.guidellm())]
    for each in numbers(answer(files)).values():
        assert each["unit"] and each["formula"] and each["inputs"] and each["source"], each
    done = call("bench", *files, "-v")
    assert "requests within the objectives" in done.out and "with " in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 100


# ---- bad input ------------------------------------------------------------------------------------------------------


def changed(document, path, value):
    other = copy.deepcopy(document)
    *parents, last = path
    place = other
    for key in parents:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return other


NAN = float("nan")
WELL = ("metrics", "time_to_first_token_ms", "successful")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (changed(made.vllm(4), ("request_rate",), -4), "request_rate: -4 must be above 0"),
        (changed(made.vllm(4), ("request_rate",), "fast"), "request_rate: a number is expected"),
        (changed(made.vllm(4), ("p99_ttft_ms",), NAN), "p99_ttft_ms: nan is no result"),
        (changed(made.vllm(4), ("completed",), 0), "completed: 0 requests ended well"),
        (changed(made.vllm(4), ("duration",), 0), "duration: 0 must be above 0"),
        (changed(made.vllm(4), ("duration",), None), "duration: missing; is the file of another version?"),
        (changed(made.vllm(4), ("request_throughput",), 40.0), "request_throughput: 40/s, but"),
        (changed(made.vllm(4), ("completed",), 12.5), "completed: a whole number"),
        (changed(made.vllm(4), ("total_input_sequences",), 5), "pooling model"),
        (changed(made.vllm(4), ("ramp_up_strategy",), "linear"), "the rate rose during the run"),
        (changed(made.guidellm(), ("metadata", "version"), 3), "metadata.version: 3 is not known; versions 1 and 2"),
        (changed(made.guidellm(), ("benchmarks",), []), "benchmarks: no benchmark"),
        (changed(made.guidellm(), ("benchmarks", 2, *WELL, "percentiles"), None), "[2].metrics.time_to_first_token_ms"),
        (changed(made.guidellm(), ("benchmarks", 2, *WELL, "mean"), NAN), "nan is no result"),
        (
            changed(made.guidellm((4.0,)), ("benchmarks", 0, "metrics", "request_totals", "successful"), 0),
            "benchmarks[0].metrics.request_totals.successful: 0 requests ended well",
        ),
        (changed(made.guidellm(), ("benchmarks", 0, "config", "strategy", "rate"), -1), "rate: -1 must be above 0"),
        (changed(made.guidellm(), ("benchmarks", 0, "config", "strategy", "type_"), "trace"), "the load changed"),
        (changed(made.aiperf(4), ("schema_version",), "2.0"), "schema_version: '2.0' is not known; 1.x is"),
        (changed(made.aiperf(4), ("is_complete",), False), "an unfinished run is no result"),
        (changed(made.aiperf(4), ("time_to_first_token", "unit"), "parsec"), '"parsec" is no unit of time'),
        (changed(made.aiperf(4), ("time_to_first_token",), None), "--streaming writes it"),
        (changed(made.aiperf(4), ("input_config", "models", "items"), [{"name": "a"}, {"name": "b"}]), "one model"),
        (changed(made.aiperf(4), ("input_config", "phases", 1, "rate"), -2), "rate: -2 must be above 0"),
        ([1, 2], "an object is expected"),
        ({"model": "x"}, "no result file"),
    ],
)
def test_a_file_that_proves_nothing_is_one_line_with_file_and_key(tmp_path, document, words):
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(document))
    refused(call("bench", path), 2, "odd.json", words)


def test_files_that_are_no_json_or_not_there_are_one_line(tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_text(json.dumps(made.vllm(4))[:300])
    refused(call("bench", cut), 2, "cut.json", "is the file cut?")
    refused(call("bench", tmp_path / "none.json"), 2, "none.json", "cannot be read")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{}")
    refused(call("bench", tmp_path / "bytes.json"), 2, "not UTF-8")
    lines = tmp_path / "lines.json"
    lines.write_text(json.dumps(made.vllm(4)) + "\n" + json.dumps(made.vllm(8))[:200])
    refused(call("bench", lines), 2, "line 2", "is the file cut?")


def test_several_models_are_refused_until_one_is_chosen(tmp_path):
    files = [
        made.written(tmp_path, "a.json", made.vllm(4)),
        made.written(tmp_path, "b.json", made.vllm(4, model_id="b")),
    ]
    refused(call("bench", *files), 2, "several models", "--model")
    assert answer(files, "--model", "b")["model"] == "b"
    refused(call("bench", *files, "--model", "c"), 2, "--model c", "no file is of it")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ttft_p99", "SIGNAL=LIMIT"),
        ("speed_p99=2s", "SIGNAL=LIMIT"),
        ("ttft_p99=-2s", "not a duration"),
        ("ttft_p99=0s", "above 0"),
        ("error_share=nan", "a share from 0 to 1"),
    ],
)
def test_odd_objectives_are_one_line(tmp_path, text, words):
    refused(call("bench", made.written(tmp_path, "a.json", made.vllm(4)), "--objective", text), 2, words)
