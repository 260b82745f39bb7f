"""Another tier for a pool: by arithmetic for prompts, by bandwidth for output, by memory, and only with prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.cost.bill import gpus_for_one
from tests.cli.command import alone, call
from tests.cost.test_command import answer

__all__ = ["alone"]

TIERS = load_catalogue().tiers.tiers
DEAR = "[prices.tiers.h100-80]\non_demand = 30.0\n[prices.tiers.a100-80]\non_demand = 1.5\n"


def test_prompts_go_by_arithmetic_and_output_by_bandwidth():
    h100, a100, l40s = (TIERS[name] for name in ("h100-80", "a100-80", "l40s"))
    assert gpus_for_one(h100, a100, 1.0) == pytest.approx(989 / 312, rel=0.01)
    assert gpus_for_one(h100, a100, 0.0) == pytest.approx(3350 / 2039, rel=0.01)
    half = gpus_for_one(h100, a100, 0.5)
    assert half == pytest.approx((989 / 312 + 3350 / 2039) / 2, rel=0.01)
    assert l40s.memory_gib.value / h100.memory_gib.value > l40s.bf16_tflops.value / h100.bf16_tflops.value
    assert gpus_for_one(l40s, h100, 1.0) == pytest.approx(l40s.memory_gib.value / h100.memory_gib.value)


def test_a_pool_on_a_dear_tier_is_told_the_cheap_one_with_its_money(wasteful):
    Path("inferdoc.toml").write_text(DEAR, "utf-8")
    bill = answer(wasteful.store)
    told = {one["pool"].split()[0]: one for one in bill["cheaper"]}
    assert set(told) == {"lost", "missed", "recomputed", "rejected"}, "those of the dear tier"
    for row in bill["rows"]:
        one = told.get(row["name"].split()[0])
        if one is None:
            continue
        prompts = row["prompts"]["gpu_hours"] / (row["prompts"]["gpu_hours"] + row["outputs"]["gpu_hours"])
        ratio = 1.5 / 30.0 * gpus_for_one(TIERS["h100-80"], TIERS["a100-80"], prompts)
        useful = next(part["amount"]["money"] for part in row["parts"] if part["cause"] == "useful")
        assert (one["tier"], one["cheaper"]) == ("h100-80", "a100-80")
        assert one["share"] == pytest.approx(1 - ratio) and one["money"] == pytest.approx(useful * (1 - ratio))
    said = " ".join(call("cost", "--store", wasteful.store, "--until", "latest", "-v").out.split())
    assert "on a100-80 instead of h100-80 its useful work would cost up to" in said and "another tier: useful" in said
    page = call("cost", "--store", wasteful.store, "--until", "latest", "-o", "html").out
    assert "on a100-80 instead of h100-80" in page


@pytest.mark.parametrize(
    "prices",
    [
        "",
        "[prices.tiers.h100-80]\non_demand = 30.0\n",
        "[prices.tiers.h100-80]\non_demand = 3.0\n[prices.tiers.a100-80]\non_demand = 1.8\n",
        "[prices.tiers.h100-80]\non_demand = 30.0\n[prices.tiers.l40s]\non_demand = 0.1\n",
    ],
    ids=["no price", "one price", "not worth it", "no NVLink"],
)
def test_without_two_prices_a_saving_or_the_same_links_nothing_is_told(prices, wasteful):
    Path("inferdoc.toml").write_text(prices, "utf-8")
    assert [one for one in answer(wasteful.store)["cheaper"] if one["tier"] == "h100-80"] == []
