"""Prefill and decode apart: each side pays for its own tokens, and no token or request counts twice."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import alone, call

__all__ = ["alone"]


@pytest.fixture(scope="module")
def bill(simulated) -> dict:
    store = simulated.of("demo-two-tiers").store
    done = call("cost", "--store", store, "--until", "latest", "--namespace", "llm", "-o", "json")
    assert done.code == 0, done
    return json.loads(done.out)


def test_prompts_are_paid_to_prefill_pods_and_output_to_decode_pods(bill):
    rows = {row["name"].split(", ")[1]: row for row in bill["rows"]}
    assert rows.keys() == {"prefill", "decode"}
    assert rows["prefill"]["prompts"] == rows["prefill"]["whole"] and rows["prefill"]["outputs"]["gpu_hours"] == 0
    assert rows["decode"]["outputs"] == rows["decode"]["whole"] and rows["decode"]["prompts"]["gpu_hours"] == 0
    assert rows["prefill"]["requests"] == rows["prefill"]["output_tokens"] == rows["decode"]["prompt_tokens"] == 0
    assert rows["prefill"]["prompt_tokens"] > rows["decode"]["output_tokens"] > rows["decode"]["requests"] > 0


def test_a_prefill_pod_is_not_idle_while_it_computes(bill):
    """Its gauge of running requests is 0 after every step, since its requests end with their first token. The engines
    of this fleet computed for 166 and 167 of 1,200 s."""
    row = next(row for row in bill["rows"] if ", prefill" in row["name"])
    idle = next(part["amount"]["gpu_hours"] for part in row["parts"] if part["cause"] == "idle")
    assert 1 - idle / row["whole"]["gpu_hours"] == pytest.approx(333 / 2400, rel=0.15)
