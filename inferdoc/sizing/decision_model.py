"""The decision between tiers, precisions and layouts as a document: `inferdoc.decision/v1`."""

from __future__ import annotations

import msgspec

DECISION_SCHEMA_ID = "inferdoc.decision/v1"
AGGREGATED, APART, BY_CLASS, CASCADE = "aggregated", "P/D", "pool per class", "cascade"


class DecisionRow(msgspec.Struct):
    """One way to serve the load.

    mode: "aggregated", "P/D", "pool per class" or "cascade"; replicas: of each pool; gpus_low,
    gpus_high: at the fast and at the slow end of the ranges, None where the slow end keeps no objective; month,
    million: money of a month and of a million output tokens, None without a price; ttft_p95, itl, request: seconds,
    the last of a mean request from start to end; headroom: share of load that could come on top; bound: what binds
    then; batch: seconds that the off-peak job takes, None without one; pareto: whether no other row is both cheaper and
    faster; why: what keeps it from being taken, "" for one that may.
    """

    tier: str
    dtype: str
    kv_dtype: str
    mode: str
    layout: str
    replicas: list[int] = []
    gpus: int | None = None
    gpus_low: int | None = None
    gpus_high: int | None = None
    month: float | None = None
    million: float | None = None
    ttft_p95: float | None = None
    itl: float | None = None
    request: float | None = None
    headroom: float | None = None
    bound: str = ""
    batch: float | None = None
    pareto: bool = False
    why: str = ""


class DecisionAnswer(msgspec.Struct):
    """rows: those that may be taken, best first; rejected: the others with their reason. because: why the first is
    taken; sorted_by: "month" or "gpus"."""

    schema: str
    inferdoc_version: str
    model: str
    load: str
    ttft: float | None
    itl: float | None
    currency: str
    sorted_by: str
    summary: str
    because: list[str]
    rows: list[DecisionRow]
    rejected: list[DecisionRow]
    assumed: list[str]
    notes: list[str]

    def to_json(self) -> str:
        """The document as indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


def cost_of(row: DecisionRow) -> float:
    """Money of a month, GPUs where there is no price."""
    return row.month if row.month is not None else float(row.gpus or 0)
