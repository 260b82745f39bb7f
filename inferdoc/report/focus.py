"""What a report is about, in words."""

from __future__ import annotations

from inferdoc.judging.focus import ASPECTS
from inferdoc.judging.model import FocusInfo

MOST_PODS = 3


def in_focus(focus: FocusInfo) -> str:
    """`pod decode-3: 1 of 8 pods, all of which were read and compared`."""
    asked = [f"{name} {value}" for name in ASPECTS if (value := getattr(focus, name))]
    return f"{', '.join(asked)}: {len(focus.pods)} of {focus.of_pods} pods, all of which were read and compared"


def elsewhere(focus: FocusInfo) -> str:
    """What was found on others: `slow-gpu on decode-5, engine-down on decode-1`; empty where nothing was."""
    found = []
    for one in focus.elsewhere:
        more = f" and {len(one.pods) - MOST_PODS} more" if len(one.pods) > MOST_PODS else ""
        found.append(f"{one.id} on {', '.join(one.pods[:MOST_PODS])}{more}")
    return "; ".join(found)
