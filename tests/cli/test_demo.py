"""`inferdoc demo`: faults on simulated fleets, and recordings of real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferdoc.judging.model import SCHEMA_ID
from inferdoc.simulate.scenario_files import folder, scenarios
from tests.cli.command import call, refused
from tests.judging.frames import catalogue

SMALL = """\
id: {id}
title: {title}
expect: {{cause: {cause}, pods: [vllm-1], onset: 5m{more}}}
pools:
  - {{name: vllm, pods: 2, tier: h100-80, model: llama-3.1-8b}}
traffic:
  - {{rate: 2, prompt: {{median: 300, max: 2000}}, output: {{median: 100, max: 500}}}}
faults: [{fault}]
duration: 10m
seed: 5
"""


def own(tmp_path: Path, name: str, cause: str, fault: str, more: str = "") -> tuple[str, Path]:
    """--catalogue FOLDER with a scenario of the user in it."""
    place = tmp_path / "mine"
    (place / "incidents").mkdir(parents=True, exist_ok=True)
    (place / "diagnostics").mkdir(exist_ok=True)
    text = SMALL.format(id=name, title="A small fleet", cause=cause, fault=fault, more=more)
    (place / "incidents" / f"{name}.yaml").write_text(text, "utf-8")
    return "--catalogue", place


def test_without_arguments_two_tiers_one_fault_and_next_steps() -> None:
    done = call("demo")
    assert done.code == 0 and done.err == ""
    assert "kv-transport-degraded" in done.out and "llama-decode-1" in done.out
    assert "2 x h100-80 (prefill), 3 x a100-80 (decode)" in done.out and "tier a100-80" in done.out
    assert "right: kv-transport-degraded is the first finding" in done.out
    for word in (
        "how to read it",
        "inferdoc runbook kv-transport-degraded",
        "inferdoc recipes show",
        "inferdoc demo --l",
    ):
        assert word in done.out
    assert done.out.index("how to read it") > done.out.index("read on")


def test_the_default_fleet_has_two_tiers_and_its_parts_carry_the_same_model() -> None:
    first = next(s for s in scenarios() if s.id == "demo-two-tiers")
    assert {p.role for p in first.pools} == {"prefill", "decode"}
    assert len({p.tier for p in first.pools}) == 2 and len({p.model for p in first.pools}) == 1
    assert len(first.faults) == 1


@pytest.mark.parametrize("fault", ["engine-hung", "lora-thrash", "kv-lease-expiry"])
def test_a_fault_is_found_and_the_document_is_that_of_diagnose(fault: str) -> None:
    done = call("demo", "--fault", fault, "-o", "json")
    assert done.code == 0
    document = json.loads(done.out)
    assert document["schema"] == SCHEMA_ID and document["verdict"] in ("degraded", "critical")
    first, expect = document["findings"][0], next(s for s in scenarios() if s.id == fault).expect
    assert first["id"] == fault and first["scope"]["pods"] == list(expect.pods)
    assert document["source"]["location"] == f"simulated fleet {fault}"
    assert f"inferdoc runbook {fault}" in done.err and f"inferdoc simulate --scenario {fault}" in done.err


def test_the_document_fits_the_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((folder().parent.parent / "docs" / "diagnosis.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads(call("demo", "--fault", "lora-thrash", "-o", "json").out), schema)


def test_html_and_markdown_go_alone_to_standard_output() -> None:
    page = call("demo", "--fault", "lora-thrash", "-o", "html")
    assert page.code == 0 and page.out.lower().startswith("<!doctype html>") and page.out.rstrip().endswith("</html>")
    ticket = call("demo", "--fault", "lora-thrash", "-o", "markdown")
    assert ticket.code == 0 and "next steps" not in ticket.out and "next steps" in ticket.err


def test_a_fault_that_injects_nothing_is_a_wrong_demo_and_exits_1(tmp_path: Path) -> None:
    """The scenario names a cause but leaves the fleet alone: the diagnosis must not say what the label says."""
    done = call(*own(tmp_path, "engine-hung", "engine-hung", ""), "demo", "--fault", "engine-hung")
    assert done.code == 1
    assert (
        done.out.startswith("HEALTHY") and "WRONG: engine-hung should be the first finding; found: nothing" in done.out
    )


def test_another_fault_than_the_label_prints_exits_1(tmp_path: Path) -> None:
    overlay = own(tmp_path, "slow-gpu", "slow-gpu", "{kind: hang, at: 5m, pods: [vllm-1]}")
    done = call(*overlay, "demo", "--fault", "slow-gpu", "-o", "json")
    assert done.code == 1
    assert json.loads(done.out)["findings"][0]["id"] == "engine-hung"
    assert "WRONG: slow-gpu should be the first finding; found: engine-hung" in done.err


def test_an_accepted_finding_is_not_enough_where_the_fault_is_named_nowhere(tmp_path: Path) -> None:
    overlay = own(tmp_path, "slow-gpu", "slow-gpu", "{kind: hang, at: 5m, pods: [vllm-1]}", ", accepts: [engine-hung]")
    done = call(*overlay, "demo", "--fault", "slow-gpu")
    assert done.code == 1 and "WRONG: slow-gpu should be the first finding; found: engine-hung" in done.out


def test_a_fault_named_beside_one_that_is_right_too_is_accepted() -> None:
    done = call("demo", "--fault", "blended-average-masking")
    assert done.code == 0
    assert "accepted: mixed-tier-balancing" in done.out or "right: blended-average-masking" in done.out


def test_a_fault_that_metrics_cannot_show_prints_why_and_exits_0(tmp_path: Path) -> None:
    overlay = own(tmp_path, "quiet", "engine-hung", "", ', not_visible: "answers change, no metric reads them"')
    done = call(*overlay, "demo", "--fault", "quiet")
    assert done.code == 0
    assert "metrics cannot show engine-hung: answers change, no metric reads them." in done.out
    listed = call(*overlay, "demo", "--list")
    line = next(line for line in listed.out.splitlines() if line.startswith("quiet "))
    assert line.split()[1] == "no" and "answers change, no metric reads them" in line


def test_the_list_names_every_cause_and_every_recording() -> None:
    done = call("demo", "--list")
    assert done.code == 0 and done.err == ""
    faults, recordings = done.out.split("\n\n")
    rows = [line.split(maxsplit=2) for line in faults.splitlines()[1:]]
    by_id = {s.id: s for s in scenarios()}
    assert {row[0] for row in rows} >= set(catalogue().recipes)
    for name, visible, words in rows:
        if visible != "-":
            assert (visible == "no") == (by_id[name].expect.not_visible is not None)
            assert words.startswith(by_id[name].title)
    labels = json.loads((folder().parent / "recordings" / "labels.json").read_text("utf-8"))["recordings"]
    assert [line.split()[0] for line in recordings.splitlines()[1:]] == [
        label["file"].removesuffix(".om.gz") for label in labels
    ]


@pytest.mark.parametrize("name", ["kv-preemption-thrash", "slow-replica", "control-steady"])
def test_recordings_are_still_simulated(name: str) -> None:
    done = call("demo", "--recording", name, "-o", "json")
    assert done.code == 0
    document = json.loads(done.out)
    assert document["source"]["location"] == f"{name}.om.gz"
    assert (document["verdict"] == "healthy") == (name == "control-steady")


def test_a_recording_is_also_found_by_its_cause() -> None:
    done = call("demo", "--recording", "slow-gpu")
    assert done.code == 0 and "slow-replica.om.gz" in done.out and "recorded under slow-gpu" in done.out


def test_what_does_not_exist_is_one_line_with_near_names() -> None:
    refused(call("demo", "--fault", "kv-transfer-backlag"), 2, "kv-transfer-backlag", "kv-transfer-backlog")
    refused(call("demo", "--fault", "zzz"), 2, "zzz", "demo --list")
    refused(call("demo", "--fault", "control-steady"), 2, "control-steady", "nothing strikes it")
    refused(call("demo", "--recording", "slow-replik"), 2, "slow-replik", "slow-replica")
    refused(call("demo", "--fault", "engine-hung", "--recording", "engine-hung"), 2, "mutually exclusive")


def test_an_installation_has_no_recordings_and_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("inferdoc.report.demo.RECORDINGS", tmp_path)
    assert "(--recording)" not in call("demo", "--list").out
    refused(call("demo", "--recording", "slow-gpu"), 2, "recordings come with a checkout")
