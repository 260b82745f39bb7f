"""What a step has brought, and the ledger, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from inferdoc.judging.words import figure
from inferdoc.report.wrapping import wrap
from inferdoc.verify.model import MeasuredMove, Verification

COLUMNS = 110
"""The widest line."""
TITLE, CELL = 42, 12


def verify_text(answer: Verification, *, colour: bool = False) -> str:
    """Lines for a terminal; colour only where asked."""

    def bold(words: str) -> str:
        return click.style(words, bold=True) if colour else words

    what = f"{answer.finding} on {answer.pool}, step at {answer.step_at}, until {answer.until}"
    lines = [f"{bold(answer.outcome.upper())}  {what}"]
    lines += [line for each in answer.why for line in wrap(each, "  - ", COLUMNS)]
    lines += ["", bold(f"  {'':<{TITLE}}{'before':<{CELL}}{'after':<{CELL}}change, with 90 %")]
    lines += [_move(move) for move in answer.moves]
    if answer.predicted:
        change = ", ".join(f"{key} {value}" for key, value in answer.changes.items())
        lines += ["", bold(f"predicted of {change}")]
        for each in answer.predicted:
            band = f"{figure(each.low, each.unit)} to {figure(each.high, each.unit)}"
            cells = f"{figure(each.predicted, each.unit):<{CELL}}{figure(each.measured, each.unit):<{CELL}}"
            lines.append(f"  {each.title:<{TITLE}}{cells}{'inside' if each.inside else 'outside'} {band}")
    return "\n".join(lines)


def _move(move: MeasuredMove) -> str:
    cells = f"{figure(move.before, move.unit):<{CELL}}{figure(move.after, move.unit):<{CELL}}"
    points = move.unit == "ratio" and move.of_users
    change = [f"{100 * each:+.1f}" if points else f"{each:+.0%}" for each in (move.change, move.low, move.high)]
    title = move.title if move.of_users else f"evidence: {move.title}"
    return f"  {title[: TITLE - 1]:<{TITLE}}{cells}{change[0]} ({change[1]} to {change[2]}): {move.outcome}"


def ledger_text(lines: Sequence[Verification]) -> str:
    """One line each, the oldest first."""
    rows = []
    for line in lines:
        inside = sum(each.inside for each in line.predicted)
        foretold = f", {inside} of {len(line.predicted)} as predicted" if line.predicted else ""
        rows.append(f"{line.step_at}  {line.outcome:<13}  {line.finding}  {line.pool}{foretold}")
    return "\n".join(rows) if rows else "the ledger is empty"
