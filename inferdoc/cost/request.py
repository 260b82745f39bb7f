"""From the options of the command to a bill, and what a cascade would make of it: the cheapest model answers a share
of the requests, which a router sends to it, or sees all and hands on what it cannot do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from inferdoc.capacity.service_level import escalated_price, routed_price
from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.cost.bill import bill_of
from inferdoc.cost.model import Bill, BillRow, CascadeSummary, Ground
from inferdoc.cost.reading import pieces
from inferdoc.errors import InferdocError
from inferdoc.source.base import incomplete
from inferdoc.source.identified import Identified


def billed(source: Identified, config: Config, catalogue: Catalogue, params: dict[str, Any]) -> Bill:
    """The requested bill. params: the values of the command's options by name. Raises SourceError where the source
    cannot be read, or holds no engine in the interval, InferdocError for a cascade of fewer than two models."""
    share, by = params.get("cascade"), params.get("by")
    if share is not None and by != "model":
        raise InferdocError("--cascade compares models: give --by model")
    found = list(pieces(source, config, catalogue, params))
    bill = bill_of(found, by or "pool", config.prices, catalogue, source.location)
    bill = replace(bill, notes=[*(f"incomplete: {line}" for line in incomplete(source.warnings)), *bill.notes])
    if share is None:
        return bill
    ground = Ground("cascade", FORMULA, SOURCE)
    return replace(bill, cascade=cascade_summary(bill.rows, share), grounds=[*bill.grounds, ground])


FORMULA = (
    "routed: share x small + (1 - share) x large; handed on: small + (1 - share) x large, since the small model sees "
    "every request; small and large: the cheapest and the most expensive model by a request that was served"
)
SOURCE = "figures of the rows; requests are taken to be alike on both"


def cascade_summary(rows: Sequence[BillRow], share: float) -> CascadeSummary:
    """Of the cheapest and the most expensive row. share: of the requests that the cheapest one would answer. Raises
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
    (small, cheapest), (large, costliest) = (of(priced, key=lambda each: each[0]) for of in (min, max))
    return CascadeSummary(
        cheapest.name,
        costliest.name,
        share,
        small,
        large,
        routed_price(share, small, large),
        escalated_price(1.0 - share, small, large),
    )
