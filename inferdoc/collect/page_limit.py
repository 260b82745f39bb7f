"""Pages that are too large: what is left out of one, and how many may be in memory at once."""

from __future__ import annotations

import re
import threading
from collections import Counter

_NAME = re.compile(rb'^(?:\{\s*"[^"\n]*"|[^\s#{][^\s{\n]*)', re.MULTILINE)
"""The metric at the beginning of a sample line: plain, or in quotes inside the braces."""


def fitted(body: bytes, most: int) -> tuple[bytes, str | None]:
    """A page of at most so many samples, and what was left out of it in words; None where all of it fits.

    Metrics are left out whole, those with the most samples first: a sum over a part of one would be a wrong number.
    """
    if body.count(b"\n") <= most:
        return body, None
    counts = Counter(found.group() for found in _NAME.finditer(body))
    total = kept = sum(counts.values())
    gone: dict[bytes, int] = {}
    for name, count in counts.most_common():
        if kept <= most:
            break
        gone[name] = count
        kept -= count
    if not gone:
        return body, None
    parts = []
    begin: int | None = 0
    for found in _NAME.finditer(body):
        if found.group() in gone:
            if begin is not None:
                parts.append(body[begin : found.start()])
                begin = None
        elif begin is None:
            begin = found.start()
    if begin is not None:
        parts.append(body[begin:])
    elif body.rstrip().endswith(b"# EOF"):
        parts.append(b"# EOF\n")
    names = ", ".join(f"{_text(name)} ({count:,})" for name, count in list(gone.items())[:3])
    more = f" and {len(gone) - 3} more metrics" if len(gone) > 3 else ""
    return b"".join(parts), (
        f"{total:,} samples, more than {most:,}: {names}{more} left out; raise --max-series, or drop them at the target"
    )


class Room:
    """So much of something at once, for all threads together. What is larger than all of it goes alone."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._changed = threading.Condition()

    def take(self, amount: int) -> None:
        """Wait until there is room for so much, and take it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + amount <= self._size)
            self._taken += amount

    def try_take(self, amount: int) -> bool:
        """Take so much if there is room for it."""
        with self._changed:
            if self._taken + amount > self._size:
                return False
            self._taken += amount
            return True

    def give(self, amount: int) -> None:
        """Give so much back."""
        with self._changed:
            self._taken -= amount
            self._changed.notify_all()


def _text(name: bytes) -> str:
    return name.lstrip(b'{ "').rstrip(b'"').decode("utf-8", "replace")[:100]
