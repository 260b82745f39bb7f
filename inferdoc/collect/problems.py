"""A bounded list of what was wrong with an input."""

from __future__ import annotations

_SHOWN = 20


class ProblemList:
    """Keeps the first twenty problems in words and counts the rest, so that bad input cannot fill memory."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, line: str) -> None:
        """Note one problem, a single line of text."""
        self._count += 1
        if len(self._lines) < _SHOWN:
            self._lines.append(line)

    def lines(self) -> list[str]:
        """The problems, ending with `... and N more` where some were only counted."""
        hidden = self._count - len(self._lines)
        return [*self._lines, f"... and {hidden} more problems"] if hidden else list(self._lines)
