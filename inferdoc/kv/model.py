"""KV economics as a document: `inferdoc.kv/v1`. Every number has a unit, a range, a formula, inputs and a source."""

from __future__ import annotations

import msgspec

from inferdoc.json_document import JsonDocument
from inferdoc.sizing.model import SizedPart

KV_SCHEMA_ID = "inferdoc.kv/v1"
SIZES_TITLE = "prompt tokens that would hit"
"""Heading of the hits of other sizes."""


class CurvePoint(msgspec.Struct):
    """Hits (share of the prompt tokens) with so many times the KV cache of now, and their range; life: seconds that an
    unused block lives there."""

    memory: float
    hits: float
    low: float
    high: float
    life: float


class MeasuredHits(msgspec.Struct):
    """One pod over one interval. life: seconds that an unused block lived; hits: share of the prompt tokens."""

    life: float
    hits: float


class KvAnswer(JsonDocument, rename={"undetermined": "cannot_tell"}):
    """What the prefix cache of a pool gives, and what another would. curve: empty where nothing shows it; undetermined:
    one line each, with what to do; notes: what to know before using the numbers."""

    schema: str
    inferdoc_version: str
    pool: str
    model: str
    tier: str
    pods: int
    hours: float
    summary: str
    parts: list[SizedPart]
    curve: list[CurvePoint]
    measured: list[MeasuredHits]
    undetermined: list[str]
    notes: list[str]

    @property
    def other_sizes(self) -> bool:
        """Whether hits of any other size are known."""
        return any(part.title == SIZES_TITLE for part in self.parts)
