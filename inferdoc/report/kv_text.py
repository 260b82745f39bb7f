"""KV economics on a terminal."""

from __future__ import annotations

import click

from inferdoc.kv.model import KvAnswer
from inferdoc.report.size_text import number_lines
from inferdoc.report.wrapping import fitted, painted, wrap
from inferdoc.words import how_many

COLUMNS = 100
"""The widest line."""


def kv_text(answer: KvAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal; colour only where asked. verbose: formula, inputs and source of each number."""

    def bold(words: str) -> str:
        return click.style(words, bold=True) if colour else words

    what = f"{answer.pool}, {how_many(answer.pods, 'pod')}, {answer.hours:g} h of traffic"
    lines = [*painted(wrap(what, "KV  ", COLUMNS), "KV", bold("KV")), *wrap(answer.summary, "", COLUMNS)]
    for part in answer.parts:
        lines += ["", bold(part.title)]
        for each in part.numbers:
            lines += number_lines(each, verbose, COLUMNS)
    for title, sentences in (("mind", answer.notes), ("cannot tell", answer.cannot_tell)):
        if sentences:
            lines += ["", bold(title), *(line for each in sentences for line in wrap(each, "  - ", COLUMNS))]
    if not verbose:
        lines += ["", "formula, inputs and source of each number: -v; the curve: -o html"]
    return "\n".join(fitted(lines, COLUMNS))
