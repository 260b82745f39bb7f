"""The paged KV cache of one engine: blocks of live requests, and the prefix cache that lives in the free ones.

As in vLLM: a block is used while a live request refers to it; blocks nobody refers to keep their content and stand
in a free list, oldest use first, from which new blocks are taken. Prefixes are followed as whole segments (a shared
prefix, the rest of a prompt) whose last blocks are evicted first, never block by block.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

Key = Hashable
HITS_KEPT = 4
"""Hits of a block that vLLM remembers for its residency histograms (v1/core/kv_cache_metrics.py)."""


@dataclass(slots=True)
class Cached:
    """A segment with known content. blocks: how many are still there; refs: live requests that use it; born: when its
    beginning was computed; later: blocks that were added to it, and when; hits: when its last few hits came, s."""

    blocks: int
    refs: int
    born: float
    later: list[tuple[int, float]] = field(default_factory=list)
    hits: list[float] = field(default_factory=list)

    def grow(self, blocks: int, now: float) -> None:
        """A longer prompt that begins with it was computed."""
        self.blocks += blocks
        self.later.append((blocks, now))

    def hit(self, now: float) -> None:
        """A request found it."""
        self.hits = [*self.hits[1 - HITS_KEPT :], now]

    def shrink(self, blocks: int) -> list[tuple[int, float]]:
        """Blocks off its end, the youngest first, and when each were computed."""
        self.blocks -= blocks
        gone = []
        while blocks and self.later:
            last, born = self.later.pop()
            taken = min(last, blocks)
            gone.append((taken, born))
            blocks -= taken
            if last > taken:
                self.later.append((last - taken, born))
        return [*gone, (blocks, self.born)] if blocks else gone

    def hits_since(self, born: float) -> list[float]:
        """The hits that are remembered of blocks computed then."""
        return [hit for hit in self.hits if hit > born]


@dataclass(slots=True)
class AllocatedBlocks:
    """What one request holds. own: private blocks; segments: shared ones, by key."""

    own: int = 0
    segments: list[Key] = field(default_factory=list)


Evicted = Callable[[int, float, float, list[float]], None]
"""Called with blocks, lifetime, time since the last hit (or birth) and gaps between hits (s) of what is evicted."""


class BlockPool:
    """total = used + free, free = blank + cached without a reference. Sizes in blocks."""

    def __init__(self, total: int, block_size: int, evicted: Evicted | None = None) -> None:
        self.total = total
        self.block_size = block_size
        self.used = 0
        self.blank = total
        self.idle = 0
        self._cached: dict[Key, Cached] = {}
        self._lru: OrderedDict[Key, Cached] = OrderedDict()
        self._evicted = evicted
        self._serial = 0

    @property
    def free(self) -> int:
        return self.total - self.used

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def matched(self, segments: list[tuple[Key, int]], tokens: int) -> tuple[int, list[Key]]:
        """Blocks of the prompt found in the cache and the segments they lie in. At least one token is left to
        compute."""
        most = max(tokens - 1, 0) // self.block_size
        hits, keys = 0, []
        for key, blocks in segments:
            entry = self._cached.get(key)
            if entry is None or hits >= most:
                break
            have = min(entry.blocks, blocks)
            hits += have
            keys.append(key)
            if have < blocks:
                break
        return min(hits, most), keys

    def admit(
        self, segments: list[tuple[Key, int]], tokens: int, now: float, reserve: int = 0, lookup: bool = True
    ) -> tuple[AllocatedBlocks, int] | None:
        """Blocks for `tokens` of context, all or nothing. Returns the allocated blocks and the cached tokens."""
        hits, keys = self.matched(segments, tokens) if lookup else (0, [])
        fresh = self.blocks(tokens) - hits
        pinned = sum(self._cached[k].blocks for k in keys if self._cached[k].refs == 0)
        if fresh + pinned + reserve > self.free:
            return None
        for key in keys:
            entry = self._cached[key]
            if entry.refs == 0:
                del self._lru[key]
                self.idle -= entry.blocks
                self.used += entry.blocks
            entry.refs += 1
            entry.hit(now)
        self.take(fresh, now)
        return AllocatedBlocks(fresh, keys), hits * self.block_size

    def take(self, blocks: int, now: float) -> None:
        """Blocks out of the free list: blank ones, then the longest unused. The caller has made sure that they fit."""
        self.used += blocks
        if blocks <= self.blank:
            self.blank -= blocks
            return
        missing, self.blank = blocks - self.blank, 0
        while missing > 0:
            key, entry = next(iter(self._lru.items()))
            gone = min(missing, entry.blocks)
            layers = entry.shrink(gone)
            self.idle -= gone
            missing -= gone
            if self._evicted is not None:
                for count, born in layers:
                    hits = entry.hits_since(born)
                    gaps = [later - earlier for earlier, later in itertools.pairwise(hits)]
                    self._evicted(count, now - born, now - (hits[-1] if hits else born), gaps)
            if entry.blocks == 0:
                del self._lru[key]
                self._cached.pop(key, None)

    def commit(self, table: AllocatedBlocks, segments: list[tuple[Key, int]], now: float) -> None:
        """The prompt is computed: its segments may be found by others from now on."""
        for key, blocks in segments:
            if blocks <= 0:
                continue
            entry = self._cached.get(key)
            if entry is None:
                if blocks > table.own:
                    return
                self._cached[key] = Cached(blocks, 1, now)
                table.own -= blocks
                table.segments.append(key)
            elif key in table.segments:
                grown = min(max(blocks - entry.blocks, 0), table.own)
                entry.grow(grown, now)
                table.own -= grown
            else:
                return

    def release(self, table: AllocatedBlocks, now: float) -> None:
        """Back to the free list, content kept: what was generated goes first, the shared prefix last."""
        if table.own:
            self._serial += 1
            key: Key = ("done", self._serial)
            self._park(key, Cached(table.own, 0, now))
        for key in reversed(table.segments):
            entry = self._cached[key]
            entry.refs -= 1
            if entry.refs == 0:
                self._park(key, entry)
        table.own = 0
        table.segments = []

    def _park(self, key: Key, entry: Cached) -> None:
        self._cached[key] = entry
        self._lru[key] = entry
        self.used -= entry.blocks
        self.idle += entry.blocks
        if entry.blocks == 0:
            del self._lru[key], self._cached[key]

    def forget(self) -> None:
        """Drop every cached block that nobody uses (a prefix cache reset)."""
        for key in list(self._lru):
            self._cached.pop(key, None)
        self._lru.clear()
        self.blank += self.idle
        self.idle = 0

    def check(self) -> None:
        """Raise AssertionError where blocks were lost or made."""
        assert self.used >= 0 and self.blank >= 0 and self.idle >= 0
        assert self.used + self.blank + self.idle == self.total, (self.used, self.blank, self.idle, self.total)
        assert self.idle == sum(e.blocks for e in self._lru.values())
