"""What requests would cost if the cheapest model of a fleet answered some of them: a router that sends them apart, or a
cascade in which the cheap model sees each request and hands on what it cannot do."""

from __future__ import annotations

from collections.abc import Sequence

from inferdoc.capacity.economics import escalated_price, routed_price
from inferdoc.cost.model import BillRow, CascadeTold
from inferdoc.errors import InferdocError

FORMULA = (
    "routed: share x small + (1 - share) x large; handed on: small + (1 - share) x large, since the small model sees "
    "every request; small and large: the cheapest and the dearest model by a request that was served"
)
SOURCE = "figures of the rows; requests are taken to be alike on both"


def cascade_told(rows: Sequence[BillRow], share: float) -> CascadeTold:
    """Of the cheapest and the dearest row. share: of the requests that the cheapest one would answer. Raises
    InferdocError where fewer than two have a price of a request."""
    if not 0 < share < 1:
        raise InferdocError(f"--cascade {share:g}: expected a share above 0 and below 1, 0.7 for 70 %")
    priced = [
        (row.figures.request.money, row)
        for row in rows
        if row.figures.request is not None and row.figures.request.money is not None
    ]
    if len(priced) < 2:
        raise InferdocError(
            "--cascade: two models with requests and a price are needed; set [prices.tiers] in inferdoc.toml"
        )
    (small, cheapest), (large, dearest) = (of(priced, key=lambda each: each[0]) for of in (min, max))
    return CascadeTold(
        cheapest.name,
        dearest.name,
        share,
        small,
        large,
        routed_price(share, small, large),
        escalated_price(1.0 - share, small, large),
    )
