"""Commands that look without judging: doctor, signals, recipes, runbook."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from inferdoc.judging.places import in_general
from tests.cli.command import call, refused
from tests.conftest import recording_path
from tests.judging.frames import catalogue
from tests.judging.made import Engine, gpu, recorded, stored


@pytest.fixture
def pools(tmp_path):
    """A prefill and a decode pod on hardware that DCGM names, and one pod that is down."""
    made = recorded(Engine("prefill-0", output=1), Engine("decode-0"))
    gpu(made, "decode-0", 0, DCGM_FI_DEV_GPU_UTIL=97)
    made.put("up", "gauge", {"job": "vllm", "instance": "decode-1:8000", "pod": "decode-1"}, 0)
    return "--store", stored(made.text(), tmp_path)


def test_doctor_prints_who_is_there_and_how_it_knows(pools):
    done = call("doctor", *pools)
    assert done.code == 0 and done.err == ""
    lines = {" ".join(line.split()) for line in done.out.splitlines()}
    assert any("decode-0: model qwen, role decode (name), tier h100-80 (GPU model" in line for line in lines)
    assert any("prefill-0: model qwen, role prefill (name), tier unknown" in line for line in lines)
    assert any(line.startswith("targets") and "down: decode-1" in line for line in lines)
    assert any(line.startswith("interval 5 s, rates over 25 s") for line in lines)


def test_doctor_prints_what_is_missing_what_needs_it_and_how_to_switch_it_on(pools):
    words = " ".join(call("doctor", *pools).out.split())
    blind, _, rest = words.partition("could be seen, by the causes")[2].partition("not in use")
    assert "+2 scrape the llm-d autoscaler or kube-state-metrics: autoscaler-blind, autoscaler-oscillation" in blind
    assert "only with --speculative-config: spec-acceptance-decay" in rest
    assert words.count("evidence:") == 0 < " ".join(call("doctor", *pools, "-v").out.split()).count("evidence:")


def test_doctor_ranks_what_could_be_seen_by_what_it_would_let_inferdoc_judge(pools):
    gained = [int(n) for n in re.findall(r"^  \+(\d+) ", call("doctor", *pools).out, re.MULTILINE)]
    assert gained == sorted(gained, reverse=True) and len(gained) > 4


def test_doctor_names_engines_that_nobody_scrapes(tmp_path):
    made = recorded(Engine("llama-0"))
    for pod, image in (
        ("llama-0", "docker.io/vllm/vllm-openai:v0.11.0"),
        ("llama-1", "ghcr.io/llm-d/llm-d-cuda:v0.4.0"),
        ("epp-0", "ghcr.io/llm-d/llm-d-inference-scheduler:v0.4.0"),
    ):
        labels = {"namespace": "", "pod": pod, "container": "vllm", "image": image}
        made.put("kube_pod_container_info", "gauge", labels, 1)
    out = call("doctor", "--store", stored(made.text(), tmp_path)).out
    (line,) = (line for line in out.splitlines() if line.startswith("unscraped"))
    assert "/llama-1:" in line and "llama-0" not in line and "epp-0" not in line and "PodMonitor" in out


def test_doctor_names_the_rows_of_boards_that_stay_empty(pools):
    words = " ".join(call("doctor", *pools).out.split())
    assert 'inferdoc: speculation: no data for the rows "By pool", "Pods that accept least"' in words


def test_signals_shows_the_newest_value_of_every_pod(store_of):
    rows = json.loads(call("signals", "--store", store_of("kv-preemption-thrash"), "-o", "json").out)
    known = catalogue().signals
    assert len(rows) > 40 and {row["signal"] for row in rows} <= known.keys()
    usage = next(row for row in rows if row["signal"] == "kv_usage")
    assert usage["pod"] == "vllm-0" and 0.9 < usage["value"] <= 1 and usage["unit"] == "ratio"
    assert call("signals", "--store", store_of("kv-preemption-thrash")).code == 0


def test_signals_against_their_bands(store_of):
    sick = call("signals", "--store", store_of("kv-preemption-thrash"), "--health")
    assert sick.code == 1
    marked = [line for line in sick.out.splitlines() if line.startswith("!")]
    assert any("kv_usage" in line for line in marked)
    assert any(line.startswith("~") and "preempt_fraction" in line for line in sick.out.splitlines()), "under 10 %"
    rows = json.loads(call("signals", "--store", store_of("kv-preemption-thrash"), "--health", "-o", "json").out)
    assert {row["row"] for row in rows} == {row.title for row in catalogue().health}, "the table is whole"
    assert all(row["enable"] for row in rows if row["state"] == "unknown"), "not visible: how to switch it on"
    for row in (row for row in rows if row["value"] is not None and row["judge"] != "trend"):
        beyond = (row["low"] is not None and row["value"] < row["low"]) or (
            row["high"] is not None and row["value"] > row["high"]
        )
        assert row["outside"] is beyond


def test_what_is_not_well_prints_what_it_means_and_what_to_do(store_of, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    lines = call("signals", "--store", store_of("slow-replica"), "--health").out.splitlines()
    reported = {row.title: row for row in catalogue().health}
    found = 0
    for at, line in enumerate(lines):
        title = line[2:].split("  ")[0]
        if line.startswith("!") and title in reported:
            block = " ".join(
                " ".join(itertools.takewhile(lambda each: each.startswith(" " * 10), lines[at + 1 :])).split()
            )
            assert f"means: {reported[title].says}" in block and f"do: {reported[title].do}" in block
            found += 1
    assert found >= 2 and any("vllm-1: Inter-token latency, mean rose from" in line for line in lines)


LABELS = json.loads((recording_path("control-steady").parent / "labels.json").read_text())["recordings"]

NOBODY_NOTICES = ("routing-imbalance", "routing-imbalance-two-cores")
"""All requests go to one engine of two, and its latencies fall."""


@pytest.mark.parametrize("label", LABELS, ids=[label["file"].removesuffix(".om.gz") for label in LABELS])
def test_health_of_recordings(label, store_of):
    """Controls are well; faults show at their height, where users notice them."""
    name = label["file"].removesuffix(".om.gz")
    until = "latest" if label["control"] else str(label["end"])
    done = call("signals", "--store", store_of(name), "--health", "--until", until)
    assert done.code == (0 if label["control"] or name in NOBODY_NOTICES else 1), done.out


def test_what_is_shown_of_the_signals(store_of):
    source = ("--store", store_of("slow-replica"))
    sick = call("signals", *source, "--health", "--pod", "vllm-1")
    assert sick.code == 1 and "vllm-0" not in sick.out and "from" in sick.out, (
        "still compared with before and its peers"
    )
    well = call("signals", *source, "--health", "--pod", "vllm-0")
    assert well.code == 0 and "vllm-1" not in well.out
    rows = json.loads(call("signals", *source, "--signal", "kv_usage", "--signal", "waiting", "-o", "json").out)
    assert {(row["signal"], row["pod"]) for row in rows} == {
        (signal, pod) for signal in ("kv_usage", "waiting") for pod in ("vllm-0", "vllm-1")
    }
    refused(call("signals", *source, "--pod", "vllm-9"), 2, "vllm-9", "vllm-0, vllm-1")
    refused(call("signals", *source, "--namespace", "nope"), 2, "nope")
    refused(call("signals", *source, "--signal", "kv_usag"), 2, "kv_usage")


def test_pods_stand_in_the_order_of_their_numbers(tmp_path):
    made = recorded(*(Engine(f"vllm-{number}") for number in (0, 10, 2)))
    rows = json.loads(
        call("signals", "--store", stored(made.text(), tmp_path), "--signal", "running", "-o", "json").out
    )
    assert [row["pod"] for row in rows] == ["vllm-0", "vllm-2", "vllm-10"]


def test_latencies_are_compared_with_the_slo(store_of, tmp_path):
    config = tmp_path / "inferdoc.toml"
    config.write_text("[[slo]]\nlimits = { ttft_p99 = 0.001 }\n[[pods]]\npod = '.*'\ntokens_per_second = 1000000\n")
    done = call("--config", config, "signals", "--store", store_of("control-steady"), "--health", "-o", "json")
    rows = {row["signal"]: row for row in json.loads(done.out)}
    assert rows["ttft_p99"]["outside"] and rows["ttft_p99"]["high"] == 0.001
    assert rows["fleet_utilisation"]["outside"] and 0 < rows["fleet_utilisation"]["value"] < 0.01


def test_signals_at_another_moment(store_of):
    """Before the fault the cache was not full."""
    healthy = call("signals", "--store", store_of("kv-preemption-thrash"), "--until", "1795252740", "-o", "json")
    usage = next(row for row in json.loads(healthy.out) if row["signal"] == "kv_usage")
    assert usage["value"] < 0.5


def test_signals_that_exist_need_no_source():
    listed = call("signals", "--list")
    assert listed.code == 0
    head, *rows = listed.out.splitlines()
    assert head.split() == ["id", "unit", "title"]
    assert {row.split()[0] for row in rows if not row.startswith(" ")} == set(catalogue().signals)


def test_signals_without_an_engine(tmp_path):
    made = recorded()
    made.put("up", "gauge", {"job": "x", "instance": "y:1"}, 1)
    refused(call("signals", "--store", stored(made.text(), tmp_path)), 4, "no engine")


@pytest.mark.parametrize("cause", sorted(catalogue().recipes))
def test_every_cause_can_be_shown(cause):
    recipe = catalogue().recipes[cause]
    done = call("recipes", "show", cause)
    assert done.code == 0 and done.out.startswith(recipe.title + "\n")
    assert "symptoms" in done.out and "next steps" in done.out
    for step in recipe.next_steps:
        assert in_general(step.do) in done.out
    assert "None" not in done.out


def test_recipes_lists_them_all_and_is_the_default():
    listed = call("recipes", "list")
    assert {line.split()[0] for line in listed.out.splitlines()} == set(catalogue().recipes)
    assert call("recipes").out == listed.out


def test_runbook_without_an_id_lists_the_pages():
    listed = call("runbook")
    assert listed.code == 0
    assert set(catalogue().recipes) <= {line.split()[0] for line in listed.out.splitlines()}
