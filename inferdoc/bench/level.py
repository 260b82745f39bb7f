"""One level of load of a benchmark, in the same words whatever tool wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from inferdoc.catalogue.quantiles import NAME, quantile_name, share_of

Drive = Literal["rate", "concurrency", "burst", "unknown"]
"""rate: requests came whether or not others had ended (open loop); concurrency: so many at a time (closed loop); burst:
all at once; unknown: the file does not show it."""

MOST_EMPTYING = 0.25
"""Share of a run (own choice)."""
FEWEST_FAILED = 3
"""Fewer failed requests are chance (as in the judge)."""


@dataclass(frozen=True)
class LatencySpread:
    """One latency of the requests that ended well, in seconds. quantiles: share (0..1) -> seconds."""

    mean: float | None = None
    quantiles: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadLevel:
    """file: its name; requested: requests/s or requests at a time, None if unknown; served: completed
    requests/s; seconds: how long it was measured; completed, failed: requests; prompt_tokens, output_tokens: mean of a
    request; latencies: by family; good: requests/s within the tool's own objectives; settings: what else was noted;
    warnings: what the tool itself, or its counts, say against the numbers."""

    file: str
    tool: str
    model: str
    drive: Drive
    requested: float | None
    served: float
    seconds: float
    completed: int
    failed: int
    prompt_tokens: float | None
    output_tokens: float | None
    latencies: Mapping[str, LatencySpread]
    good: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def failed_share(self) -> float:
        """Of all requests that ended."""
        return self.failed / (self.completed + self.failed)

    @property
    def order(self) -> float:
        """What levels of one curve are ordered by: the rate that was requested, and no less than was served, since a
        client that is late catches up with more."""
        if self.requested is None:
            return self.served
        return max(self.requested, self.served) if self.drive == "rate" else self.requested

    @property
    def emptying(self) -> float:
        """Seconds at the end in which nothing new counts any more: the last answers are written. 0 where that is so
        much of the run that nothing was ever steady."""
        between = self.latencies.get("tpot_request")
        if between is None or between.mean is None or self.output_tokens is None:
            return 0.0
        seconds = between.mean * max(self.output_tokens - 1.0, 0.0)
        return seconds if seconds <= MOST_EMPTYING * self.seconds else 0.0

    @property
    def kept_up(self) -> float:
        """Requests/s that were served while the load stood."""
        return self.completed / (self.seconds - self.emptying)

    def reading(self, signal: str) -> tuple[float, str] | None:
        """A signal of this level in its unit, and its name: of a quantile that the file lacks the next higher one,
        which is at least as large. None where it says nothing of it."""
        if signal == "error_share":
            return (self.failed_share if self.failed >= FEWEST_FAILED else 0.0), signal
        match = NAME.fullmatch(signal)
        family = match["family"] if match else signal.removesuffix("_mean")
        latency = self.latencies.get(family)
        if latency is None:
            return None
        if match is None:
            return None if latency.mean is None else (latency.mean, signal)
        least = share_of(signal)
        higher = [share for share in latency.quantiles if share >= least - 1e-9]
        return (latency.quantiles[min(higher)], quantile_name(family, 100 * min(higher))) if higher else None
