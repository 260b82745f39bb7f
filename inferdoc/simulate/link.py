"""The network path over which a decode engine reads KV: concurrent reads share it equally."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field

from inferdoc.simulate.blocks import Key
from inferdoc.simulate.request import EngineRequest

POST = 0.8e-3
"""Seconds to post a read, plus a little per descriptor (nixl_post_time_seconds of the lab: 2.8 ms for 78
descriptors)."""
POST_PER_DESCRIPTOR = 25e-6


@dataclass
class Link:
    """rate: bytes/s of the whole link; flow: bytes/s that one read reaches at most; setup: seconds a read takes at
    least."""

    rate: float
    flow: float = float("inf")
    setup: float = 2e-3
    _now: float = float("-inf")
    _virtual: float = 0.0
    _serial: int = 0
    _reads: list[tuple[float, int, EngineRequest, float, float]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._reads)

    def _share(self) -> float:
        return min(self.rate / len(self._reads), self.flow)

    def start(self, request: EngineRequest, size: float, now: float) -> None:
        self.settle(now)
        self._serial += 1
        heapq.heappush(self._reads, (self._virtual + size, self._serial, request, now, size))

    def settle(self, now: float) -> None:
        """Move every read on to `now`, at the present rate. To be called before the rate changes."""
        if self._reads and now > self._now:
            self._virtual += self._share() * (now - self._now)
        self._now = max(now, self._now)

    def next_end(self) -> float:
        """When the next read ends, if nothing changes before."""
        if not self._reads:
            return float("inf")
        return self._now + max(self._reads[0][0] - self._virtual, 0.0) / self._share() + self.setup

    def finished(self, now: float) -> list[tuple[EngineRequest, float, float]]:
        """Reads that ended by `now`: request, seconds taken, bytes."""
        done = []
        while self._reads:
            end = self.next_end()
            if end > now:
                break
            self.settle(end - self.setup)
            _, _, request, started, size = heapq.heappop(self._reads)
            done.append((request, end - started, size))
        return done

    def drop(self, request: EngineRequest, now: float) -> None:
        self.settle(now)
        self._reads = [r for r in self._reads if r[2] is not request]
        heapq.heapify(self._reads)


@dataclass
class OffloadStats:
    """What the connector counts: bytes and seconds of its copies."""

    load_bytes: float = 0.0
    load_seconds: float = 0.0
    store_bytes: float = 0.0
    store_seconds: float = 0.0


class HostTier:
    """blocks: how many fit; link: the path to the GPU. The segments used longest ago are dropped first."""

    def __init__(self, blocks: int, block_bytes: int, rate: float) -> None:
        self.blocks = blocks
        self.block_bytes = block_bytes
        self.link = Link(rate)
        self.stats = OffloadStats()
        self._blocks: OrderedDict[Key, int] = OrderedDict()
        self._used = 0

    def matched(self, segments: list[tuple[Key, int]]) -> int:
        """Blocks at the beginning of a prompt that lie here."""
        found = 0
        for key, blocks in segments:
            have = min(self._blocks.get(key, 0), blocks)
            if have:
                self._blocks.move_to_end(key)
            found += have
            if have < blocks:
                break
        return found

    def store(self, segments: list[tuple[Key, int]]) -> None:
        """Copy out what is not here yet. Stores run beside the computing and hold nobody up."""
        for key, blocks in segments:
            more = blocks - self._blocks.get(key, 0)
            self._blocks[key] = max(blocks, self._blocks.get(key, 0))
            self._blocks.move_to_end(key)
            if more > 0:
                self._used += more
                self.stats.store_bytes += more * self.block_bytes
                self.stats.store_seconds += more * self.block_bytes / self.link.rate
        while self._used > self.blocks:
            _, gone = self._blocks.popitem(last=False)
            self._used -= gone
