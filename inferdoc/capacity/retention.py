"""How long an unused KV block lives, what hits that gives, and what a larger cache would."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class PrefixCache:
    """tokens: KV tokens of an engine; usage: share that running requests hold; computed, generated: tokens/s that are
    written into it; hits: share of prompt tokens that hit; kept_to_half: share of those hits whose block was used again
    within half its life."""

    tokens: float
    usage: float
    computed: float
    generated: float
    hits: float = 0.0
    kept_to_half: float = 1.0

    @property
    def life(self) -> float:
        """Seconds that a block lives unused."""
        return block_life_seconds(self.tokens, self.usage, self.computed + self.generated)


def block_life_seconds(tokens: float, usage: float, written: float) -> float:
    """Seconds that an unused block lives: C (1 - u) / tokens written per second."""
    return tokens * (1.0 - usage) / written


def life_gain(memory: float, usage: float) -> float:
    """Life of a block with so many times the memory over that of now: (m - u) / (1 - u), as running requests take no
    more of it."""
    return (memory - usage) / (1.0 - usage)


def hits_by_chance(uses_per_life: float, replicas: int) -> float:
    """Hits of a prefix that is used so often within the life of a block, over replicas chosen at random:
    1 - exp(-r x tau / N). A single reuse hits one in N. 0..1."""
    return 1.0 - math.exp(-uses_per_life / replicas)


def hits_with_memory(cache: PrefixCache, memory: float, reusable: float = 1.0) -> tuple[float, float]:
    """Hit share, and seconds that a block lives, with so many times the memory: every doubling of the life gains what
    the last one did, and tokens that hit are not written again. reusable: the most that could ever hit.

    A working assumption; the band is from none to twice the gain."""
    gain = cache.hits * (1.0 - cache.kept_to_half)
    prompts = cache.computed / (1.0 - cache.hits)

    def life(hits: float) -> float:
        room = cache.tokens * (memory - cache.usage)
        return room / (prompts * (1.0 - hits) + cache.generated)

    low, high = 0.0, reusable
    for _ in range(60):
        middle = (low + high) / 2
        expected = cache.hits + gain * math.log2(life(middle) / cache.life)
        low, high = (middle, high) if expected > middle else (low, middle)
    return low, life(low)
