"""Other distributions that install the module or the command `inferdoc` over ours: the one installed last is then the
one that runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import metadata

from inferdoc.extras import DISTRIBUTION

MODULE = "inferdoc"


def rivals(distributions: Iterable[metadata.Distribution] | None = None) -> list[str]:
    """Names and versions of the distributions but ours that bring the module or the command, of all that are installed
    unless others are given."""
    found = set()
    for one in metadata.distributions() if distributions is None else distributions:
        name = one.metadata["Name"] or ""
        if re.sub(r"[-_.]+", "-", name).lower() != DISTRIBUTION and (_module(one) or _command(one)):
            found.add(f"{name} {one.version}")
    return sorted(found)


def _module(one: metadata.Distribution) -> bool:
    """Whether it brings a module of this name: by the list of its files, since few name their modules otherwise."""
    declared = (one.read_text("top_level.txt") or "").split()
    return MODULE in declared or re.search(rf"^{MODULE}/__init__\.py,", one.read_text("RECORD") or "", re.M) is not None


def _command(one: metadata.Distribution) -> bool:
    return any(entry.group == "console_scripts" and entry.name == MODULE for entry in one.entry_points)
