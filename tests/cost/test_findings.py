"""What a finding costs an hour: of engines that are down all of their GPUs, of others what the bill says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.cost.ledger import CAUSES, USEFUL
from inferdoc.cost.reading import WASTED_BY
from tests.cli.command import alone, call

__all__ = ["alone"]

PRICES = "[prices.tiers.h100-80]\non_demand = 4.0\n"


def findings(store: Path, *arguments: object) -> dict[str, dict]:
    done = call("diagnose", "--store", store, "--until", "latest", "-o", "json", *arguments)
    assert done.code == 1, done
    return {found["id"]: found for found in json.loads(done.out)["findings"]}


def test_every_cause_is_one_and_every_part_is_one():
    known = load_catalogue().recipes
    assert WASTED_BY.keys() <= known.keys()
    assert {part for parts in WASTED_BY.values() for part in parts} <= {*CAUSES, USEFUL}


def test_an_engine_that_hangs_costs_all_of_its_gpus(simulated):
    hung = simulated.of("engine-hung")
    store, (pool,) = hung.store, hung.scenario.pools
    assert findings(store)["engine-hung"]["cost_per_hour"] is None, "without a price there is no money"
    Path("inferdoc.toml").write_text(PRICES, "utf-8")
    found = findings(store)["engine-hung"]
    assert found["scope"]["tier"] == "h100-80" and len(found["scope"]["pods"]) == 1
    assert found["cost_per_hour"] == pytest.approx(4.0 * pool.gpus, rel=0.1)
    said = call("diagnose", "--store", store, "--until", "latest", "-v").out
    assert f"costs    {found['cost_per_hour']:,.2f} an hour" in said


def test_a_cause_of_which_users_feel_the_harm_has_no_figure(simulated):
    Path("inferdoc.toml").write_text(PRICES, "utf-8")
    for found in findings(simulated.of("prompt-growth").store).values():
        assert found["id"] in WASTED_BY or found["cost_per_hour"] is None


def test_a_price_of_another_tier_is_no_price(simulated):
    Path("inferdoc.toml").write_text(PRICES.replace("h100-80", "l4"), "utf-8")
    assert findings(simulated.of("engine-hung").store)["engine-hung"]["cost_per_hour"] is None
