"""What a report is about, in words."""

from __future__ import annotations

from inferdoc.judging.focus import ASPECTS
from inferdoc.judging.model import FocusInfo
from inferdoc.words import some

MOST_PODS = 3


def in_focus(focus: FocusInfo) -> str:
    """`pod decode-3: 1 of 8 pods, all of which were read and compared`."""
    chosen = [f"{name} {value}" for name in ASPECTS if (value := getattr(focus, name))]
    return f"{', '.join(chosen)}: {len(focus.pods)} of {focus.of_pods} pods, all of which were read and compared"


def elsewhere(focus: FocusInfo) -> str:
    """What was found on others: `slow-gpu on decode-5, engine-down on decode-1`; empty where nothing was."""
    return "; ".join(f"{one.id} on {some(one.pods, MOST_PODS)}" for one in focus.elsewhere)
