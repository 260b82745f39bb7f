"""Export a bill as CSV or OpenMetrics."""

from __future__ import annotations

import csv
import io
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


def cost_csv(bill: Bill) -> str:
    """Numbers are exact; units stand in the heads. Money is empty where a tier has no price, a figure where nothing
    counts what it is of."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    causes = [part.cause for part in bill.whole.parts]
    heads = ["by", "day", "name", "gpu_hours", "money", "currency"]
    heads += [f"{cause}_{unit}" for cause in causes for unit in ("gpu_hours", "money")]
    heads += ["input_tokens", "output_tokens", "requests"]
    heads += [f"{name}_{unit}" for name in _OF for unit in ("gpu_hours", "money")]
    writer.writerow(heads)
    for row in bill.rows:
        writer.writerow(_cells(bill, bill.by, row))
    for row in bill.days:
        writer.writerow(_cells(bill, "day and pool", row))
    return out.getvalue()


_OF = ("per_million_input", "per_million_output", "per_million_output_all_in", "per_request")


def _cells(bill: Bill, by: str, row: BillRow) -> list[str | float]:
    figures = row.figures
    amounts = [figures.input, figures.output, figures.generated, figures.request]
    cells: list[str | float] = [by, row.day or "", row.name, *_pair(row.whole), bill.currency or ""]
    for part in row.parts:
        cells += _pair(part.amount)
    cells += [row.prompt_tokens, row.output_tokens, row.requests]
    for amount in amounts:
        cells += _pair(amount)
    return cells


def _pair(amount: Amount | None) -> list[str | float]:
    if amount is None:
        return ["", ""]
    return [amount.gpu_hours, "" if amount.money is None else amount.money]
