"""Recordings of real stacks (docs/measurements/real-stacks.md): the cause of a fault, and nothing on controls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.real_stacks.judge import GOOD, outcome
from inferdoc import diagnose, open_source
from tests.cli.command import call
from tests.conftest import ROOT, store_of_file

STACKS = ROOT / "fixtures" / "stacks"
ENTRIES: list[dict[str, Any]] = json.loads((STACKS / "labels.json").read_text("utf-8"))["recordings"]
NOT_FOUND = {
    "dynamo-random-routing.om.gz": "unexplained",
    "dynamo-unique-prompts.om.gz": "missed",
}
"""The mocker workers of Dynamo expose no prefix cache counters, and its router stops counting hits."""


def name(entry: dict[str, Any]) -> str:
    return entry["file"].removesuffix(".om.gz")


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_the_fault_is_named_and_a_control_is_not(entry: dict[str, Any]) -> None:
    source = open_source(store=store_of_file(STACKS / entry["file"]))
    begin, end = entry["window"]
    found = outcome(entry["fault"], json.loads(diagnose(source, from_=begin, until=end).to_json()))
    expected = NOT_FOUND.get(entry["file"])
    assert found == expected if expected else found in GOOD


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_doctor_finds_the_engines_and_understands_every_name(entry: dict[str, Any]) -> None:
    shown = call("doctor", store_of_file(STACKS / entry["file"]))
    assert shown.code == 0
    assert all(engine in shown.out for engine in entry["engines"] if not engine.startswith("dynamo-prefill"))
    assert "not understood" not in shown.out


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry["fault"] == "control-steady"], ids=name)
def test_signals_have_values(entry: dict[str, Any]) -> None:
    shown = call("signals", store_of_file(STACKS / entry["file"]), "-o", "json")
    rows = {row["signal"] for row in json.loads(shown.out)}
    assert {"running", "ttft_mean", "router_request_rate"} <= rows
