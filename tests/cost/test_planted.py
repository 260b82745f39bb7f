"""Wastes that a simulated fleet really has are found, each in its pool, with the money that it really costs."""

from __future__ import annotations

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.config_sections import PricesSection, TierPrice
from inferdoc.cost.bill import billed
from inferdoc.cost.model import Bill, BillRow
from inferdoc.source.open import open_source
from tests.cost.planted import PLANTED

PRICES = {"h100-80": 3.0, "a100-80": 1.5, "l40s": 1.0}
GOAL = 0.15
"""By how much money may be off."""


@pytest.fixture(scope="module")
def bill(wasteful) -> Bill:
    config = Config(prices=PricesSection(tiers={tier: TierPrice(price) for tier, price in PRICES.items()}))
    return billed(open_source(store=wasteful.store), config, load_catalogue(), {"until": "latest"})


def row_of(bill: Bill, cause: str) -> BillRow:
    (found,) = [row for row in bill.rows if row.name.startswith(f"{cause} ")]
    return found


def money_of(row: BillRow, cause: str) -> float:
    (found,) = [part.amount.money for part in row.parts if part.cause == cause]
    assert found is not None
    return found


def truth(wasteful, cause: str) -> float:
    """Money that a waste really cost in its pool."""
    (pool,) = wasteful.scenarios[cause].pools
    return wasteful.wasted(cause) / 3600 * PRICES[pool.tier]


def test_all_of_the_time_is_on_the_bill(bill, wasteful):
    for cause in PLANTED:
        assert row_of(bill, cause).whole.gpu_hours == pytest.approx(wasteful.seconds(cause) / 3600, rel=0.01)


@pytest.mark.parametrize("cause", list(PLANTED))
def test_a_planted_waste_costs_what_it_really_cost(cause, bill, wasteful):
    row = row_of(bill, cause)
    assert row.wasted[0].cause == cause
    assert money_of(row, cause) == pytest.approx(truth(wasteful, cause), rel=GOAL)


def test_no_pool_has_the_waste_of_another(bill):
    """Idle moments apart, which every pool has that is not at its limit."""
    for cause in PLANTED:
        others = {part.cause for part in row_of(bill, cause).wasted} - {cause, "idle"}
        assert not others, cause


def test_all_waste_together_is_right(bill, wasteful):
    wasted = sum(money_of(row_of(bill, cause), cause) for cause in PLANTED)
    assert wasted == pytest.approx(sum(truth(wasteful, cause) for cause in PLANTED), rel=GOAL)


@pytest.mark.parametrize("cause", ["idle", "missed", "rejected"])
def test_prompts_have_their_share_of_the_working_time(cause, bill, wasteful):
    row = row_of(bill, cause)
    working = row.whole.gpu_hours - sum(part.amount.gpu_hours for part in row.parts if part.cause == "idle")
    told = row.prompts.gpu_hours / row.whole.gpu_hours * working
    assert told == pytest.approx(wasteful.spent[cause].prompts / 3600, rel=0.35)
