"""A second tier of the KV cache in host memory: what the native offload connector stores there, and reads back.

As vLLM's OffloadingConnector: prompts are copied out once they are computed; a prompt found there and not on the GPU is
copied back while its request waits (deferred), and only the rest is computed. Copies in one direction share the path
between host and GPU equally.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from inferdoc.simulate.blocks import Key
from inferdoc.simulate.link import Link


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
