"""Phrases that every report format uses: baseline, focus and evidence role."""

from __future__ import annotations

from collections.abc import Callable

from inferdoc.judging.focus import ASPECTS
from inferdoc.judging.model import Baseline, BaselineKind, FocusInfo
from inferdoc.words import some

MOST_PODS = 3


def in_focus(focus: FocusInfo) -> str:
    """`pod decode-3: 1 of 8 pods, all of which were read and compared`."""
    chosen = [f"{name} {value}" for name in ASPECTS if (value := getattr(focus, name))]
    return f"{', '.join(chosen)}: {len(focus.pods)} of {focus.of_pods} pods, all of which were read and compared"


def elsewhere(focus: FocusInfo) -> str:
    """What was found on others: `slow-gpu on decode-5, engine-down on decode-1`; empty where nothing was."""
    return "; ".join(f"{one.id} on {some(one.pods, MOST_PODS)}" for one in focus.elsewhere)


HARM = "harm"


def role_word(role: str) -> str:
    """The word for people of a role of evidence."""
    return "impact" if role == HARM else role


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
    """What it is, the name of a stored baseline, and its time range. clock: format of a time."""
    name = f" {baseline.name}" if baseline.name else ""
    span = f", {clock(baseline.from_)} to {clock(baseline.until)}" if baseline.from_ and baseline.until else ""
    return f"{WORDS[baseline.kind]}{name}{span}"
