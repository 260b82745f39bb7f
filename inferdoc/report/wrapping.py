"""Lines for a terminal."""

from __future__ import annotations

import re
import shutil
import textwrap

WIDEST, NARROWEST = 110, 60
"""Longer lines are hard to read; in narrower ones the leads leave no room for words."""


BEFORE_UNIT = re.compile(r"(?<=\d) (?=\S{1,3}(?:[\s,;.)]|$))")
"""The space between a figure and its unit, which stay on one line."""
NO_BREAK = "\u00a0"


def width(widest: int = WIDEST) -> int:
    """Columns of the terminal, within what reads well; the widest where the output is no terminal."""
    return max(NARROWEST, min(widest, shutil.get_terminal_size((widest, 24)).columns))


def wrap(words: str, lead: str, widest: int = WIDEST) -> list[str]:
    """Words as lines that fit the terminal, the first after a lead, the others below its end."""
    lines = textwrap.wrap(
        BEFORE_UNIT.sub(NO_BREAK, words),
        width(widest),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(NO_BREAK, " ") for line in lines] or [lead.rstrip()]
