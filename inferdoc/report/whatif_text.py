"""A what-if on a terminal: now and then side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from inferdoc.report.wrapping import Columns, marked, painted, wrap
from inferdoc.whatif.model import SAME, Banded, WhatIfAnswer, WhatIfRow
from inferdoc.words import figure, how_many

COLUMNS = 110
"""The widest line."""
EXACT = 0.005
"""A band that shows as one number is none."""


def whatif_text(answer: WhatIfAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal; colour only if set. verbose: formula, inputs and source of each number."""

    def bold(words: str) -> str:
        return click.style(words, bold=True) if colour else words

    change = ", ".join(f"{key} {value}" for key, value in answer.changes.items())
    where = f"{answer.pool}, {how_many(answer.replicas, 'replica')}, {answer.minutes:g} min of history"
    lines = painted(wrap(change, "WHAT IF  ", COLUMNS), "WHAT IF", bold("WHAT IF"))
    lines += [*wrap(where, "", COLUMNS), *wrap(answer.summary, "", COLUMNS), ""]
    heads = "", "now", "then", "change"
    cells = [_cells(row) for row in answer.rows]
    columns = Columns([heads, *cells], COLUMNS)
    lines += map(bold, columns.lines(heads))
    for row, shown in zip(answer.rows, cells, strict=True):
        lines += [*columns.lines(shown), *(_ground(row) if verbose else ())]
    title = "calibration: the first half of the history, played over the second"
    lines += ["", bold(title), *_calibration(answer, bold)]
    for head, sentences in (("a guess", answer.guesses), ("notes", answer.notes), ("assumed", answer.assumed)):
        if sentences:
            lines += ["", bold(head), *(line for each in sentences for line in wrap(each, "  - ", COLUMNS))]
    if not verbose:
        lines += ["", "formula, inputs and source of each number: -v"]
    return "\n".join(lines)


def _calibration(answer: WhatIfAnswer, bold: Callable[[str], str]) -> Iterator[str]:
    heads = "", "predicted", "measured", "error"
    rows = [
        (
            marked(" ", line.title),
            figure(line.predicted, line.unit),
            figure(line.measured, line.unit),
            "" if line.error is None else f"{line.error:+.1%}",
        )
        for line in answer.holdout
    ]
    columns = Columns([heads, *rows], COLUMNS)
    yield from map(bold, columns.lines(heads))
    for row in rows:
        yield from columns.lines(row)


def _cells(row: WhatIfRow) -> tuple[str, str, str, str]:
    change = "" if row.change is None else f"{row.change:+.0%}"
    words = change if row.move == "" else row.move if row.move == "same" or not change else f"{change} {row.move}"
    if row.move == "same" and row.change is not None and abs(row.change) >= SAME:
        words = f"{change}, may be chance"
    return marked(" ", row.title), _cell(row.now, row.unit), _cell(row.then, row.unit), words


def _ground(row: WhatIfRow) -> Iterator[str]:
    yield from wrap(row.formula, "      = ", COLUMNS)
    if row.inputs:
        yield from wrap("; ".join(f"{name} {each}" for name, each in row.inputs.items()), "        with ", COLUMNS)
    yield from wrap(row.source, "        from ", COLUMNS)


def _cell(band: Banded, unit: str) -> str:
    if abs(band.high - band.low) <= EXACT * abs(band.high):
        return figure(band.value, unit)
    return f"{figure(band.value, unit)} ({figure(band.low, unit)} to {figure(band.high, unit)})"
