"""What clients send: arrivals, lengths, shared prefixes, adapters; and how they behave when answers are late."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from inferdoc.simulate.blocks import Key
from inferdoc.simulate.request import EngineRequest
from inferdoc.simulate.scenario import FaultSpec, Length, Prefixes, Stream

SINGLE = 1 << 32
"""Numbers from here on are those of schemas and images that no other request shares."""
MOST_IMAGES = 16
CONVERSATION = 1 << 40
"""Numbers of prefixes from here on are those of conversations."""
SET_ANEW = ("adapters", "logprobs", "structured", "stop_share", "schemas", "schema_seconds", "image_pool")
"""What a fault replaces; it multiplies the rest."""


@dataclass(slots=True)
class Draft:
    """What a client wants, before it is sent: it may be sent several times. group: shared prefix, -1 for none; shared:
    its tokens as the engine finds them, expected: as the router does;
    logprobs: it requests those of its prompt; structured: a grammar constrains the answer."""

    prompt_id: int
    stream: int
    prompt: int
    output: int
    max_tokens: int
    group: int
    shared: int
    adapter: int
    logprobs: bool = False
    structured: bool = False
    expected: int = 0
    attempt: int = 0
    schema: int = -1
    schema_seconds: float = 0.0
    tools: bool = False
    images: tuple[int, ...] = ()
    turns_left: int = 0


@dataclass
class Traffic:
    """One stream while it runs; `spec` is replaced when a fault changes what clients do."""

    index: int
    spec: Stream
    rng: np.random.Generator
    in_flight: int = 0
    _weights: dict[tuple[int, float], list[float]] = field(default_factory=dict)
    _uniform: list[float] = field(default_factory=list)
    _normal: list[float] = field(default_factory=list)

    def rate(self, now: float) -> float:
        """Requests per second at a moment."""
        spec = self.spec
        # Plain requests are at their level at once; conversations were under way before the first scrape.
        begins = -math.inf if spec.turns > 1.0 and not spec.start else spec.start
        if now < begins or (spec.stop is not None and now >= spec.stop):
            return 0.0
        if spec.pattern == "bursts":
            return spec.rate * (spec.burst if now % spec.burst_every < spec.burst_for else 1.0)
        if spec.pattern == "waves":
            return spec.rate * max(0.0, 1.0 + spec.burst * math.sin(2 * math.pi * (now + spec.phase) / spec.wave))
        if spec.pattern == "ramp":
            phase = 1.0 - abs(2.0 * min(max(now / spec.wave, 0.0), 1.0) - 1.0)
            return spec.rate * (1.0 + (spec.burst - 1.0) * phase)
        if spec.pattern == "measured":
            return spec.rate * spec.rates[min(max(int(now // spec.burst_every), 0), len(spec.rates) - 1)]
        return spec.rate

    def arrivals(self, now: float, length: float) -> list[float]:
        """Moments within [now, now + length) at which a request is sent."""
        if self.spec.clients:
            missing = self.spec.clients - self.in_flight
            return [now + self.rng.uniform(0, length) for _ in range(missing)] if now >= self.spec.start else []
        # Of a conversation only the first turn arrives by itself.
        count = int(self.rng.poisson(self.rate(now) / self.spec.turns * length))
        return sorted((now + self.rng.random(count) * length).tolist()) if count else []

    def draft(self, prompt_id: int) -> Draft:
        """The next request of the stream."""
        spec = self.spec
        prefixes = spec.prefixes
        group, shared = -1, 0
        if prefixes.count and prefixes.tokens and self._random() < prefixes.share:
            popular = prefixes.popular > 0 and self._random() < prefixes.popular
            group = 0 if popular else bisect_left(self._zipf(prefixes), self._random())
            shared = prefixes.tokens
        prompt = self._length(spec.prompt) + shared
        output = self._length(spec.output)
        cut = self._random() >= spec.stop_share
        most = output if cut else int(output * 1.5) + 16
        adapter = -1
        if spec.adapters and self._random() < spec.adapter_share:
            adapter = int(self._random() * spec.adapters)
        stable = shared if prefixes.stable else 0
        logprobs = spec.logprobs > 0 and self._random() < spec.logprobs
        structured = spec.structured > 0 and self._random() < spec.structured
        found = stable if prefixes.rendered else 0
        seen = group if stable else -1
        draft = Draft(prompt_id, self.index, prompt, output, most, seen, found, adapter, logprobs, structured, stable)
        if spec.structured or spec.tools or spec.images:
            self._send(draft)
        if spec.turns > 1.0:
            # Its prefix is the conversation so far: one growing prefix per conversation.
            draft.group, draft.shared, draft.expected = CONVERSATION + prompt_id, draft.prompt, 0
            draft.turns_left = int(self.rng.geometric(1.0 / spec.turns)) - 1
        return draft

    def next_turn(self, draft: Draft, prompt_id: int) -> tuple[float, Draft] | None:
        """What the client of an answered turn sends next, and after how many seconds; None where the conversation is
        over. Half as long a message as the first one, after the conversation."""
        if draft.turns_left <= 0:
            return None
        history = draft.prompt + draft.output
        message, output = max(1, self._length(self.spec.prompt) // 2), self._length(self.spec.output)
        most = output if draft.max_tokens == draft.output else int(output * 1.5) + 16
        following = replace(
            draft,
            prompt_id=prompt_id,
            prompt=history + message,
            shared=history + message,
            expected=history,
            output=output,
            max_tokens=most,
            attempt=0,
            turns_left=draft.turns_left - 1,
        )
        return float(self.rng.exponential(self.spec.think)), following

    def _send(self, draft: Draft) -> None:
        """What a request wants besides text: a schema, tools, images (each is worth prompt tokens)."""
        spec = self.spec
        if draft.structured and spec.schema_seconds:
            draft.schema = int(self._random() * spec.schemas) if spec.schemas else SINGLE + draft.prompt_id
            draft.schema_seconds = spec.schema_seconds * math.exp(0.4 * self._gauss())
        draft.tools = bool(spec.tools) and self._random() < spec.tools
        if spec.images:
            count, pool = int(self.rng.poisson(spec.images)), spec.image_pool
            first = SINGLE + draft.prompt_id * MOST_IMAGES
            draft.images = tuple(
                int(self._random() * pool) if pool else first + i for i in range(min(count, MOST_IMAGES))
            )
            draft.prompt += len(draft.images) * IMAGE_TOKENS

    def _length(self, spec: Length) -> int:
        if spec.quantiles:
            place = self._random() * (len(spec.quantiles) - 1)
            below = int(place)
            shorter, longer = spec.quantiles[below], spec.quantiles[below + 1]
            return max(1, round(shorter + (longer - shorter) * (place - below)))
        if spec.sigma == 0:
            return int(spec.median)
        drawn = spec.median * math.exp(spec.sigma * self._gauss())
        return int(min(max(drawn, spec.min), spec.max))

    def _zipf(self, prefixes: Prefixes) -> list[float]:
        """Cumulative shares of the prefixes; the last covers all above it."""
        key = (prefixes.count, prefixes.zipf)
        if key not in self._weights:
            weights = 1.0 / np.arange(1, prefixes.count + 1) ** prefixes.zipf
            self._weights[key] = np.cumsum(weights / weights.sum())[:-1].tolist()
        return self._weights[key]

    def _random(self) -> float:
        if not self._uniform:
            self._uniform = self.rng.random(1024).tolist()
        return self._uniform.pop()

    def _gauss(self) -> float:
        if not self._normal:
            self._normal = self.rng.standard_normal(1024).tolist()
        return self._normal.pop()

    def change(self, fault: FaultSpec) -> None:
        """Clients send something else from now on. Factors multiply what they sent before."""
        spec = self.spec
        rate = 1.0 if fault.rate is None else fault.rate
        prefixes = msgspec.structs.replace(
            spec.prefixes,
            count=spec.prefixes.count if fault.prefix_count is None else fault.prefix_count,
            stable=spec.prefixes.stable and not fault.unstable,
            rendered=spec.prefixes.rendered and not fault.template,
            popular=spec.prefixes.popular if fault.popular is None else fault.popular,
        )
        set_anew = {name: getattr(fault, name) for name in SET_ANEW if getattr(fault, name) is not None}
        self.spec = msgspec.structs.replace(
            spec,
            rate=spec.rate * rate,
            clients=round(spec.clients * rate),
            prompt=scaled(spec.prompt, fault.prompt),
            output=scaled(spec.output, fault.output),
            prefixes=prefixes,
            images=spec.images * (1.0 if fault.images is None else fault.images),
            **set_anew,
        )


def scaled(length: Length, factor: float | None) -> Length:
    """The same lengths, each so many times as long; None: as they are."""
    if factor is None:
        return length
    quantiles = tuple(each * factor for each in length.quantiles)
    most = int(length.max * max(factor, 1.0))
    return msgspec.structs.replace(length, median=length.median * factor, max=most, quantiles=quantiles)


def make_request(draft: Draft, number: int, now: float, block_size: int, longest: int) -> EngineRequest:
    """A request for an engine; the prompt is cut where it would not leave room for its answer."""
    prompt = max(1, min(draft.prompt, longest - draft.output - 1))
    segments: list[tuple[Key, int]] = []
    shared = min(draft.shared, prompt) // block_size if draft.group >= 0 else 0
    if shared:
        segments.append((("prefix", draft.stream, draft.group, draft.adapter), shared))
    rest = prompt // block_size - shared
    if rest > 0:
        segments.append((("prompt", draft.prompt_id, draft.adapter), rest))
    return EngineRequest(
        number, prompt, draft.output, draft.max_tokens, segments, now, draft.adapter, draft.stream, draft.prompt_id,
        draft.group, draft.attempt, now, logprobs=draft.logprobs, structured=draft.structured, schema=draft.schema,
        schema_seconds=draft.schema_seconds, tools=draft.tools, images=draft.images,
    )  # fmt: skip


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
