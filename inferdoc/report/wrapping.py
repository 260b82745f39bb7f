"""Lines and tables that are as wide as the terminal."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

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


def emphasis(colour: bool) -> Callable[[str], str]:
    """Makes words bold; with colour only."""
    return partial(click.style, bold=True) if colour else str


def headline(word: str, words: str, colour: bool, widest: int = WIDEST) -> list[str]:
    """The first lines of an answer: what it is, in bold, and of what."""
    return painted(wrap(words, f"{word}  ", widest), word, emphasis(colour)(word))


def bullets(title: str, sentences: Iterable[str], widest: int = WIDEST) -> list[str]:
    """A list below its title, after an empty line; nothing without sentences."""
    lines = [line for each in sentences for line in wrap(each, "  - ", widest)]
    return ["", title, *lines] if lines else []


def painted(lines: list[str], words: str, coloured: str) -> list[str]:
    """Lines with these words of the first coloured: after folding, since colours have no width."""
    return [lines[0].replace(words, coloured, 1), *lines[1:]]


TABLES = 80
"""Columns of a page where the output is no terminal."""
GAP = 2
"""Spaces between columns."""
LEAST = 6
"""Minimum width of a column; narrower ones would break words."""


def marked(mark: str, words: str) -> str:
    """A cell that begins with a mark or with the room of one, which folding leaves where it is."""
    return f"{mark.replace(' ', NO_BREAK)}{NO_BREAK}{words}"


class Columns:
    """The widths of the columns of some rows: each as wide as its longest cell, where that is more than the terminal
    has the widest fold. Words are broken only where not even the longest of each column fit side by side.

    A row with fewer cells than the first ends in one that has the remaining width.
    """

    def __init__(self, rows: Sequence[Sequence[str]], widest: int, *, right: Sequence[int] = ()) -> None:
        """rows: the header first; widest: columns of the page at most; right: columns that align to the right."""
        self.page, self.right = width(widest, without=TABLES), frozenset(right)
        self.count = len(rows[0])
        own = [row if len(row) == self.count else row[:-1] for row in rows]
        columns = [[row[i] for row in own if i < len(row)] for i in range(self.count)]
        self.widths = [max(map(len, cells)) for cells in columns]
        self._narrow([max((len(word) for cell in cells for word in cell.split(" ")), default=0) for cells in columns])
        self._narrow([LEAST] * self.count)

    def _narrow(self, floors: Sequence[int]) -> None:
        """Take from the widest column, one at a time, until the page holds all or each is at its floor."""
        while sum(self.widths) + GAP * (self.count - 1) > self.page:
            wide = max(range(self.count), key=lambda i: self.widths[i] if self.widths[i] > floors[i] else -1)
            if self.widths[wide] <= floors[wide]:
                return
            self.widths[wide] -= 1

    def begin(self, column: int) -> int:
        """Where a column begins, counted from 0."""
        return sum(self.widths[:column]) + GAP * column

    def lines(self, cells: Sequence[str]) -> Iterator[str]:
        """One row; of several lines where a cell folds."""
        rooms = [*self.widths[: len(cells) - 1], self.page - self.begin(len(cells) - 1)]
        if len(cells) == self.count:
            rooms[-1] = self.widths[-1]
        folds = [folded(cell, max(room, 1), breaking=True) or [""] for cell, room in zip(cells, rooms, strict=True)]
        for number in range(max(map(len, folds))):
            parts = [fold[number] if number < len(fold) else "" for fold in folds]
            yield (
                (" " * GAP)
                .join(
                    part.rjust(room) if i in self.right else part.ljust(room)
                    for i, (part, room) in enumerate(zip(parts, rooms, strict=True))
                )
                .rstrip()
            )
