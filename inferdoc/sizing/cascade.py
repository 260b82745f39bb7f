"""A cascade of two models: a small one answers every request, a large one those that are escalated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from inferdoc.catalogue.load import Catalogue
from inferdoc.config_sections import PricesSection
from inferdoc.errors import InferdocError
from inferdoc.sizing.decision import decided, ranked, undominated
from inferdoc.sizing.decision_model import (
    CASCADE,
    DecisionAnswer,
    DecisionRow,
    money_words,
    placed,
    reasons_of,
    summary,
)
from inferdoc.words import figure

MOST_STAGES = 8
"""Ways of each model that are combined."""


def cascaded(params: Mapping[str, Any], catalogue: Catalogue, prices: PricesSection) -> DecisionAnswer:
    """The decision for --model before --escalate-to, beside --escalate-to alone. Raises InferdocError."""
    small, share, rate = _checked(params)
    whole = {key: value for key, value in params.items() if key not in ("escalate_to", "escalated")}
    large = {**whole, "model": params["escalate_to"]}
    first = decided(small, catalogue, prices)
    second = decided({**large, "rate": rate * share}, catalogue, prices)
    alone = decided(large, catalogue, prices)
    pairs = [_pair(one, two, share) for one in first.rows[:MOST_STAGES] for two in second.rows[:MOST_STAGES]]
    single = [replace(row, layout=f"{alone.model} alone {row.layout}") for row in alone.rows]
    rows = ranked([*pairs, *single])
    rows = [replace(row, pareto=undominated(row, rows)) for row in rows]
    name = f"{first.model}, {share:.0%} escalated to {alone.model}"
    return replace(
        first,
        model=name,
        sorted_by="month" if rows[0].month is not None else "gpus",
        summary=summary(rows[0], prices.currency),
        because=[
            *reasons_of(rows, prices.currency),
            (
                f"{alone.model} alone: {money_words(alone.rows[0], prices.currency)}, "
                f"{figure(alone.rows[0].request, 's')} for a mean request"
            ),
        ],
        rows=rows,
        rejected=[],
        assumed=list(dict.fromkeys([*first.assumed, *second.assumed])),
        notes=[
            (
                "each model of a cascade keeps the objectives; the TTFT is that of an escalated request: the whole "
                "answer of the small model, then the TTFT of the large one"
            ),
            *first.notes,
        ],
    )


def _checked(params: Mapping[str, Any]) -> tuple[dict[str, Any], float, float]:
    share, rate = params.get("escalated"), params.get("rate")
    if share is None or not 0 < share < 1:
        raise InferdocError(f"--escalated {share}: expected the share of requests that the large model gets, as 0.2")
    if rate is None:
        raise InferdocError("--escalate-to needs --rate: the share is of requests that arrive")
    if params.get("classes"):
        raise InferdocError("--escalate-to and --class are mutually exclusive")
    return {key: value for key, value in params.items() if key not in ("escalate_to", "escalated")}, share, rate


def _pair(small: DecisionRow, large: DecisionRow, share: float) -> DecisionRow:
    """Both models as one way. share: of the requests that are escalated."""
    ttft = _sum(small.request, large.ttft_p95)
    return DecisionRow(
        small.tier if small.tier == large.tier else f"{small.tier} + {large.tier}",
        small.dtype if small.dtype == large.dtype else f"{small.dtype} + {large.dtype}",
        small.kv_dtype if small.kv_dtype == large.kv_dtype else f"{small.kv_dtype} + {large.kv_dtype}",
        CASCADE,
        f"{placed(small)} + {placed(large)}",
        [*small.replicas, *large.replicas],
        _total((small.gpus, large.gpus)),
        _total((small.gpus_low, large.gpus_low)),
        _total((small.gpus_high, large.gpus_high)),
        _sum(small.month, large.month),
        _million(small, large, share),
        ttft,
        max(small.itl or 0.0, large.itl or 0.0),
        None if small.request is None or large.request is None else small.request + share * large.request,
        min(small.headroom or 0.0, large.headroom or 0.0),
        small.bound if (small.headroom or 0.0) <= (large.headroom or 0.0) else large.bound,
    )


def _million(small: DecisionRow, large: DecisionRow, share: float) -> float | None:
    """Money of a million output tokens that users keep: as many as the small model makes."""
    if small.million is None or large.million is None:
        return None
    return small.million + share * large.million


def _sum(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else one + two


def _total(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(each or 0 for each in counts)
