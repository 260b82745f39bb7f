"""Lines for a terminal."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator

import click

WIDEST, NARROWEST = 110, 60
"""Longer lines are hard to read; in narrower ones the leads leave no room for words."""


BEFORE_UNIT = re.compile(r"(?<=\d) (?=\S{1,3}(?:[\s,;.)]|$))")
"""The space between a figure and its unit, which stay on one line."""
NO_BREAK = "\u00a0"


FIRST_COLUMN = re.compile(r"\s*\S+(?: \S+)*\s{2,}(?=\S)")
"""The label at the left of a line, with its gap: "newest      "."""
LEFT_PART = 24
"""A longer one leaves too little room for what hangs below its end."""
TO_PASTE = "$ "


def width(widest: int = WIDEST, *, without: int | None = None) -> int:
    """Columns of the terminal, within what reads well; without: where the output is no terminal (None: the widest)."""
    fallback = widest if without is None else without
    return max(NARROWEST, min(widest, shutil.get_terminal_size((fallback, 24)).columns))


def fitted(lines: Iterable[str], widest: int = WIDEST) -> Iterator[str]:
    """Lines as they are, folded below their label if longer than the terminal. Commands to
    paste stay whole."""
    room = width(widest)
    for line in lines:
        if len(click.unstyle(line)) <= room or line.lstrip().startswith(TO_PASTE):
            yield line
            continue
        left = FIRST_COLUMN.match(line)
        lead = left.group() if left and left.end() <= LEFT_PART else " " * (len(line) - len(line.lstrip()))
        yield from wrap(line[len(lead) :], lead, widest)


def wrap(words: str, lead: str, widest: int = WIDEST, *, without: int | None = None) -> list[str]:
    """Words as lines that fit the terminal, the first after a lead, the others below its end."""
    return folded(words, width(widest, without=without), lead) or [lead.rstrip()]


def folded(words: str, room: int, lead: str = "", *, breaking: bool = False) -> list[str]:
    """Words as lines of at most so many columns, figures beside their units; breaking: also words that are longer."""
    lines = textwrap.wrap(
        BEFORE_UNIT.sub(NO_BREAK, words),
        room,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=breaking,
        break_on_hyphens=False,
    )
    return [line.replace(NO_BREAK, " ") for line in lines]


def painted(lines: list[str], words: str, coloured: str) -> list[str]:
    """Lines with these words of the first coloured: after folding, since colours have no width."""
    return [lines[0].replace(words, coloured, 1), *lines[1:]]
