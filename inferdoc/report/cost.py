"""A bill for a terminal, as CSV and as metrics."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.cost.model import Amount, Bill, BillRow, CascadeSummary, CheaperTier, Energy, Figures
from inferdoc.report.brief import clock
from inferdoc.report.wrapping import fitted, headline, width, wrap
from inferdoc.times import moment_ms
from inferdoc.words import lasting

FIGURES = (
    ("input", "a million input tokens"),
    ("output", "a million output tokens"),
    ("generated", "a million output tokens, all in"),
    ("request", "a thousand requests"),
)
WHOLE = 10_000
"""From this value on, only whole units are printed."""


def hours_words(hours: float) -> str:
    """GPU-hours: "23,456 GPU-h", "12.4 GPU-h", "0.0031 GPU-h"."""
    if hours >= WHOLE:
        return f"{hours:,.0f} GPU-h"
    return f"{hours:,.1f} GPU-h" if hours >= 100 else f"{hours:.3g} GPU-h"


def money_words(money: float, currency: str) -> str:
    """Money: "23,456 USD", "1,204.50 USD", "0.00231 USD"."""
    if money >= WHOLE:
        return f"{money:,.0f} {currency}"
    return f"{money:,.2f} {currency}" if money >= 0.995 or money == 0 else f"{money:.3g} {currency}"


def amount_words(amount: Amount | None, currency: str | None) -> str:
    """Money where there is a price, else GPU-hours; "-" without data."""
    if amount is None:
        return "-"
    if amount.money is None or currency is None:
        return hours_words(amount.gpu_hours)
    return money_words(amount.money, currency)


def times(amount: Amount | None, number: float) -> Amount | None:
    """So many times an amount."""
    if amount is None:
        return None
    return Amount(amount.gpu_hours * number, None if amount.money is None else amount.money * number)


def figure_of(figures: Figures, name: str) -> Amount | None:
    """A figure as it is shown: of a thousand requests, else of a million tokens."""
    amount: Amount | None = getattr(figures, name)
    return times(amount, 1000) if name == "request" else amount


def good_words(figures: Figures, currency: str | None) -> str:
    """A thousand requests within the objectives: "0.31 USD", or "0.31 USD to 0.35 USD" where buckets leave it open."""
    if figures.good_request is None:
        return "-"
    low, high = (amount_words(times(one, 1000), currency) for one in figures.good_request)
    return low if low == high else f"{low} to {high}"


def energy_words(energy: Energy | None, bill: Bill) -> str | None:
    """ "1.32 kWh drawn by the GPUs, 1.53 output tokens a joule, 0.182 kWh per million output tokens"; with what the
    site drew and paid if the bill has its PUE and its price of a kWh."""
    if energy is None:
        return None
    parts = [f"{energy.kwh:.3g} kWh drawn by the GPUs"]
    at_meter = energy.kwh * bill.pue
    if bill.pue > 1:
        parts.append(f"{at_meter:.3g} kWh at the meter (PUE {bill.pue:g})")
    if bill.kwh is not None:
        parts.append(f"{at_meter * bill.kwh:,.2f} {bill.currency} for it on top")
    if energy.tokens_per_joule is not None and energy.kwh_per_million is not None:
        parts.append(f"{energy.tokens_per_joule:.3g} output tokens a joule")
        parts.append(f"{energy.kwh_per_million:.3g} kWh per million output tokens")
    return ", ".join(parts)


def cheaper_words(one: CheaperTier, currency: str | None) -> str:
    """Another tier for a pool: "llm m: on l40s instead of h100-80 its useful work would cost up to 1.20 USD (26 %)
    less"."""
    money = f"up to {money_words(one.money, currency or '')} ({100 * one.share:.0f} %) less"
    return f"{one.pool}: on {one.cheaper} instead of {one.tier} its useful work would cost {money}"


def cascade_words(one: CascadeSummary, currency: str | None) -> str:
    """A router or a cascade of two models."""
    money = [
        money_words(1000 * each, currency or "") for each in (one.on_small, one.on_large, one.routed, one.handed_on)
    ]
    small, large, routed, handed_on = money
    return (
        f"a thousand requests: {small} on {one.small}, {large} on {one.large}; {routed} if a router sent "
        f"{100 * one.share:g} % of them to the first; {handed_on} if the first saw all and handed the others on"
    )


def counted_words(row: BillRow) -> str:
    """What the figures are over."""
    tokens = f"{row.prompt_tokens:,.0f} input tokens, {row.output_tokens:,.0f} output tokens"
    return f"{tokens}, {row.requests:,.0f} requests served"


def share_words(part: float, whole: float) -> str:
    """A share: "12.4 %"."""
    return f"{100 * part / whole:.1f} %" if whole > 0 else "-"


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


TITLE, NAME, CELL = 42, 32, 12
"""Columns for the title of a part, for the name of a row where there is room, and for a figure in it: lines of at most
100."""


def cost_text(bill: Bill, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for the width of the terminal; colour only if set."""

    whole, currency = bill.whole, bill.currency
    seconds = (moment_ms(bill.until, None) - moment_ms(bill.from_, None)) / 1000
    head = amount_words(whole.whole, currency)
    hours = "" if whole.whole.money is None else f" ({hours_words(whole.whole.gpu_hours)})"
    span = f"{clock(bill.from_)} to {clock(bill.until)} ({lasting(seconds)})"
    lines = [
        *headline("COST", f"{bill.source}  {span}", colour),
        f"{head}{hours}, of which {share_words(_useful(whole), whole.whole.gpu_hours)} useful",
        "",
        *_parts(whole, currency),
        "",
        *_figures(bill),
    ]
    if len(bill.rows) > 1 or bill.by != "pool":
        lines += ["", f"by {bill.by}", *_table(bill.rows, currency)]
    if bill.days:
        lines += ["", "by day and pool", *_table(bill.days, currency)]
    if verbose:
        lines += ["", *_grounds(bill)]
    if bill.notes:
        lines.append("")
        for note in bill.notes:
            lines += wrap(note, "note: ")
    return "\n".join(fitted(lines))


def _useful(row: BillRow) -> float:
    return sum(part.amount.gpu_hours for part in row.parts if part.cause == "useful")


def _parts(row: BillRow, currency: str | None) -> Iterator[str]:
    parts = [*(part for part in row.parts if part.cause == "useful"), *row.wasted]
    for part in parts:
        money = amount_words(part.amount, currency)
        hours = "" if part.amount.money is None else f"  {hours_words(part.amount.gpu_hours):>14}"
        share = share_words(part.amount.gpu_hours, row.whole.gpu_hours)
        bound = f"  {part.bound}" if part.bound else ""
        yield f"  {part.title:<{TITLE}} {money:>16}{hours}  {share:>7}{bound}"


def _figures(bill: Bill) -> Iterator[str]:
    row, currency = bill.whole, bill.currency
    for name, title in FIGURES:
        yield f"  {title:<{TITLE}} {amount_words(figure_of(row.figures, name), currency):>16}"
    yield f"  {'a thousand requests within the SLO':<{TITLE}} {good_words(row.figures, currency):>16}"
    yield f"  {counted_words(row)}"
    energy = energy_words(row.energy, bill)
    if energy is not None:
        yield from wrap(energy, "  ")
    for one in bill.cheaper:
        yield from wrap(cheaper_words(one, currency), "  ")
    if bill.cascade is not None:
        yield from wrap(cascade_words(bill.cascade, currency), "  ")


def _table(rows: Sequence[BillRow], currency: str | None) -> Iterator[str]:
    heads = ("cost", "wasted", "M input", "M output", "1000 req.")
    cells_wide = (1 + CELL) * len(heads)
    room = min(NAME, width() - len("  ") - cells_wide)
    yield f"  {'':<{room}}" + "".join(f" {head:>{CELL}}" for head in heads)
    day = None
    for row in rows:
        if row.day != day:
            day = row.day
            yield str(day)
        name = row.name
        if len(name) > room:
            yield from wrap(name, "  ")
            name = ""
        wasted = share_words(sum(part.amount.gpu_hours for part in row.wasted), row.whole.gpu_hours)
        cells = [amount_words(row.whole, currency), wasted]
        cells += [amount_words(figure_of(row.figures, one), currency) for one in ("input", "output", "request")]
        yield f"  {name:<{room}}" + "".join(f" {cell:>{CELL}}" for cell in cells)


def _grounds(bill: Bill) -> Iterator[str]:
    yield "worked out as"
    for ground in bill.grounds:
        yield from wrap(f"{ground.what}: {ground.formula} [{ground.source}]", "  ")
    for tier in bill.tiers:
        price = "no price" if tier.per_gpu_hour is None else f"{tier.per_gpu_hour:,.4g} {bill.currency} per GPU-hour"
        yield from wrap(f"{tier.tier}: {hours_words(tier.gpu_hours)} at {price} (overhead x {bill.overhead:g})", "  ")
