"""From what a user asked for to a bill."""

from __future__ import annotations

from typing import Any

from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.cost.bill import bill_of
from inferdoc.cost.model import Bill
from inferdoc.cost.reading import pieces
from inferdoc.source.identified import Identified


def billed(source: Identified, config: Config, catalogue: Catalogue, asked: dict[str, Any]) -> Bill:
    """The bill as asked. asked: the values of the command's options by name. Raises SourceError where the source cannot
    be read, or holds no engine in the stretch."""
    found = list(pieces(source, config, catalogue, asked))
    return bill_of(found, asked.get("by") or "pool", config.prices, catalogue, source.location)
