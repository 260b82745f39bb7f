"""A cause is one YAML, one page and one scenario: dropped into a folder of one's own, it appears everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import call

CAUSE = "runaway-answers"

DECLARED = """\
id: runaway-answers
title: Answers have become several times as long
phase: decode
scope: pod
severity: warning
observations:
  answers_doubled: {signal: output_len_mean, rises: 2, share_of: 0.5}
  requests_doubled: {signal: e2e_mean, rises: 2, share_of: 0.5}
needs: [answers_doubled]
impact: [requests_doubled]
look_alikes: [kv-preemption-thrash, spec-acceptance-decay]
next_steps:
  - do: "Cap max_tokens at the gateway"
    why: "an answer that never ends holds its KV blocks"
    cost: "answers are cut"
    undo: "remove the cap"
alert: {for: 5m, keep_firing_for: 5m}
sources:
  - "our own incident of March"
"""

PAGE = """\
# Answers have become several times as long

## Meaning

A prompt template lost its stop words.
"""

SCENARIO = """\
id: runaway-answers
title: A template loses its stop words
expect: {cause: runaway-answers, pods: [vllm-0], onset: 8m}
pools:
  - {name: vllm, pods: 1, tier: h100-80, model: llama-3.1-8b}
traffic:
  - rate: 2
    prompt: {median: 200, sigma: 0.3, max: 1000}
    output: {median: 80, sigma: 0.3, max: 2000}
faults:
  - {kind: traffic, at: 8m, output: 5.0}
duration: 15m
seed: 3
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory) -> Path:
    """A folder of a user with the three files."""
    folder = tmp_path_factory.mktemp("mine")
    for name, text in (
        (f"diagnostics/{CAUSE}.yaml", DECLARED),
        (f"runbooks/{CAUSE}.md", PAGE),
        (f"incidents/{CAUSE}.yaml", SCENARIO),
    ):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


@pytest.fixture(scope="module")
def store(mine: Path) -> Path:
    """The scenario, simulated into an embedded store."""
    path = mine / "incident.db"
    done = call("simulate", "--scenario", mine / "incidents" / f"{CAUSE}.yaml", "--store", path)
    assert done.code == 0, done.err
    return path


def test_the_file_is_good(mine):
    done = call("recipes", "check", mine / "diagnostics" / f"{CAUSE}.yaml")
    assert done.code == 0, done.out


def test_it_is_listed_and_shown(mine):
    listed = call("--catalogue", mine, "recipes", "list").out
    assert f"\n{CAUSE} " in f"\n{listed}" and "slow-gpu" in listed
    shown = call("--catalogue", mine, "recipes", "show", CAUSE).out
    assert "Cap max_tokens" in shown and "`output_len_mean` rises to 2 times" in shown
    assert str(mine) in shown, "where it is declared"


def test_its_page_is_found(mine):
    assert call("--catalogue", mine, "runbook", CAUSE).out == PAGE.rstrip() + "\n"
    assert CAUSE in call("--catalogue", mine, "runbook").out


def test_the_diagnosis_names_it(mine, store):
    words = ("diagnose", "--store", store, "--since", "1h", "--until", "latest", "-o", "json")
    document = json.loads(call("--catalogue", mine, *words).out)
    first = document["findings"][0]
    assert first["id"] == CAUSE and first["scope"]["pods"] == ["vllm-0"]
    assert first["next_steps"][0]["do"].startswith("Cap max_tokens")
    without = json.loads(call(*words).out)
    assert CAUSE not in [f["id"] for f in without["findings"]]


def test_the_configuration_names_the_folder_as_well(mine, store, tmp_path):
    config = tmp_path / "inferdoc.toml"
    config.write_text(f'catalogue = ["{mine}"]\n[source]\nstore = "{store}"\n')
    done = call("diagnose", "--since", "1h", "--until", "latest")
    assert done.code == 1 and CAUSE in done.out


def test_a_healthy_recording_does_not_meet_it(mine, store_of):
    done = call("--catalogue", mine, "diagnose", "--store", store_of("control-steady"), "--until", "latest")
    assert done.code == 0


def test_it_becomes_an_alert_rule_with_its_page(mine, tmp_path):
    done = call("--catalogue", mine, "alerts", "build", "--out", tmp_path / "rules", "--runbook-base", "https://wiki/r")
    assert done.code == 0, done.err
    written = "".join(path.read_text("utf-8") for path in sorted((tmp_path / "rules").rglob("*.y*ml")))
    assert f"https://wiki/r/{CAUSE}" in written
    assert "request_generation_tokens" in written


def test_the_folder_changes_nothing_for_others(mine):
    assert CAUSE not in call("recipes", "list").out
    done = call("runbook", CAUSE)
    assert done.code == 2 and CAUSE in done.err
