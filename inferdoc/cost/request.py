"""From what a user asked for to a bill."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.cost.bill import bill_of
from inferdoc.cost.cascade import FORMULA, SOURCE, cascade_told
from inferdoc.cost.model import Bill, Ground
from inferdoc.cost.reading import pieces
from inferdoc.errors import InferdocError
from inferdoc.source.base import incomplete
from inferdoc.source.identified import Identified


def billed(source: Identified, config: Config, catalogue: Catalogue, asked: dict[str, Any]) -> Bill:
    """The bill as asked. asked: the values of the command's options by name. Raises SourceError where the source cannot
    be read, or holds no engine in the stretch, InferdocError for a cascade of fewer than two models."""
    share, by = asked.get("cascade"), asked.get("by")
    if share is not None and by != "model":
        raise InferdocError("--cascade compares models: give --by model")
    found = list(pieces(source, config, catalogue, asked))
    bill = bill_of(found, by or "pool", config.prices, catalogue, source.location)
    bill = replace(bill, notes=[*(f"incomplete: {line}" for line in incomplete(source.warnings)), *bill.notes])
    if share is None:
        return bill
    ground = Ground("cascade", FORMULA, SOURCE)
    return replace(bill, cascade=cascade_told(bill.rows, share), grounds=[*bill.grounds, ground])
