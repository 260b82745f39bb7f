"""Whether users feel what a recipe calls impact.

A tail alone is not felt: the 99th percentile of the time between tokens doubles as soon as prefill steps become
frequent enough to reach it, while the mean, the first token and the whole request stay as they were. So a harm that
shows in tails only needs a second witness: the mean of what a user waits for. So does one that shows in a part of the
wait only: a prefill that takes 90 ms instead of 40 is nothing where the first token takes 140 instead of 100.
"""

from __future__ import annotations

from collections.abc import Sequence

from inferdoc.catalogue.conditions import Move
from inferdoc.judging.conditions import evaluate
from inferdoc.judging.context import Context, Outcome
from inferdoc.judging.view import Unit

TAILS = ("itl_p99", "ttft_p99", "e2e_p99")
PARTS = ("prefill_time_mean", "queue_time_mean")
SEEN_PAUSE_SECONDS = 0.25
"""A stream that pauses for so long at every hundredth token stutters for the eye (own choice)."""
FELT = (
    Move(signal="ttft_mean", ratio=1.5, up=True, average=True),
    Move(signal="itl_mean", ratio=1.3, up=True, average=True),
    Move(signal="tpot_request_mean", ratio=1.3, up=True, average=True),
    Move(signal="e2e_mean", ratio=1.3, up=True, average=True),
)
"""What users wait for, and by how much its mean must grow to be felt: as much as the recipes ask of it."""


def immaterial(hurts: Sequence[Outcome], inside: Context, unit: Unit) -> bool:
    """Whether an impact shows in tails or parts alone, and the means were looked at and do not move. inside: the
    episode."""
    limits = inside.limits(unit)
    if any(o.signal not in (*TAILS, *PARTS) or o.signal in limits for o in hurts):
        return False
    if any(o.signal == "itl_p99" and (o.observed or 0.0) >= SEEN_PAUSE_SECONDS for o in hurts):
        return False
    felt = [evaluate(condition, inside, unit).holds for condition in FELT]
    return True not in felt and False in felt
