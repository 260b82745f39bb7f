"""A source that began lately: a server that was just installed, or lost its data, a collector that was started because
something is wrong. It has no history, but the counters that it scraped first hold one.
"""

from __future__ import annotations

from inferdoc.judging.lifetime import Lifetime
from inferdoc.judging.reading import LEAST_HISTORY_MS
from inferdoc.judging.session import Session

FIRST_SCRAPES = 2
"""Intervals within which every target that was there is scraped once."""
BEFORE_MS = 3_600_000
"""Nothing in so long before: the source began then, and was not away for a while."""


def since_start(session: Session) -> Lifetime | None:
    """What counters stood at when the source began, where that is less than the least history before the end of the
    window; else None. What a fleet was like for a shorter time than it was watched is no past of it: most of it would
    be the start."""
    grid = session.frame.grid
    first = [int(one.times_ms[0]) for one in session.scrapes if len(one.times_ms)]
    began_ms = min(first, default=None)
    if began_ms is None or grid.end_ms - began_ms > LEAST_HISTORY_MS:
        return None
    if "up" in session.source.names(began_ms - BEFORE_MS, began_ms - grid.interval_ms):
        return None
    return Lifetime(began_ms, FIRST_SCRAPES * grid.interval_ms, (grid.end_ms - began_ms) / 1000)
