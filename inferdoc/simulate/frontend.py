"""The API server in front of one engine: tokenising, images, grammars, the limit on queued requests.

Its processes take requests in order of arrival. What they stream out costs them time too, so a front end that is busy
with answers is late with prompts; the engine behind it never sees that wait.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field

from inferdoc.simulate.request import EngineRequest

STREAMED = 25e-6
"""Seconds of an API server process per token it streams out: detokenise, build the chunk, write it (own choice: one
process then streams some 40,000 tokens/s at most)."""
IMAGE = 0.15
"""Seconds to decode, resize and normalise one image (own choice: a photograph of 12 megapixels)."""
IMAGE_FOUND = 1e-3
"""Seconds for an image that the processor cache holds (own choice: hashing its bytes)."""
IMAGES_KEPT = 400
"""Images in the processor cache: --mm-processor-cache-gb 4 (its default) at some 10 MB each."""
IMAGE_TOKENS = 576
"""Prompt tokens of an image: 24 x 24 patches, as in LLaVA 1.5."""
BUSIEST = 0.95
"""Most of a process that streaming takes from prompts."""


@dataclass
class FrontEnd:
    """free: when each process is next idle; slower: factor on all its work (1: healthy); busy: seconds worked."""

    servers: int
    now: float
    slower: float = 1.0
    busy: float = 0.0
    rejected: int = 0
    media_queries: int = 0
    media_hits: int = 0
    _free: list[float] = field(init=False)
    _images: OrderedDict[int, None] = field(default_factory=OrderedDict)
    _streamed: int = 0
    _updated: float = 0.0
    _share: float = 0.0

    def __post_init__(self) -> None:
        self._free = [self.now] * max(1, self.servers)
        self._updated = self.now

    def ready_at(self, now: float, work: float, streamed: int) -> float:
        """When a request that needs `work` seconds of a process leaves it. streamed: tokens sent out so far."""
        passed = now - self._updated
        if passed > 1.0:
            load = STREAMED * self.slower * (streamed - self._streamed) / (passed * len(self._free))
            self._share = min(BUSIEST, load)
            self._updated, self._streamed = now, streamed
        work *= self.slower / (1.0 - self._share)
        self.busy += work
        end = max(heapq.heappop(self._free), now) + work
        heapq.heappush(self._free, end)
        return end

    def lag(self, now: float) -> float:
        """Seconds by which a token leaves late because every process is at work."""
        return max(0.0, self._free[0] - now)

    def images(self, request: EngineRequest) -> tuple[float, int]:
        """Seconds for the images of a request, and how many of them are new."""
        new = 0
        for image in request.images:
            if image in self._images:
                self._images.move_to_end(image)
                continue
            new += 1
            self._images[image] = None
            if len(self._images) > IMAGES_KEPT:
                self._images.popitem(last=False)
        self.media_queries += len(request.images)
        self.media_hits += len(request.images) - new
        return new * IMAGE + (len(request.images) - new) * IMAGE_FOUND, new


@dataclass
class Grammars:
    """Compiles schemas on a pool of threads, each once per process; a request waits, deferred, until its own is
    ready."""

    workers: int
    now: float
    _free: list[float] = field(init=False)
    _ready: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free = [self.now] * max(1, self.workers)

    def ready_at(self, schema: int, seconds: float, now: float) -> float:
        """When the grammar of a schema that takes `seconds` to compile is there."""
        if schema not in self._ready:
            end = max(heapq.heappop(self._free), now) + seconds
            heapq.heappush(self._free, end)
            self._ready[schema] = end
        return self._ready[schema]
