"""What a GPU-hour costs, and what the prices of a configuration leave open."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from inferdoc.capacity.service_level import kwh_per_million_tokens, tokens_per_joule
from inferdoc.catalogue.document import nearest
from inferdoc.config_sections import PricesSection, TierPrice
from inferdoc.cost.model import Amount, Energy
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import UNKNOWN_TIER

JOULES_PER_KWH = 3.6e6
EXAMPLE_TIER = "h100-80"
HOW = "[prices.tiers.{}] on_demand = ... in inferdoc.toml"


def priced(prices: PricesSection, given: str | None, known: Collection[str]) -> PricesSection:
    """The prices with those of an option laid over them. given: TIER=MONEY,.. of a GPU-hour. Raises InferdocError."""
    found = dict(prices.tiers)
    for part in given.split(",") if given else ():
        tier, _, money = part.strip().partition("=")
        if tier not in known:
            raise InferdocError(f'--price {given}: no tier "{tier}"{nearest(tier, known)}')
        try:
            found[tier] = TierPrice(on_demand=float(money))
        except ValueError:
            raise InferdocError(f"--price {given}: expected money of a GPU-hour by tier: {tier}=2.95") from None
    return replace(prices, tiers=found)


def per_million(amount: Amount, tokens: float) -> Amount | None:
    """What a million tokens cost; None without any."""
    return each(amount, tokens / 1e6)


def each(amount: Amount, number: float) -> Amount | None:
    """What one of so many costs; None of none."""
    if number <= 0:
        return None
    return Amount(amount.gpu_hours / number, None if amount.money is None else amount.money / number)


def energy_of(joules: float, tokens: float) -> Energy:
    """What GPUs drew for so many output tokens."""
    kwh = joules / JOULES_PER_KWH
    if tokens <= 0 or joules <= 0:
        return Energy(kwh, None, None)
    return Energy(kwh, tokens_per_joule(tokens, joules), kwh_per_million_tokens(tokens, joules))


def price_notes(prices: PricesSection, used: Mapping[str, float], known: Collection[str]) -> Iterator[str]:
    """A line for each tier that costs GPU-hours and has no price, and for each price of a tier that does not exist.
    used: GPU-hours by tier; known: tiers of the catalogue."""
    unpriced = [tier for tier, hours in used.items() if hours > 0 and tier not in prices.tiers]
    if UNKNOWN_TIER in unpriced:
        what = "nothing shows the hardware tier of some pods, so they have no price"
        yield f"{what}; set tier under [[pods]] in inferdoc.toml"
        unpriced.remove(UNKNOWN_TIER)
    if not prices.tiers:
        first = unpriced[0] if unpriced else EXAMPLE_TIER
        yield f"no price: figures are GPU-hours; for money set {HOW.format(first)}"
    else:
        for tier in unpriced:
            what = f"no price of tier {tier}: its figures are GPU-hours, and sums over it have no money"
            yield f"{what}; set {HOW.format(tier)}"
    for tier in prices.tiers:
        if tier not in known and tier not in used:
            yield f"[prices.tiers.{tier}]: no such tier, its price is not used{nearest(tier, known)}"
