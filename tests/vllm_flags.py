"""The flags of `vllm serve` 0.32.0, as its parser has them."""

from __future__ import annotations

import re
from pathlib import Path

LIST = Path(__file__).parent.parent / "fixtures" / "vllm-serve-flags.txt"


def serve_flags() -> frozenset[str]:
    """Every long flag: the names of a line stand before two spaces, with their choices and default after them."""
    lines = (line.strip() for line in LIST.read_text("utf-8").splitlines() if not line.startswith("#"))
    names = (re.split(r"\s{2,}", line)[0] for line in lines if line)
    return frozenset(word for each in names for word in each.split(", ") if word.startswith("--"))
