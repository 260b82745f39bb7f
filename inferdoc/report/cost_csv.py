"""A bill as CSV: a line for each row, by day and pool where the window has several days."""

from __future__ import annotations

import csv
import io

from inferdoc.cost.model import Amount, Bill, BillRow


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
