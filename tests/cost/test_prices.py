"""Money from GPU-hours: golden numbers, and prices that are missing or of nothing."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from inferdoc.config_sections import PodSection, PricesSection, TierPrice
from inferdoc.cost.ledger import Account
from inferdoc.cost.model import Amount
from inferdoc.cost.prices import each, energy_of, per_million, price_notes, slot_rates

SECONDS = 3600.0


@pytest.mark.parametrize(("load", "money"), [(1.0, 1.1111), (0.4, 2.7778)])
def test_a_million_tokens_of_four_gpus_at_three_dollars(load, money):
    """3,000 tokens/s; at 40 % load the idle time is in the price."""
    hour = Amount(4.0, 4 * 3.0)
    told = per_million(hour, 3000 * load * SECONDS)
    assert told is not None and told.money == pytest.approx(money, rel=1e-3)


def test_energy_of_tokens():
    """3,059 tokens/s at 2,000 W."""
    energy = energy_of(2000.0 * SECONDS, 3059 * SECONDS)
    assert (energy.tokens_per_joule, energy.kwh_per_million) == pytest.approx((1.5295, 0.1816), rel=1e-3)
    assert energy.kwh == pytest.approx(2.0)
    assert energy_of(2000.0, 0.0).tokens_per_joule is None


def test_requests_and_good_requests():
    hour = Amount(4.0, 4 * 3.0)
    every, good = each(hour, 12 * SECONDS), each(hour, 12 * SECONDS * 0.955)
    assert every is not None and good is not None
    assert (every.money * 1000, good.money * 1000) == pytest.approx((0.278, 0.291), rel=2e-3)
    assert each(hour, 0) is None and per_million(hour, 0) is None


def test_overhead_is_on_top_and_no_price_is_no_money():
    prices = PricesSection(overhead=1.5, tiers={"l4": TierPrice(2.0)})
    assert prices.per_gpu_hour("l4") == 3.0 and prices.per_gpu_hour("h100-80") is None
    assert each(Amount(1.0, None), 2) == Amount(0.5, None)


def test_every_gap_in_the_prices_is_one_line():
    (only,) = price_notes(PricesSection(), {"l4": 2.0}, {"l4"})
    assert "GPU-hours" in only and "[prices.tiers.l4]" in only
    prices = PricesSection(tiers={"h100": TierPrice(3.0)})
    lacking, unknown = price_notes(prices, {"l4": 2.0}, {"l4", "h100-80"})
    assert "no price of tier l4" in lacking and "[prices.tiers.l4]" in lacking
    assert "[prices.tiers.h100]: no such tier" in unknown and "h100-80" in unknown
    assert list(price_notes(PricesSection(tiers={"l4": TierPrice(1.0)}), {"l4": 2.0}, {"l4"})) == []
    assert list(price_notes(PricesSection(tiers={"mine": TierPrice(1.0)}), {"mine": 2.0}, {"l4"})) == [], (
        "a label of the user's own names a tier too"
    )


@pytest.mark.parametrize("price", [-1.0, 0.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(price):
    with pytest.raises(ValueError, match="on_demand"):
        msgspec.convert({"tiers": {"l4": {"on_demand": price}}}, PricesSection)


def test_a_currency_without_a_name_is_refused():
    with pytest.raises(ValueError, match="currency"):
        msgspec.convert({"currency": " "}, PricesSection)


def _account(tier: str, hours: list[float], pod: str = "p-0") -> Account:
    member = SimpleNamespace(tier=tier, pod=pod)
    return SimpleNamespace(unit=SimpleNamespace(member=member), whole=np.array(hours))  # type: ignore[return-value]


RESERVED = PricesSection(
    overhead=2.0, tiers={"h100-80": TierPrice(3.0, reserved=2.0, committed_gpus=4, spot=1.0), "l4": TierPrice(0.5)}
)


def test_the_first_committed_gpus_are_at_the_reserved_price_and_the_rest_on_demand():
    """Slots of an hour with 2, 4 and 8 GPUs in use, of which 4 are committed."""
    several = [_account("h100-80", [1.0, 2.0, 6.0]), _account("h100-80", [1.0, 2.0, 2.0])]
    rates = slot_rates(RESERVED, (), several, 3, 3_600_000)
    money = rates.of(several[0])
    assert money is not None and money.tolist() == pytest.approx([4.0, 4.0, 5.0])
    paid = sum(float((one.whole * rates.of(one)).sum()) for one in several)
    assert paid == pytest.approx(2.0 * (2 * 2 + 4 * 2 + 4 * 2 + 4 * 3))
    assert rates.unused["h100-80"] == (2.0, 2.0 * 2 * 2)
    assert rates.of(_account("l4", [1.0])).tolist() == [1.0] * 3 and rates.of(_account("b200", [1.0])) is None


def test_spot_pods_pay_the_spot_price_and_take_no_reserved_gpu():
    """8 GPUs, half of them spot: the other 4 fill the commitment."""
    pods = [PodSection(pod="cheap-.*", spot=True)]
    several = [_account("h100-80", [4.0], "cheap-0"), _account("h100-80", [4.0], "dear-0")]
    rates = slot_rates(RESERVED, pods, several, 1, 3_600_000)
    assert [float(rates.of(one)[0]) for one in several] == [2.0, 4.0] and rates.unused["h100-80"] == (0.0, 0.0)
    lacking = slot_rates(RESERVED, pods, [_account("l4", [1.0], "cheap-1")], 1, 3_600_000)
    assert lacking.of(_account("l4", [1.0], "cheap-1")) is None and lacking.lacks_spot(_account("l4", [1.0], "cheap-1"))


def test_a_reserved_gpu_that_costs_more_than_one_on_demand_is_refused():
    with pytest.raises(ValueError, match="more than on_demand"):
        TierPrice(2.0, reserved=2.5, committed_gpus=1)


@pytest.mark.parametrize("wrong", [{"reserved": 1.0}, {"committed_gpus": 2}, {"reserved": 1.0, "committed_gpus": 0}])
def test_a_reserved_price_and_how_many_it_is_for_belong_together(wrong):
    with pytest.raises(msgspec.ValidationError, match="committed_gpus"):
        msgspec.convert({"tiers": {"l4": {"on_demand": 2.0, **wrong}}}, PricesSection)
