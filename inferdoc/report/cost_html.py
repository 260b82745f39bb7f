"""A bill as one HTML file: no network, no script, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inferdoc.cost.model import Amount, Bill, BillRow
from inferdoc.escaping import html as escape
from inferdoc.report.cost import (
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
from inferdoc.report.html_finding import pairs, table, titled
from inferdoc.report.html_page import document
from inferdoc.report.html_scale import Scale, number
from inferdoc.report.html_timeline import day_and_clock, key

WIDTH, LABEL, BAR, GAP = 1080, 330, 18, 8
"""Of the drawn bars, in units of the picture: all, the names at their left, a bar, and what is between two."""
AMOUNT = 110
"""Room for the amount at the right of a bar."""


def cost_html(bill: Bill, *, verbose: bool = False) -> str:
    """A whole HTML document. Times are in UTC. verbose: also formulas and the series behind them."""
    whole, currency = bill.whole, bill.currency
    useful = sum(part.amount.gpu_hours for part in whole.parts if part.cause == "useful")
    title = f"{amount_words(whole.whole, currency)}, {share_words(useful, whole.whole.gpu_hours)} of it useful"
    facts = pairs(
        (
            ("window", f"{day_and_clock(bill.from_)} to {day_and_clock(bill.until)} UTC"),
            ("source", f"<code>{escape(bill.source)}</code>"),
            ("GPU time", escape(hours_words(whole.whole.gpu_hours))),
            ("prices", "; ".join(map(escape, _prices(bill)))),
        )
    )
    sections = [
        titled("parts", "Where it went", _key(whole) + _bars([whole], currency) + _parts(whole, currency)),
        titled("figures", "Costs", _figures(bill)),
    ]
    if len(bill.rows) > 1 or bill.by != "pool":
        rows = _bars(bill.rows, currency) + _table(bill.rows, currency)
        sections.append(titled("rows", f"By {bill.by}", rows))
    if bill.days:
        rows = _bars(bill.days, currency) + _table(bill.days, currency)
        sections.append(titled("days", "By day and pool", rows))
    if bill.notes:
        sections.append(titled("notes", "Notes", "".join(f"<p>{escape(note)}</p>" for note in bill.notes)))
    if verbose:
        cells = [map(escape, (one.what, one.formula, one.source)) for one in bill.grounds]
        sections.append(titled("grounds", "Worked out as", table(("figure", "formula", "series"), cells)))
    foot = f"<footer>inferdoc {escape(bill.inferdoc_version)}, {escape(bill.schema_)}. All times UTC.</footer>"
    body = f"<header><p class='soft'>Cost of the fleet</p><h1>{escape(title)}</h1>{facts}</header>"
    return document(title, body + "\n".join(sections) + foot, bill.inferdoc_version)


def _prices(bill: Bill) -> Iterable[str]:
    for tier in bill.tiers:
        money = "no price" if tier.per_gpu_hour is None else f"{tier.per_gpu_hour:,.4g} {bill.currency} a GPU-hour"
        yield f"{tier.tier} {money}"


def _key(row: BillRow) -> str:
    entries = [(f'<rect class="part-{part.cause}" width="26" height="12"/>', part.title) for part in row.parts]
    return key(entries, "".join(drawn for drawn, _ in entries))


def _bars(rows: Sequence[BillRow], currency: str | None) -> str:
    """A bar per row in the colours of its parts, as long as it cost: money where all rows have it, else GPU-hours."""
    priced = all(row.whole.money is not None for row in rows)

    def length(amount: Amount) -> float:
        return amount.money if priced and amount.money is not None else amount.gpu_hours

    most = max((length(row.whole) for row in rows), default=0.0)
    scale = Scale(0.0, most, 0.0, WIDTH - LABEL - AMOUNT)
    drawn = []
    for place, row in enumerate(rows):
        top, x = place * (BAR + GAP), float(LABEL)
        name = row.name if row.day is None else f"{row.day} {row.name}"
        drawn.append(f'<text x="{LABEL - 10}" y="{top + 13}" text-anchor="end">{escape(_short(name))}</text>')
        for part in row.parts:
            wide = scale(length(part.amount))
            if wide > 0:
                words = f"{name}: {part.title}, {amount_words(part.amount, currency)}"
                drawn.append(
                    f'<rect class="part-{part.cause}" x="{number(x)}" y="{top}" width="{number(wide)}" '
                    f'height="{BAR}"><title>{escape(words)}</title></rect>'
                )
            x += wide
        amount = escape(amount_words(row.whole, currency))
        drawn.append(f'<text class="strong" x="{number(x + 8)}" y="{top + 13}">{amount}</text>')
    high = len(rows) * (BAR + GAP)
    words = "what each row cost, by what it went into; the table below has the figures"
    return (
        f'<div class="draw"><svg viewBox="0 0 {WIDTH} {high}" role="img" aria-label="{words}">'
        f"{''.join(drawn)}</svg></div>"
    )


def _short(name: str) -> str:
    return name if len(name) <= 52 else f"{name[:25]}…{name[-25:]}"


def _parts(row: BillRow, currency: str | None) -> str:
    parts = [*(part for part in row.parts if part.cause == "useful"), *row.wasted]
    cells = (
        (
            f"{part.title} ({part.bound})" if part.bound else part.title,
            amount_words(part.amount, currency),
            hours_words(part.amount.gpu_hours),
            share_words(part.amount.gpu_hours, row.whole.gpu_hours),
        )
        for part in parts
    )
    return table(("part", "cost", "GPU time", "share"), (map(escape, each) for each in cells), numbers=(1, 2, 3))


def _figures(bill: Bill) -> str:
    row, currency = bill.whole, bill.currency
    cells = [(title, amount_words(figure_of(row.figures, name), currency)) for name, title in FIGURES]
    cells.append(("a thousand requests within the SLO", good_words(row.figures, currency)))
    return (
        table(("what", "costs"), (map(escape, each) for each in cells), numbers=(1,))
        + f"<p class='soft'>{counted_words(row)}</p><p class='soft'>{energy_words(row.energy, bill) or ''}</p>"
        + "".join(f"<p class='soft'>{escape(cheaper_words(one, currency))}</p>" for one in bill.cheaper)
        + ("" if bill.cascade is None else f"<p class='soft'>{escape(cascade_words(bill.cascade, currency))}</p>")
    )


def _table(rows: Sequence[BillRow], currency: str | None) -> str:
    heads = ("", "first waste", "cost", "GPU time", "wasted", "a million input", "a million output", "1000 requests")
    cells = []
    for row in rows:
        wasted = row.wasted
        name = row.name if row.day is None else f"{row.day} {row.name}"
        words = (
            name,
            f"{wasted[0].title}: {amount_words(wasted[0].amount, currency)}" if wasted else "-",
            amount_words(row.whole, currency),
            hours_words(row.whole.gpu_hours),
            share_words(sum(part.amount.gpu_hours for part in wasted), row.whole.gpu_hours),
            *(amount_words(figure_of(row.figures, one), currency) for one in ("input", "output", "request")),
        )
        cells.append(map(escape, words))
    return table(heads, cells, numbers=range(2, len(heads)))
