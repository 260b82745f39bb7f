"""From differences and guards to one decision: worse for sure, no worse for sure, or not known yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inferdoc.canary.checks import Check
from inferdoc.canary.guards import Guard, words
from inferdoc.canary.interval import ALIKE, Ratio, ShareDifference
from inferdoc.canary.model import Decision

LEAST_REQUESTS = 100
"""Of the candidate: below it the tail is a handful of requests, whatever an interval says (own choice)."""


@dataclass(frozen=True)
class CheckSeen:
    """A question and what was seen. times: the mean latency of the candidate over that of the stable pods, where the
    question is a shift that no promise forbids: a bucket bound in the middle of a narrow distribution parts it at the
    smallest one, so that what is worse must be slower on average too."""

    check: Check
    seen: ShareDifference
    times: Ratio | None = None

    @property
    def decision(self) -> Decision:
        """By the ends of the interval against the margin."""
        if self.seen.high < self.check.margin or (self.times is not None and self.times.high < 1 + ALIKE):
            return "pass"
        slower = self.times is None or self.times.value > 1 + ALIKE
        return "fail" if self.seen.low > self.check.margin and slower else "unknown"

    @property
    def latency(self) -> bool:
        """Whether load alone may be what it shows."""
        return self.check.kind != "errors"


def decided(asked: Sequence[CheckSeen], guards: Sequence[Guard], requests: float) -> tuple[Decision, list[str], int]:
    """The decision, why it is not known, and how many more requests of the candidate it takes (0 where more of them do
    not help)."""
    broken = [guard for guard in guards if guard.broken]
    void = [words(guard) for guard in broken if guard.voids == "any"]
    worse = [one for one in asked if one.decision == "fail"]
    loaded = [words(guard) for guard in broken if guard.voids == "worse"]
    certain = [one for one in worse if not (one.latency and (loaded or void))]
    if requests < LEAST_REQUESTS:
        more = _more(asked, requests)
        return "unknown", [_lacking(more)], more
    if certain:
        return "fail", [], 0
    if void or (worse and loaded):
        return "unknown", [*void, *loaded], 0
    if any(one.decision == "unknown" for one in asked):
        more = _more(asked, requests)
        return "unknown", [_lacking(more)], more
    return "pass", [], 0


def _more(asked: Sequence[CheckSeen], requests: float) -> int:
    """Requests beyond those seen. Of gaps between tokens there are many in a request: in their proportion."""
    wanted = [
        one.seen.needed * requests / one.seen.requests[0] - requests
        for one in asked
        if one.decision == "unknown" and one.seen.requests[0] > 0
    ]
    return max(1, round(max([*wanted, LEAST_REQUESTS - requests])))


def _lacking(more: int) -> str:
    return f"not enough requests: {more:,} more needed"
