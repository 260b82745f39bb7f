"""A what-if on a terminal: now and then side by side."""

from __future__ import annotations

from collections.abc import Iterator

import click

from inferdoc.judging.words import figure, how_many
from inferdoc.report.wrapping import wrap
from inferdoc.whatif.model import Banded, WhatIfAnswer, WhatIfRow

COLUMNS = 110
"""The widest line."""
TITLE, CELL = 26, 30
EXACT = 0.005
"""A band that shows as one number is none."""


def whatif_text(answer: WhatIfAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal; colour only where asked. verbose: formula, inputs and source of each number."""

    def bold(words: str) -> str:
        return click.style(words, bold=True) if colour else words

    change = ", ".join(f"{key} {value}" for key, value in answer.changes.items())
    where = f"{answer.pool}, {how_many(answer.replicas, 'replica')}, {answer.minutes:g} min of history"
    lines = [f"{bold('WHAT IF')}  {change}", *wrap(where, "", COLUMNS), *wrap(answer.summary, "", COLUMNS), ""]
    lines.append(bold(f"  {'':<{TITLE}}{'now':<{CELL}}{'then':<{CELL}}change"))
    for row in answer.rows:
        lines += _row(row, verbose)
    title = "calibration: the first half of the history, played over the second"
    lines += ["", bold(title), bold(f"  {'':<{TITLE}}{'predicted':<{CELL}}{'measured':<{CELL}}error")]
    for held in answer.held:
        off = "" if held.error is None else f"{held.error:+.1%}"
        cells = (figure(value, held.unit) for value in (held.predicted, held.measured))
        lines.append(f"  {held.title:<{TITLE}}{''.join(f'{cell:<{CELL}}' for cell in cells)}{off}".rstrip())
    for head, sentences in (("a guess", answer.guesses), ("mind", answer.notes), ("assumed", answer.assumed)):
        if sentences:
            lines += ["", bold(head), *(line for each in sentences for line in wrap(each, "  - ", COLUMNS))]
    if not verbose:
        lines += ["", "formula, inputs and source of each number: -v"]
    return "\n".join(lines)


def _row(row: WhatIfRow, verbose: bool) -> Iterator[str]:
    change = "" if row.change is None else f"{row.change:+.0%}"
    words = change if row.move == "" else row.move if row.move == "same" or not change else f"{change} {row.move}"
    now, then = (_cell(each, row.unit) for each in (row.now, row.then))
    yield f"  {row.title:<{TITLE}}{now:<{CELL}}{then:<{CELL}}{words}".rstrip()
    if verbose:
        yield from wrap(row.formula, "      = ", COLUMNS)
        if row.inputs:
            yield from wrap("; ".join(f"{name} {each}" for name, each in row.inputs.items()), "        with ", COLUMNS)
        yield from wrap(row.source, "        from ", COLUMNS)


def _cell(band: Banded, unit: str) -> str:
    if abs(band.high - band.low) <= EXACT * abs(band.high):
        return figure(band.value, unit)
    return f"{figure(band.value, unit)} ({figure(band.low, unit)} to {figure(band.high, unit)})"
