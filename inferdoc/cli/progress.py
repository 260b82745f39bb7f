"""How far a longer piece of work is."""

from __future__ import annotations

import sys

from inferdoc.cli import messages


class Progress:
    """Tenths of the work on stderr, only on a terminal."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._tenth = 0

    def __call__(self, share: float) -> None:
        tenth = int(share * 10)
        if tenth > self._tenth and sys.stderr.isatty():
            self._tenth = tenth
            messages.note(f"{self._title}: {tenth * 10} %")
