"""Natural sort order of names: pod-2 before pod-10."""

from __future__ import annotations

import re

PARTS = re.compile(r"(\d{1,18})")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key to sort by, in which numbers inside a name count as numbers."""
    parts = PARTS.split(name)
    return tuple((0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts)
