"""The decision between tiers, precisions and layouts as a document and in words: `inferdoc.decision/v1`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from inferdoc.json_document import JsonDocument
from inferdoc.sizing.inputs import Parallelism, SizingInputs
from inferdoc.words import figure, how_many

SIXTEEN_BITS = ("bf16", "fp16")
LEAST_LESS = 0.005
"""Share of the cost below which two ways cost the same."""


def layout_words(sizing: SizingInputs, layout: Parallelism) -> str:
    """TP, PP and DP, and EP where experts are spread over ranks."""
    ep = f" EP {layout.tensor * layout.data}" if sizing.shape.experts and layout.data > 1 else ""
    return f"{layout}{ep}"


def load_words(sizing: SizingInputs) -> str:
    """The load of a sizing."""
    traffic = sizing.traffic
    if traffic.rate is not None:
        load = f"{figure(traffic.rate, '1/s')} at the peak"
    else:
        load = f"{how_many(traffic.concurrent or 1, 'request')} at once"
    return f"{load}, {traffic.prompt.mean:,.0f} prompt and {traffic.output.mean:,.0f} output tokens"


def money_words(row: DecisionRow, currency: str) -> str:
    """A month of a row; GPUs alone where it has no price."""
    if row.month is None:
        return how_many(row.gpus or 0, "GPU")
    return f"{row.month:,.0f} {currency} a month, {how_many(row.gpus or 0, 'GPU')}"


def placed(row: DecisionRow) -> str:
    """Replicas and layout of a row; of several pools the layout names those of each."""
    return f"{row.replicas[0]} x {row.layout}" if row.mode == AGGREGATED else row.layout


def row_words(row: DecisionRow) -> str:
    """Tier, precision, mode and layout of a row."""
    return f"{row.tier}, weights {row.dtype}, KV {row.kv_dtype}, {row.mode}, {placed(row)}"


def summary(row: DecisionRow, currency: str) -> str:
    """The row that is taken, in one line."""
    return f"{row_words(row)}: {money_words(row, currency)}"


def reasons_of(rows: Sequence[DecisionRow], currency: str) -> Iterator[str]:
    """Why the first of the sorted rows is taken, and what stands next to it."""
    best = rows[0]
    unit = "lowest cost" if best.month is not None else "fewest GPUs"
    yield f"{unit} of {len(rows)} ways that serve the load within the objectives; {best.bound} binds at full load"
    other = next((row for row in rows if row.tier != best.tier), None)
    if other is not None and (other.month is None) == (best.month is None):
        less = 1.0 - cost_of(best) / cost_of(other)
        words = f"the first takes {figure(less, 'ratio')} less" if less >= LEAST_LESS else "at the same cost"
        yield f"next tier: {row_words(other)}, {money_words(other, currency)}; {words}"
    faster = min((row for row in rows if row.request is not None), key=lambda row: row.request or 0.0, default=None)
    if faster is not None and faster is not best and best.request is not None:
        times = f"{figure(faster.request, 's')} instead of {figure(best.request, 's')}"
        yield f"fastest: {row_words(faster)}, {times} for a mean request, {money_words(faster, currency)}"
    if best.batch is not None:
        yield f"the off-peak batch job takes {best.batch / 3600:.1f} h on these replicas, beside the load of the window"
    if best.gpus_low != best.gpus_high:
        high = "no number keeps the objectives" if best.gpus_high is None else how_many(best.gpus_high, "GPU")
        yield f"range of the prediction: {how_many(best.gpus_low or 0, 'GPU')} at the fast end, {high} at the slow end"


def notes(rows: Sequence[DecisionRow], sizing: SizingInputs) -> Iterator[str]:
    """What a reader has to know about the rows before a change."""
    unpriced = sorted({row.tier for row in rows if row.month is None})
    if unpriced:
        behind = "listed by GPUs" if len(unpriced) == len({row.tier for row in rows}) else "listed behind the others"
        yield (
            f"no price of {', '.join(unpriced)}: {behind}; give --price {unpriced[0]}=2.95 or "
            f"[prices.tiers.{unpriced[0]}] in inferdoc.toml"
        )
    if any(row.dtype == "fp8" for row in rows) and sizing.dtype in SIXTEEN_BITS:
        yield "a row with FP8 weights needs an FP8 checkpoint of the model; evaluate its answers first"
    if any(row.mode == APART for row in rows):
        yield "P/D is predicted, not measured: try it with some 100 sessions or more before a change"


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


class DecisionAnswer(JsonDocument):
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


def cost_of(row: DecisionRow) -> float:
    """Money of a month, GPUs where there is no price."""
    return row.month if row.month is not None else float(row.gpus or 0)
