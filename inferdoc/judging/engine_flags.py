"""Flags of vLLM in advice for fleets of another engine: what it calls them, as `flags` of its file declares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inferdoc.catalogue.engines import MAIN
from inferdoc.catalogue.signal import Exporter


def elsewhere(flags: Iterable[str], engines: Sequence[Exporter]) -> str:
    """What to say of flags where none of the engines is the one that has them; empty where one is, or there is nothing
    to say. engines: those that are there."""
    if not engines or any(engine.exporter == MAIN for engine in engines):
        return ""
    named = list(flags)
    told = [_of_engine(named, engine) for engine in engines] if named else []
    return "".join(f" ({words})" for words in told)


def _of_engine(flags: Sequence[str], engine: Exporter) -> str:
    same = [flag for flag in flags if engine.flags.get(flag) == flag]
    known = [f"{engine.flags[flag]} for {flag}" for flag in flags if flag in engine.flags and flag not in same]
    unknown = [flag for flag in flags if flag not in engine.flags]
    parts = [f"{engine.title} has {', '.join(known)}"] if known else []
    if unknown:
        parts.append(f"{', '.join(unknown)} {'are flags' if len(unknown) > 1 else 'is a flag'} of vLLM")
    return "; ".join(parts) or f"{engine.title} calls it the same"
