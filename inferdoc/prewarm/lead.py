"""How long before the load replicas are started: what is given, else what the pool's own starts took, else its tier."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.forecast.starts import ENOUGH, Starts

DEFAULT_COLD_START = 300
QUANTILE = 0.9


@dataclass(frozen=True)
class ColdStart:
    """seconds: from creation to ready; basis: where they come from, in words."""

    seconds: int
    basis: str


def cold_start(given: int | None, starts: Starts | None, tier: str, of_tier: float | None) -> ColdStart:
    """Fewer starts than a quantile takes only lengthen what is known of the tier. given: seconds; starts: those seen of
    the pool's own replicas; of_tier: seconds that its hardware usually takes."""
    if given is not None:
        return ColdStart(given, "given")
    if starts is not None and len(starts.seen) >= ENOUGH:
        seconds = round(starts.quantile(QUANTILE))
        return ColdStart(seconds, f"{seconds} s: {starts.spread}")
    usual = DEFAULT_COLD_START if of_tier is None else int(of_tier)
    whose = "five minutes" if of_tier is None else f"the {usual} s of tier {tier}"
    if starts is None:
        return ColdStart(usual, f"no start of its replicas was seen, {whose} are taken")
    seconds = max(usual, round(starts.quantile(1.0)))
    return ColdStart(seconds, f"{seconds} s: {starts.spread}; so few count only where they exceed {whose}")
