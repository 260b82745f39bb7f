"""`inferdoc audit`: exit codes, forms, prices, what the configuration accepts, and the section beside a diagnosis."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario_files import read_scenario
from inferdoc.simulate.scrape import simulate
from inferdoc.store import Store
from tests.cli.command import alone, call, refused

__all__ = ["alone"]

SCENARIO = """
id: two-states
title: "One pool with drafts that lose, one with FP8 keys and values on A100"
expect: {cause: null}
pools:
  - {name: fast, pods: 1, tier: h100-80, model: llama-3.1-8b, flags: {draft: 5, accept: [0.05, 0.05]}}
  - {name: old, pods: 1, tier: a100-80, model: llama-3.1-8b, flags: {cache_dtype: fp8_e5m2}}
traffic:
  - rate: 1
    prompt: {median: 200, sigma: 0.3, max: 600}
    output: {median: 60, sigma: 0.3, max: 200}
duration: 12m
seed: 5
"""
PRICES = """
[prices]
currency = "EUR"
overhead = 1.5
[prices.tiers.h100-80]
on_demand = 4.0
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the fleet above."""
    path = tmp_path_factory.mktemp("audit") / "fleet.db"
    with Store.open(path, "w") as store:
        write_store(simulate(read_scenario(SCENARIO, "two-states")), store)
    return path


def document(fleet: Path, *arguments: object, code: int = 1) -> dict:
    done = call("audit", "--store", fleet, "--until", "latest", "-o", "json", *arguments)
    assert done.code == code, done
    return json.loads(done.out)


def test_the_document(fleet):
    answer = document(fleet)
    assert answer["schema"] == "inferdoc.audit/v1"
    assert answer["verdict"] == "standing"
    assert [state["id"] for state in answer["states"]] == ["speculation-below-break-even", "fp8-cache-without-fp8"]
    dear = answer["states"][0]
    assert dear["place"]["pods"] == ["fast-0"] and dear["place"]["of_pods"] == 1
    assert 0 < dear["wasted"]["gpus"] < 1 and dear["wasted"]["money"] is None and not dear["wasted"]["assumed"]
    assert dear["wasted"]["share"] == pytest.approx(dear["wasted"]["gpus"] / 2, abs=1e-3)
    seen = dear["observed"][0]
    assert seen["value"] < seen["threshold"] == 1.0 and seen["held"] >= 0.8 and seen["limit"] == "speculation_even"
    assert not any("{" in step[part] for step in dear["next_steps"] for part in ("do", "why"))
    assert answer["states"][1]["wasted"] is None
    assert {pool["pods"] for pool in answer["pools"]} == {1}


def test_exit_codes_and_the_focus(fleet, store_of, tmp_path):
    assert call("audit", "--store", fleet, "--until", "latest", "--tier", "a100-80").code == 1
    assert call("audit", "--store", fleet, "--until", "latest", "--tier", "a100-80", "--fail-on", "warning").code == 0
    well = call("audit", "--store", store_of("control-steady"), "--until", "latest")
    assert well.code == 0 and well.out.startswith("NO PERSISTENT ISSUES"), well.out
    refused(call("audit", "--store", fleet, "--until", "latest", "--pod", "nobody"), 2, "old-0", "fast-0")
    short = call("audit", "--store", fleet, "--until", "latest", "--since", "1m", "--tier", "h100-80")
    assert short.code == 3 and "at this scrape interval a window of" in short.out, short.out
    refused(call("audit", "--store", tmp_path / "none.db"), 4)
    refused(call("audit", "--store", fleet, "--since", "soon"), 2, "--since")
    refused(call("audit", "--store", fleet, "-l", "pod"), 2, "LABEL=VALUE")


def test_prices_are_stated_and_rank(fleet):
    Path("inferdoc.toml").write_text(PRICES, "utf-8")
    wasted = document(fleet)["states"][0]["wasted"]
    assert wasted["currency"] == "EUR"
    assert wasted["money"] == pytest.approx(wasted["gpus"] * 6.0, abs=0.01)
    printed = call("audit", "--store", fleet, "--until", "latest").out
    assert "EUR an hour" in " ".join(printed.split()), "wherever the lines break"


def test_what_the_configuration_accepts_counts_until_its_day(fleet):
    entry = '[[audit.accepted]]\nstate = "{}"\nreason = "the canary of May"\n'
    both = "".join(entry.format(name) for name in ("speculation-below-break-even", "fp8-cache-without-fp8"))
    Path("inferdoc.toml").write_text(both, "utf-8")
    answer = document(fleet, code=0)
    assert answer["states"] == [] and answer["verdict"] == "nothing"
    assert {state["accepted"] for state in answer["accepted"]} == {"the canary of May"}
    Path("inferdoc.toml").write_text(both.replace('"\nreason', '"\nuntil = "2020-01-01"\nreason'), "utf-8")
    assert len(document(fleet)["states"]) == 2
    Path("inferdoc.toml").write_text(both.replace('"\nreason', '"\npod = "other-.*"\nreason'), "utf-8")
    assert len(document(fleet)["states"]) == 2


def test_text_prints_what_it_is_what_it_costs_and_what_to_do(fleet):
    printed = call("audit", "--store", fleet, "--until", "latest").out
    for words in (
        "1. Speculation is slower",
        "costs    at least",
        "shows    Speed with drafts",
        "meant if",
        "do       1)",
    ):
        assert words in printed
    assert "undetermined: kv-memory-unused" in printed and "inferdoc audit --since 24h" in printed
    loud = call("audit", "--store", fleet, "--until", "latest", "-v").out
    for words in ("worked out as", "source", "not in use: ", "kv_block_idle_p50"):
        assert words in loud
    assert max(map(len, loud.splitlines())) <= 200


def test_markdown_and_html(fleet):
    text = call("audit", "--store", fleet, "--until", "latest", "-o", "markdown").out
    assert text.startswith("# Persistent issues") and "| 1 | Speculation is slower" in text
    assert "## Undetermined" in text
    page = call("audit", "--store", fleet, "--until", "latest", "-o", "html").out
    assert page.startswith("<!DOCTYPE html>") and "Speculation is slower" in page and "<script" not in page


def test_a_diagnosis_in_html_has_them_as_a_section(fleet):
    page = call("diagnose", "--store", fleet, "--until", "latest", "-o", "html").out
    assert "Persistent issues" in page and "Speculation is slower" in page
    assert "Standing states" not in call("diagnose", "--store", fleet, "--until", "latest").out
