"""Which targets of a store are read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from inferdoc.source.tables import Labels
from inferdoc.store.extent import StoredTarget


@dataclass(frozen=True)
class Part:
    """Which targets of a store are read: those whose hash lies in [begin, end) of 0 to 1. What is scraped of one pod is
    in one part."""

    begin: float
    end: float

    def has(self, target: Mapping[str, str]) -> bool:
        """Whether a target belongs to it."""
        who = target.get("pod") or target.get("instance", "").rpartition(":")[0]
        return self.begin <= zlib.crc32(who.encode()) / 2**32 < self.end


def parts_of(begin: float, count: int) -> list[Part]:
    """The targets from `begin` on, in so many parts."""
    width = (1.0 - begin) / max(count, 1)
    edges = [begin + width * number for number in range(count)]
    return [Part(low, high) for low, high in zip(edges, [*edges[1:], 1.0], strict=False)]


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Chosen:
    """A test of targets: those of a part, without some. It does not change, so the store keeps what passed it."""

    def __init__(self, part: Part | None, without: frozenset[Labels]) -> None:
        self._part, self._without = part, without

    def __call__(self, target: dict[str, str]) -> bool:
        return as_key(target) not in self._without and (self._part is None or self._part.has(target))


def as_key(labels: Mapping[str, str]) -> Labels:
    """The labels of a target, to look up by."""
    return labels.key if isinstance(labels, StoredTarget) else frozenset(labels.items())
