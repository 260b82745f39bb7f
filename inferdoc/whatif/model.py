"""What would be otherwise, as a document: `inferdoc.whatif/v1`. Every number has a unit, a band, a formula and a
source."""

from __future__ import annotations

from typing import Literal

import msgspec

from inferdoc.json_document import JsonDocument

Move = Literal["better", "worse", "same"]
SAME = 0.05
"""A move that is smaller is none."""
WHATIF_SCHEMA_ID = "inferdoc.whatif/v1"


class Banded(msgspec.Struct):
    """A value, and where it lies with 90 %; equal ends where it is exact."""

    value: float
    low: float
    high: float


class WhatIfRow(msgspec.Struct):
    """One quantity now and after the change. change: after over now, less 1; None where now is 0; move: whether users
    are better off, "" where a quantity is neither."""

    name: str
    title: str
    unit: str
    now: Banded
    then: Banded
    change: float | None
    move: Move | Literal[""]
    formula: str
    inputs: dict[str, str]
    source: str


class HoldoutRow(msgspec.Struct):
    """One quantity of the second half of the history: as plays of the first half predict it, and as it was. error:
    predicted over measured, less 1; None where one of them is 0."""

    name: str
    title: str
    unit: str
    predicted: float
    measured: float
    error: float | None


class WhatIfAnswer(JsonDocument, rename={"holdout": "held"}):
    """changes: settings by key, as given; minutes: of the history; guesses: what lies outside of what was measured, so
    that bands are guesses; assumed: what nobody gave; notes: what to know before using the numbers."""

    schema: str
    inferdoc_version: str
    pool: str
    model: str
    tier: str
    replicas: int
    minutes: float
    changes: dict[str, str]
    summary: str
    rows: list[WhatIfRow]
    holdout: list[HoldoutRow]
    machine: dict[str, float]
    guesses: list[str]
    assumed: list[str]
    notes: list[str]

    def row(self, name: str) -> WhatIfRow:
        """One quantity."""
        return next(each for each in self.rows if each.name == name)
