"""A sizing as a document: `inferdoc.size/v1`. Every number has a unit, a range, a formula, its inputs and a source."""

from __future__ import annotations

import msgspec

from inferdoc.json_document import JsonDocument

SIZE_SCHEMA_ID = "inferdoc.size/v1"


class Predicted(msgspec.Struct):
    """One number. low, high: the range, from the ranges of what it rests on; equal to value where that is exact; None
    where there is no bound (a queue that only grows). assumed: it rests on something that nobody gave or measured."""

    name: str
    title: str
    value: float | None
    low: float
    high: float | None
    unit: str
    formula: str
    inputs: dict[str, str]
    source: str
    assumed: bool = False


class SizedPart(msgspec.Struct):
    """Numbers of one kind under one heading."""

    title: str
    numbers: list[Predicted]


class LayoutLooked(msgspec.Struct):
    """One layout that was looked at. why: what keeps it from being taken, "" for the one that is."""

    layout: str
    gpus: int
    fits: bool
    kv_tokens: int
    per_replica: float | None
    replicas: int | None
    why: str


class SizeAnswer(JsonDocument):
    """What a model needs on a tier. assumed: what nobody gave; notes: what to know before using the numbers."""

    schema: str
    model: str
    dtype: str
    kv_dtype: str
    tier: str
    layout: str
    gpus_per_replica: int
    replicas: int | None
    gpus: int
    rate: float | None
    summary: str
    parts: list[SizedPart]
    layouts: list[LayoutLooked]
    assumed: list[str]
    notes: list[str]

    def part(self, title: str) -> SizedPart:
        """The part with this heading."""
        return next(each for each in self.parts if each.title == title)
