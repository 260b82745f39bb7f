"""What goes wrong with scrapes in every fleet: they come late, are lost, or find a target that does not answer."""

from __future__ import annotations

import zlib

import numpy as np

from inferdoc.simulate.surroundings import Surroundings


class ScrapeNoise:
    """Draws for each target by itself, so that one target more or less changes nothing for the others."""

    def __init__(self, surroundings: Surroundings, interval: float) -> None:
        self._drawn = surroundings
        self._refused = surroundings.refused * interval / 3600.0
        self._rngs: dict[str, np.random.Generator] = {}

    def _rng(self, target: str) -> np.random.Generator:
        if target not in self._rngs:
            self._rngs[target] = np.random.default_rng([self._drawn.seed, 41, zlib.crc32(target.encode())])
        return self._rngs[target]

    def late(self, target: str) -> float:
        """Seconds by which the next scrape is off its place, either way."""
        return float(self._rng(target).uniform(-1.0, 1.0)) * self._drawn.jitter

    def lost(self, target: str) -> bool:
        """Whether a scrape never happens."""
        return float(self._rng(target).random()) < self._drawn.lost

    def refused(self, target: str) -> bool:
        """Whether a target that lives does not answer: `up` is 0 for one scrape."""
        return float(self._rng(target).random()) < self._refused
