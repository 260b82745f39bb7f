"""`inferdoc whatif` from its arguments to its document."""

from __future__ import annotations

import json

import msgspec
import pytest

from inferdoc.errors import InferdocError
from inferdoc.report.estimates import whatif_text
from inferdoc.whatif.predict import WhatIfAnswer
from inferdoc.whatif.setting import settings_for_request
from tests.cli.command import call
from tests.whatif.lab import POOL


@pytest.fixture(scope="module")
def document(store):
    done = call("whatif", "--store", store, "--set", "replicas=4", "--ttft", "2s", "--tpot", "150ms", "-o", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_twice_the_pods_are_better_and_cost_twice(document):
    rows = {each["name"]: each for each in document["rows"]}
    assert rows["ttft_p99"]["move"] == "better"
    assert rows["gpus"]["change"] == 1.0
    assert document["pool"] == POOL
    for each in document["rows"]:
        assert each["then"]["low"] <= each["then"]["value"] <= each["then"]["high"]


def test_the_error_of_the_held_half_is_in_the_document(document):
    held = {each["name"]: each for each in document["held"]}
    assert set(held) == {"ttft_p50", "ttft_p99", "itl_p50", "itl_p99", "served", "goodput"}
    for each in held.values():
        assert each["error"] == pytest.approx(each["predicted"] / each["measured"] - 1.0)


@pytest.mark.parametrize("columns", [80, 110])
def test_now_and_then_stand_side_by_side(document, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = whatif_text(msgspec.convert(document, WhatIfAnswer), verbose=True)
    assert max(map(len, text.splitlines())) <= columns
    assert "WHAT IF  replicas 4" in text
    assert "2 GPUs" in text
    assert "4 GPUs" in text
    assert "played over the second" in text
    assert "= served x max(0, a + b - 1)" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("replica=4", 'no setting "replica" (did you mean "replicas"?)'),
        ("replicas", "expected KEY=VALUE"),
        ("replicas=0", "expected pods"),
        ("replicas=many", "expected pods"),
        ("traffic=nan", "expected a factor"),
        ("traffic=100", "expected a factor"),
        ("accepted=0.5,0.8", "none above the one before"),
        ("router=best", "round-robin"),
        ("kv-dtype=fp4", "bf16 or fp8"),
    ],
)
def test_a_setting_that_nobody_can_mean_is_one_line(text, words):
    with pytest.raises(InferdocError) as refused:
        settings_for_request([text], "--set")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_settings_are_read():
    assert settings_for_request(["traffic=x1.5", "accepted=0.8,0.6"], "--set") == {
        "traffic": 1.5,
        "accepted": (0.8, 0.6),
    }
    with pytest.raises(InferdocError, match="given twice"):
        settings_for_request(["replicas=2", "replicas=3"], "--set")


def test_without_a_change_there_is_no_answer(store):
    done = call("whatif", "--store", store)
    assert done.code == 2
    assert "what is to change?" in done.err
