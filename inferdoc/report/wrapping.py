"""Lines for a terminal."""

from __future__ import annotations

import textwrap

WIDTH = 110


def wrap(words: str, lead: str) -> list[str]:
    """Words as lines of at most WIDTH columns, the first after a lead, the others below its end."""
    return textwrap.wrap(
        words,
        WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [lead.rstrip()]
