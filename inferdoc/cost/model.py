"""A bill as a document: `inferdoc.cost/v1`. GPU-hours everywhere; money where the tier has a price."""

from __future__ import annotations

from typing import Literal

import msgspec

from inferdoc.json_document import JsonDocument
from inferdoc.slo.model import Bounds

SCHEMA_ID = "inferdoc.cost/v1"
By = Literal["pool", "model", "tier", "tenant", "hour", "day"]


class Amount(msgspec.Struct, frozen=True):
    """gpu_hours; money: in the currency of the document, None where a tier in it has no price."""

    gpu_hours: float
    money: float | None


class Spent(msgspec.Struct, frozen=True):
    """One part of the whole. cause: `useful`, or why it is waste; title: in words; bound: "at most" or "at least"."""

    cause: str
    title: str
    amount: Amount
    bound: str | None = None


class Figures(msgspec.Struct, frozen=True):
    """What things cost, each None where nothing counts them. input, output: a million tokens of either, of its own
    share of the GPU time; generated: a million output tokens with all of the cost; request: one that was served;
    good_request: one within the objectives, at least and at most (highest where the fewest are proven)."""

    input: Amount | None
    output: Amount | None
    generated: Amount | None
    request: Amount | None
    good_request: tuple[Amount, Amount] | None


class Energy(msgspec.Struct, frozen=True):
    """Of the GPUs alone, as their exporter counts it. tokens_per_joule, kwh_per_million: of output tokens, None without
    any."""

    kwh: float
    tokens_per_joule: float | None
    kwh_per_million: float | None


class BillRow(msgspec.Struct, frozen=True):
    """One pool, model, tier, tenant, hour or day. parts: add up to `whole`, as do prompts, outputs and undivided (time
    of engines that did nothing, or of which nothing shows what they did); good: requests within the objectives; energy:
    None where a GPU in it has no exporter."""

    name: str
    whole: Amount
    parts: list[Spent]
    prompts: Amount
    outputs: Amount
    undivided: Amount
    prompt_tokens: float
    output_tokens: float
    requests: float
    good: Bounds | None
    figures: Figures
    energy: Energy | None
    day: str | None = None

    @property
    def wasted(self) -> list[Spent]:
        """Its waste, highest cost first; causes that cost nothing are left out."""
        return sorted(
            (part for part in self.parts if part.cause != "useful" and part.amount.gpu_hours > 0),
            key=lambda part: -part.amount.gpu_hours,
        )


class Priced(msgspec.Struct, frozen=True):
    """What a GPU-hour of a tier costs with the overhead on top (where some are reserved or spot: what it came to), and
    how many were used; None without a price."""

    tier: str
    per_gpu_hour: float | None
    gpu_hours: float


class CheaperTier(msgspec.Struct, frozen=True):
    """A pool whose useful work another tier would do for less. share: of what it costs now, at most; money: of it, for
    the window of the bill."""

    pool: str
    tier: str
    cheaper: str
    share: float
    money: float


class CascadeSummary(msgspec.Struct, frozen=True):
    """Two models and what a request costs in money: on either; routed: where a share of them goes to the small one and
    the others to the large one; handed_on: where the small one sees all and hands the others on."""

    small: str
    large: str
    share: float
    on_small: float
    on_large: float
    routed: float
    handed_on: float


class Ground(msgspec.Struct, frozen=True):
    """What stands behind a figure."""

    what: str
    formula: str
    source: str


class Bill(JsonDocument, rename={"schema_": "schema", "from_": "from"}):
    """Everything. pue, kwh: of energy, as configured; by: what a row is; rows: highest cost first, or in time order;
    days: the same by day and pool, where the interval has several; cheaper: pools for which another tier is better;
    notes: what a reader must know, a line each; grounds: formulas and series; cascade: of two models, where
    requested."""

    schema_: str
    inferdoc_version: str
    source: str
    from_: str
    until: str
    by: By
    currency: str | None
    overhead: float
    pue: float
    kwh: float | None
    tiers: list[Priced]
    whole: BillRow
    rows: list[BillRow]
    days: list[BillRow]
    cheaper: list[CheaperTier]
    notes: list[str]
    grounds: list[Ground]
    cascade: CascadeSummary | None = None
