"""What a step has brought, and the ledger, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from inferdoc.escaping import lines as as_lines
from inferdoc.report.printable import printable
from inferdoc.report.wrapping import Columns, marked, painted, wrap
from inferdoc.verify.model import MeasuredMove, Verification
from inferdoc.words import figure

COLUMNS = 110
"""The widest line."""


def verify_text(answer: Verification, *, colour: bool = False) -> str:
    """Lines for a terminal; colour only if set."""

    def bold(words: str) -> str:
        return click.style(words, bold=True) if colour else words

    what = f"{answer.finding} on {answer.pool}, step at {answer.step_at}, until {answer.until}"
    head = answer.outcome.upper()
    lines = painted(wrap(what, f"{head}  ", COLUMNS), head, bold(head))
    lines += [line for each in answer.why for line in wrap(each, "  - ", COLUMNS)]
    heads = marked(" ", ""), "before", "after", "change, with 90 %"
    moves = [_move(move) for move in answer.moves]
    predicted = [
        (
            marked(" ", each.title),
            figure(each.predicted, each.unit),
            figure(each.measured, each.unit),
            f"{'inside' if each.inside else 'outside'} {figure(each.low, each.unit)} to {figure(each.high, each.unit)}",
        )
        for each in answer.predicted
    ]
    columns = Columns([heads, *moves, *predicted], COLUMNS)
    lines += ["", *map(bold, columns.lines(heads)), *(line for row in moves for line in columns.lines(row))]
    if predicted:
        change = ", ".join(f"{key} {value}" for key, value in answer.changes.items())
        lines += ["", *map(bold, wrap(f"predicted of {change}", "", COLUMNS))]
        lines += [line for row in predicted for line in columns.lines(row)]
    return "\n".join(lines)


def _move(move: MeasuredMove) -> tuple[str, str, str, str]:
    points = move.unit == "ratio" and move.of_users
    change = [f"{100 * each:+.1f}" if points else f"{each:+.0%}" for each in (move.change, move.low, move.high)]
    title = move.title if move.of_users else f"evidence: {move.title}"
    moved = f"{change[0]} ({change[1]} to {change[2]}): {move.outcome}"
    return marked(" ", title), figure(move.before, move.unit), figure(move.after, move.unit), moved


def ledger_text(lines: Sequence[Verification]) -> str:
    """One line each, the oldest first."""
    rows = []
    for line in lines:
        inside = sum(each.inside for each in line.predicted)
        predicted = f", {inside} of {len(line.predicted)} as predicted" if line.predicted else ""
        rows.append(f"{line.step_at}  {line.outcome:<13}  {line.finding}  {line.pool}{predicted}")
    return "\n".join(rows) if rows else "the ledger is empty"


def render_ledger(ledger: Sequence[Verification], form: str) -> str:
    """The ledger as text, or as a JSON list."""
    if form == "json":
        return as_lines(msgspec.json.format(msgspec.json.encode(ledger), indent=2).decode())
    return ledger_text([printable(each, Verification) for each in ledger])
