"""A bill as metrics, for the textfile collector of a node exporter."""

from __future__ import annotations

from collections.abc import Iterator

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.cost.model import Amount, Bill, BillRow
from inferdoc.times import moment_ms

TOKENS = {"input": "input", "output": "output", "output_all_in": "generated"}
"""Value of the label `tokens` -> figure of a bill."""


def cost_metrics(bill: Bill) -> str:
    """The rows of the bill in the classic text format. Money is left out where a tier has no price, a figure where
    nothing counts what it is of."""
    edges = {"from": bill.from_, "until": bill.until}
    return Families(load_catalogue().exporters["inferdoc"]).text(
        {
            "inferdoc_cost_gpu_hours": [
                ({"by": bill.by, "name": row.name, "part": part.cause}, part.amount.gpu_hours)
                for row in bill.rows
                for part in row.parts
            ],
            "inferdoc_cost_money": [
                cell
                for row in bill.rows
                for part in row.parts
                for cell in _money(bill, row, "part", part.cause, part.amount)
            ],
            "inferdoc_cost_per_million_tokens": [
                cell
                for row in bill.rows
                for tokens, figure in TOKENS.items()
                for cell in _money(bill, row, "tokens", tokens, getattr(row.figures, figure))
            ],
            "inferdoc_cost_per_request": [cell for row in bill.rows for cell in _requests(bill, row)],
            "inferdoc_cost_window_timestamp_seconds": [
                ({"edge": edge}, moment_ms(when, None) / 1000) for edge, when in edges.items()
            ],
        }
    )


def _requests(bill: Bill, row: BillRow) -> Iterator[Row]:
    yield from _money(bill, row, "request", "served", row.figures.request)
    low, high = row.figures.good_request or (None, None)
    yield from _money(bill, row, "request", "good_low", low)
    yield from _money(bill, row, "request", "good_high", high)


def _money(bill: Bill, row: BillRow, label: str, value: str, amount: Amount | None) -> Iterator[Row]:
    if amount is not None and amount.money is not None and bill.currency is not None:
        yield {"by": bill.by, "name": row.name, label: value, "currency": bill.currency}, amount.money
