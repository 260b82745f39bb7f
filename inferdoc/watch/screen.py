"""A terminal whose lines are rewritten in place: only those that changed, in one write, so that nothing flickers and a
slow connection carries little."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text


class Screen:
    """The alternate screen of a terminal: when it is left, what stood there before is back."""

    def __init__(self, terminal: TextIO) -> None:
        self._console = Console(file=terminal, highlight=False)
        self._lines: list[str] = []
        self._shown: list[str] = []
        self._size = os.terminal_size((0, 0))
        self._one_at_a_time = threading.Lock()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """On the alternate screen, without a cursor."""
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)
        try:
            yield
        finally:
            with self._one_at_a_time:
                self._console.show_cursor(True)
                self._console.set_alt_screen(False)
                self._console.file.flush()

    @property
    def rows(self) -> int:
        """Lines that fit."""
        return self._requested_size().lines

    def _requested_size(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(self._console.file.fileno())
        except OSError:  # no terminal of its own to ask
            return shutil.get_terminal_size()

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines, printable or with colours of our own, and nothing else; those that do not fit are cut."""
        with self._one_at_a_time:
            self._lines = list(lines)
            self._paint()

    def fit(self) -> None:
        """Show the same again where the terminal has another size than before."""
        with self._one_at_a_time:
            if self._lines and self._size != self._requested_size():
                self._paint()

    def _paint(self) -> None:
        size, fresh = self._requested_size(), False
        if self._size != size:
            self._size, self._shown, fresh = size, [], True
        lines = self._lines[: size.lines]
        with self._console.capture() as captured:
            if fresh:
                self._console.control(Control.clear())
            for row in range(max(len(lines), len(self._shown))):
                line = lines[row] if row < len(lines) else ""
                if row >= len(self._shown) or self._shown[row] != line:
                    self._console.control(Control.move_to(0, row), Control((ControlType.ERASE_IN_LINE, 2)))
                    text = Text.from_ansi(line)
                    text.truncate(size.columns - 1)
                    self._console.print(text, end="", soft_wrap=True)
        self._shown = lines
        painted = captured.get()
        if painted:
            self._console.file.write(painted)
            self._console.file.flush()
