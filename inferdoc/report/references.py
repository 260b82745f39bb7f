"""What a window was compared with, in words: the same in every format."""

from __future__ import annotations

from collections.abc import Callable

from inferdoc.judging.model import Baseline, BaselineKind

WORDS: dict[BaselineKind, str] = {
    "calm-before": "the part of the window before the change",
    "history": "the history before the window",
    "stored": "a stored baseline",
    "same-hour-yesterday": "the same hour yesterday",
    "last-week": "the same hour a week ago",
    "predecessors": "the pods that were replaced",
    "peers": "peers of the same pool",
    "absolute": "limits: objectives, bands, physics",
    "chosen": "the baseline that was chosen",
    "lifetime": "the mean since each engine started, which its counters hold",
    "none": "the course of the window alone: there is no earlier data",
}


def compared_with(baseline: Baseline, clock: Callable[[str], str]) -> str:
    """What it is, the name of a stored baseline, and its stretch. clock: how the format writes a moment."""
    name = f" {baseline.name}" if baseline.name else ""
    span = f", {clock(baseline.from_)} to {clock(baseline.until)}" if baseline.from_ and baseline.until else ""
    return f"{WORDS[baseline.kind]}{name}{span}"
