"""A decision between tiers as text and as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from inferdoc.escaping import html as escape
from inferdoc.escaping import one_line
from inferdoc.report.html_finding import listed, pairs, table, titled
from inferdoc.report.html_page import document, drawn_svg, inline_svg
from inferdoc.report.wrapping import NO_BREAK, WIDEST, Columns, bullets, emphasis, fitted, headline, wrap
from inferdoc.sizing.decision_model import AGGREGATED, DecisionAnswer, DecisionRow, cost_of, placed
from inferdoc.words import figure

LABELLED = 8
"""Points of the front with a label; more would lie on each other."""
SIZES = (6.4, 3.8)


def decision_html(answer: DecisionAnswer) -> str:
    """A whole HTML document."""
    facts = pairs(
        (
            ("model", escape(answer.model)),
            ("load", escape(answer.load)),
            ("objectives", escape(_objectives(answer))),
        )
    )
    rows = (map(escape, decision_cells(row)) for row in answer.rows)
    rejected = [map(escape, each) for each in reasons(answer.rejected)]
    body = [
        f"<header><h1>{escape(answer.summary)}</h1>{facts}</header>",
        listed("because", "Why this one", answer.because),
        titled("front", "Cost against latency", _figure(answer)),
        titled("rows", "Ways to serve the load", table(HEADER, rows, numbers=NUMBERS)),
        titled("rejected", "Rejected", table(("what", "reason"), rejected, cards=True)) if rejected else "",
        listed("notes", "Notes", answer.notes),
        listed("assumed", "Assumed", answer.assumed),
        f"<footer>inferdoc {escape(answer.inferdoc_version)}, {escape(answer.schema)}</footer>",
    ]
    return document(f"Size: {answer.model}", "\n".join(each for each in body if each), answer.inferdoc_version)


def _figure(answer: DecisionAnswer) -> str:
    return f"<figure>{pareto_svg(answer)}<figcaption>{escape(_caption(answer))}</figcaption></figure>"


def _objectives(answer: DecisionAnswer) -> str:
    if answer.ttft is None or answer.itl is None:
        return "those of a chat, which nobody gave: see Assumed"
    return f"TTFT p95 {figure(answer.ttft, 's')}, ITL {figure(answer.itl, 's')}"


def _caption(answer: DecisionAnswer) -> str:
    return (
        "Seconds of a mean request from start to end. The line joins the ways than which none is both cheaper and "
        f"faster; the others are grey. Taken: {answer.rows[0].tier}, {answer.rows[0].layout}."
    )


def pareto_svg(answer: DecisionAnswer) -> str:
    """Cost of every way against the seconds of a mean request, the Pareto front joined, as inline SVG."""
    rows = [
        row for row in answer.rows if row.request is not None and (row.month is None) == (answer.sorted_by != "month")
    ]
    with drawn_svg("inferdoc"):
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        drawing = Figure(figsize=SIZES, layout="constrained")
        axes = drawing.subplots()
        front = sorted((row for row in rows if row.pareto), key=cost_of)
        axes.plot(
            [*map(cost_of, front)], [row.request or 0.0 for row in front], color="#0550ae", linewidth=1, alpha=0.6
        )
        for row in rows:
            axes.scatter([cost_of(row)], [row.request or 0.0], s=34, color="#0550ae" if row.pareto else "#848d97")
        for row in front[:LABELLED]:
            words = one_line(f"{row.tier} {row.dtype}{' P/D' if row.mode == 'P/D' else ''}")
            place = (cost_of(row), row.request or 0.0)
            axes.annotate(words, place, textcoords="offset points", xytext=(4, -13), fontsize=9, parse_math=False)
        axes.set_xlabel(f"{answer.currency} a month" if answer.sorted_by == "month" else "GPUs", parse_math=False)
        axes.set_ylabel("seconds of a mean request")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.margins(x=0.14, y=0.16)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        return inline_svg(drawing, "p", _caption(answer))


SHOWN = 12
"""Rows, and lines of rejected ones, unless all are requested."""
HEADER = (
    "tier", "weights/KV", "layout", "GPUs", "month", "1M out", "TTFT", "ITL", "room", "bound"
)  # fmt: skip
BOUNDS = {
    "time between tokens": "ITL",
    "time to first token": "TTFT",
    "KV cache": "KV",
    "KV cache or --max-num-seqs": "KV, seqs",
    "--max-num-seqs": "seqs",
}
"""What binds, in a word."""
NUMBERS = (3, 4, 5, 6, 7, 8)


def decision_cells(row: DecisionRow) -> list[str]:
    """A row as the cells of a table, under `HEADER`."""
    month = "" if row.month is None else f"{row.month:,.0f}"
    million = "" if row.million is None else f"{row.million:.3g}"
    seconds = ["no bound" if each is None else figure(each, "s") for each in (row.ttft_p95, row.itl)]
    return [
        row.tier,
        f"{row.dtype}/{row.kv_dtype}",
        placed(row) if row.mode == AGGREGATED else f"{row.mode}: {placed(row)}",
        f"{row.gpus}",
        month,
        million,
        *seconds,
        f"{row.headroom:.0%}" if row.headroom is not None else "",
        BOUNDS.get(row.bound, row.bound),
    ]


def reasons(rejected: Sequence[DecisionRow]) -> Iterator[tuple[str, str]]:
    """Rejected rows and why: those of a tier with the same reason once."""
    seen: Counter[tuple[str, str]] = Counter()
    for row in rejected:
        what = " ".join(part for part in (row.tier, f"{row.dtype}/{row.kv_dtype}", row.mode, row.layout) if part)
        if (what, row.why) not in seen:
            yield what, row.why
        seen[what, row.why] += 1


def decision_text(answer: DecisionAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal, as wide as it is. verbose: all rows, rejected ones and what is assumed."""

    lines, bold = headline("SIZE", f"{answer.model}, {answer.load}", colour), emphasis(colour)
    lines += [line for words in (answer.summary, *answer.because) for line in wrap(words, "  - ")]
    shown = answer.rows if verbose else answer.rows[:SHOWN]
    table = [list(HEADER), *([cell.replace(" ", NO_BREAK) for cell in decision_cells(row)] for row in shown)]
    columns = Columns(table, WIDEST, right=NUMBERS)
    lines += ["", bold(f"ways to serve it, {'cheapest' if answer.sorted_by == 'month' else 'fewest GPUs'} first")]
    lines += [line.replace(NO_BREAK, " ") for cells in table for line in columns.lines(cells)]
    if len(answer.rows) > len(shown):
        lines += wrap(f"and {len(answer.rows) - len(shown)} more: -v", "  ")
    found = list(reasons(answer.rejected))
    if found:
        first = found if verbose else found[:SHOWN]
        lines += bullets(bold("rejected"), (f"{what}: {why}" for what, why in first))
        lines += wrap(f"and {len(found) - len(first)} more: -v", "  ") if len(found) > len(first) else []
    lines += bullets(bold("notes"), answer.notes) + bullets(bold("assumed"), answer.assumed if verbose else [])
    return "\n".join(fitted(lines))
