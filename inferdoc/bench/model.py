"""What result files prove, as a document: `inferdoc.bench/v1`."""

from __future__ import annotations

import msgspec

from inferdoc.json_document import JsonDocument
from inferdoc.sizing.model import Predicted
from inferdoc.slo.model import Objective

BENCH_SCHEMA_ID = "inferdoc.bench/v1"


class LevelRow(msgspec.Struct, frozen=True, rename={"requested": "asked"}):
    """One level. requested: requests/s, or requests at a time, by `drive`; served: requests/s; seconds: of the
    measurement; latencies: signal -> seconds; within: whether it keeps all objectives that it has readings of, None
    where it has none; marks: what to know about it."""

    file: str
    drive: str
    requested: float | None
    served: float
    seconds: float
    completed: int
    failed: int
    prompt_tokens: float | None
    output_tokens: float | None
    latencies: dict[str, float]
    within: bool | None
    marks: list[str]


class BenchCurve(msgspec.Struct, frozen=True):
    """Levels that differ in their load alone. numbers: what they prove; notes: what to know before using them."""

    title: str
    settings: dict[str, str]
    levels: list[LevelRow]
    numbers: list[Predicted]
    notes: list[str]

    def number(self, name: str) -> Predicted | None:
        """One of the numbers."""
        return next((each for each in self.numbers if each.name == name), None)


class Beside(msgspec.Struct, frozen=True):
    """One quantity of both. ratio: production over benchmark; None where one is not known."""

    name: str
    title: str
    unit: str
    benchmark: float | None
    production: float | None
    ratio: float | None


class Reason(msgspec.Struct, frozen=True):
    """Why production differs. kind: lengths, prefix, flags, tier, model, failures or unexplained; times: by how much it
    moves the latency of `signal`, None where no formula says."""

    kind: str
    statement: str
    signal: str = ""
    times: float | None = None


class ProductionBeside(msgspec.Struct, frozen=True):
    """The pool beside the benchmark at one load. load: requests/s of a replica, None where production never was
    at a load of the benchmark; minutes: of production at that load, added up over pods."""

    pool: str
    load: float | None
    minutes: float
    rows: list[Beside]
    reasons: list[Reason]
    numbers: list[Predicted]
    notes: list[str]


class BenchAnswer(JsonDocument):
    """Everything. assumed: what nobody gave."""

    schema: str
    inferdoc_version: str
    model: str
    summary: str
    objectives: list[Objective]
    curves: list[BenchCurve]
    production: ProductionBeside | None
    assumed: list[str]
