"""What the clients saw: latencies before and after, and when they were first hurt. Nothing here reads metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.real_vllm.fleet.traffic import HUNG_UP, NO_POD, Attempt

BIN_SECONDS = 10.0
HURT_SHARE = 0.15
"""From this share of attempts on, two bins in a row, clients are hurt: usual loads stay below 0.1 by construction."""
LATE = 1.5
"""Times the 95th percentile of the time before: an attempt whose first token or whose tokens take longer is hurt."""


def tokens_take(attempt: Attempt) -> float:
    """Seconds per token after the first."""
    assert attempt.first is not None
    return (attempt.end - attempt.begin - attempt.first) / max(attempt.tokens - 1, 1)


def whole(attempts: Sequence[Attempt]) -> list[Attempt]:
    return [a for a in attempts if a.status == 200 and a.first is not None]


class Yardstick:
    """What counts as late, from attempts of a time that was well."""

    def __init__(self, before: Sequence[Attempt]) -> None:
        good = whole(before)
        if not good:
            raise ValueError("no request was answered before the incident")
        self._first = LATE * float(np.percentile([a.first for a in good if a.first is not None], 95))
        self._token = LATE * float(np.percentile([tokens_take(a) for a in good], 95))

    def hurts(self, attempt: Attempt) -> bool:
        if attempt.status != 200 or attempt.first is None:
            return True
        return attempt.first > self._first or tokens_take(attempt) > self._token

    def share(self, attempts: Sequence[Attempt]) -> float:
        """Of these attempts, how many are hurt; 0 where there are none."""
        return sum(map(self.hurts, attempts)) / len(attempts) if attempts else 0.0

    def since(self, attempts: Sequence[Attempt], begin: float, end: float) -> float | None:
        """Begin of the first two bins in a row in which clients are hurt; None where there are none. Attempts count
        where they began."""
        edges = np.arange(begin, end, BIN_SECONDS)
        hurt = [
            self.share([a for a in attempts if edge <= a.begin < edge + BIN_SECONDS]) >= HURT_SHARE for edge in edges
        ]
        for edge, this, following in zip(edges, hurt, hurt[1:], strict=False):
            if this and following:
                return float(edge)
        return None


def summary(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Counts by outcome and latencies in seconds."""
    good = whole(attempts)
    outcomes = {200: "answered", HUNG_UP: "hung_up", NO_POD: "no_pod"}
    counts: dict[str, int] = {}
    for attempt in attempts:
        outcome = outcomes.get(attempt.status, "failed")
        counts[outcome] = counts.get(outcome, 0) + 1
    if not good:
        return counts
    first = [a.first for a in good if a.first is not None]
    whole_time = [a.end - a.begin for a in good]
    return counts | {
        "ttft_p50": round(float(np.percentile(first, 50)), 3),
        "ttft_p95": round(float(np.percentile(first, 95)), 3),
        "tpot_p50": round(float(np.percentile([tokens_take(a) for a in good], 50)), 4),
        "e2e_p95": round(float(np.percentile(whole_time, 95)), 3),
    }
