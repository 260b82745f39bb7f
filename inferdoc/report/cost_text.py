"""A bill on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from inferdoc.cost.model import Bill, BillRow
from inferdoc.report.brief import clock
from inferdoc.report.cost_words import (
    FIGURES,
    amount_words,
    cascade_words,
    cheaper_words,
    counted_words,
    energy_words,
    figure_of,
    good_words,
    hours_words,
    share_words,
)
from inferdoc.report.wrapping import fitted, painted, width, wrap
from inferdoc.times import moment_ms
from inferdoc.words import lasting

TITLE, NAME, CELL = 42, 32, 12
"""Columns for the title of a part, for the name of a row where there is room, and for a figure in it: lines of at most
100."""


def cost_text(bill: Bill, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for the width of the terminal; colour only if set."""

    def bold(words: str) -> str:
        return click.style(words, bold=True) if colour else words

    whole, currency = bill.whole, bill.currency
    seconds = (moment_ms(bill.until, None) - moment_ms(bill.from_, None)) / 1000
    head = amount_words(whole.whole, currency)
    hours = "" if whole.whole.money is None else f" ({hours_words(whole.whole.gpu_hours)})"
    span = f"{clock(bill.from_)} to {clock(bill.until)} ({lasting(seconds)})"
    lines = [
        *painted(wrap(f"{bill.source}  {span}", "COST  "), "COST", bold("COST")),
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
