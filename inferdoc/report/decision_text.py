"""A decision between tiers on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import click

from inferdoc.report.columns import Columns
from inferdoc.report.wrapping import NO_BREAK, WIDEST, fitted, painted, wrap
from inferdoc.sizing.decision_model import AGGREGATED, DecisionAnswer, DecisionRow
from inferdoc.sizing.decision_words import placed
from inferdoc.words import figure

SHOWN = 12
"""Rows, and lines of rejected ones, unless all are asked for."""
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

    def bold(words: str) -> str:
        return click.style(words, bold=True) if colour else words

    lines = [*painted(wrap(f"{answer.model}, {answer.load}", "SIZE  "), "SIZE", bold("SIZE"))]
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
        lines += ["", bold("rejected")]
        first = found if verbose else found[:SHOWN]
        lines += [line for what, why in first for line in wrap(f"{what}: {why}", "  - ")]
        lines += wrap(f"and {len(found) - len(first)} more: -v", "  ") if len(found) > len(first) else []
    for title, sentences in (("mind", answer.notes), ("assumed", answer.assumed if verbose else [])):
        if sentences:
            lines += ["", bold(title), *(line for each in sentences for line in wrap(each, "  - "))]
    return "\n".join(fitted(lines))
