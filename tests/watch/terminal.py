"""A terminal of a given size, for tests: what a program writes to it comes out here, what is typed goes in."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

PATIENCE_SECONDS = 120


@dataclass
class Terminal:
    """inside: what the program has for its standard streams; outside: the other end."""

    outside: int
    inside: int
    seen: str = ""

    def until(self, words: str) -> str:
        """What was written since the last call, up to these words."""
        end = time.monotonic() + PATIENCE_SECONDS
        while words not in self.seen:
            assert time.monotonic() < end, f"no {words!r} in {self.seen!r}"
            assert select.select([self.outside], [], [], PATIENCE_SECONDS)[0], f"no {words!r} in {self.seen!r}"
            self.seen += os.read(self.outside, 65536).decode()
        before, _, self.seen = self.seen.partition(words)
        return before + words

    def written(self) -> str:
        """What stands there to be read and was not read yet."""
        while select.select([self.outside], [], [], 0)[0]:
            self.seen += os.read(self.outside, 65536).decode()
        before, self.seen = self.seen, ""
        return before

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self.outside, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Give it another size."""
        fcntl.ioctl(self.inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def terminal(rows: int = 24, columns: int = 100) -> Iterator[Terminal]:
    """One of this size."""
    outside, inside = pty.openpty()
    try:
        made = Terminal(outside, inside)
        made.resize(rows, columns)
        yield made
    finally:
        os.close(outside)
        os.close(inside)
