"""Series above the pods that end while their target is still scraped: what they counted no longer happens.

A router exports a family as long as the plugin that counts it is configured: lookups of prefixes end with the scorer
that made them. The last value of such a counter says nothing any more, and its rate is 0, not unknown. Engines export
their counters for as long as they live: one that ends there is a matter of the telemetry (`telemetry.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from inferdoc.catalogue.signal import WIDE, Signal
from inferdoc.fleet.lineage import Key
from inferdoc.source.base import Scrapes
from inferdoc.source.frame import Entity, SignalFrame

SETTLED_WINDOWS = 2
"""A series is gone when it is missing for so many rate windows of successful scrapes, up to the end."""


def end_vanished(frame: SignalFrame, signals: Mapping[str, Signal], scrapes: Sequence[Scrapes]) -> None:
    """Set rates of series that vanished to 0 from where they end, in place."""
    newest = _newest_success(scrapes)
    grid = frame.grid
    settled = max(1, SETTLED_WINDOWS * grid.rate_ms // grid.step_ms)
    for name, signal in signals.items():
        if name not in frame or signal.level not in WIDE or not any(r.rate or r.increase for r in signal.readings):
            continue
        for row, entity in enumerate(frame[name].entities):
            values = frame[name].values[row, -grid.count :]  # without a baseline put in front
            steps = np.flatnonzero(np.isfinite(values))
            answered = (newest.get(entity.member, 0) - grid.start_ms) // grid.step_ms
            if len(steps) and min(answered, grid.count - 1) - int(steps[-1]) >= settled:
                values[int(steps[-1]) + 1 : answered + 1] = 0.0


def _newest_success(scrapes: Sequence[Scrapes]) -> dict[Key, int]:
    """When each target last answered, milliseconds."""
    newest: dict[Key, int] = {}
    for target in scrapes:
        good = target.times_ms[target.up >= 0.5]
        if len(good):
            key = Entity.of_labels(target.labels).member
            newest[key] = max(newest.get(key, 0), int(good[-1]))
    return newest
