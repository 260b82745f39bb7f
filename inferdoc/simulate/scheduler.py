"""The scheduler of one engine: who is admitted when, and what a step is made of.

As in vLLM V1: running streams first, then prompt chunks from what is left of the token budget, then waiting requests
whose whole prompt fits the KV cache. A stream that needs a block when none is free makes the scheduler preempt the
request admitted last, which is recomputed later; in such a step nobody is admitted.
"""

from __future__ import annotations

import numpy as np

from inferdoc.simulate.batch import Batch, EngineConfig
from inferdoc.simulate.hardware import StepTime
from inferdoc.simulate.request import EngineRequest, RequestState


class Scheduler(Batch):
    """Admission into a batch."""

    def __init__(self, config: EngineConfig, timing: StepTime, rng: np.random.Generator, now: float) -> None:
        super().__init__(config, timing, rng, now)
        self._loaded: dict[int, None] = {}

    def _step(self, limit: float) -> bool:
        """One step, or several equal ones up to `limit`. False if there is nothing to do."""
        preempted = False
        if self._decoding:
            while self._fresh_blocks(1) > self.pool.free:
                self._preempt()
                preempted = True
        left = self.config.budget - self._decoding * (1 + self.config.draft)
        chunks = self._chunks(left)
        pause = 0.0
        if self.waiting and self._dirty and not preempted:
            pause = self._admit(left - sum(n for _, n in chunks), chunks)
        if chunks:
            self._mixed(chunks, pause)
            return True
        if self._decoding:
            self._decode(limit)
            return True
        return False

    def _chunks(self, left: int) -> list[tuple[EngineRequest, int]]:
        chunks = []
        for request in self.prefilling.values():
            take = self._chunk(request, left)
            if take <= 0:
                break
            chunks.append((request, take))
            left -= take
        return chunks

    def _chunk(self, request: EngineRequest, left: int) -> int:
        take = min(request.todo, left)
        return min(take, self.config.long_prefill) if self.config.long_prefill else take

    def _reserve(self) -> int:
        """Blocks that admission leaves alone: what the streams need in this step, and the watermark."""
        due = self._fresh_blocks(1) if self._decoding else 0
        return due + (int(self.config.watermark * self.pool.total) if self.running else 0)

    def _adapter_fits(self, request: EngineRequest) -> bool:
        slots = self.config.loras
        return request.adapter < 0 or request.adapter in self.adapters or len(self.adapters) < slots

    def _admit(self, left: int, chunks: list[tuple[EngineRequest, int]]) -> float:
        """Admit in order of arrival; requests whose adapter has no slot are passed over. Returns seconds of adapter
        loading and of image encoding."""
        config, pause, skipped = self.config, 0.0, []
        self._dirty = False
        while self.waiting and left > 0 and len(self.running) < config.max_seqs:
            request = self.waiting[0]
            if config.loras and not self._adapter_fits(request):
                skipped.append(self.waiting.popleft())
                continue
            if self._fetch(request):
                self.waiting.popleft()
                continue
            if not self._enter(request):
                break
            self.waiting.popleft()
            if request.adapter >= 0:
                pause += self._take_slot(request.adapter)
            pause += request.encode
            take = self._chunk(request, left)
            chunks.append((request, take))
            left -= take
        self._dirty = bool(self.waiting) and left <= 0
        self.waiting.extendleft(reversed(skipped))
        return pause

    def _fetch(self, request: EngineRequest) -> bool:
        """Whether the KV of a request is being copied from another tier, so that it waits outside the queue."""
        return False

    def _enter(self, request: EngineRequest) -> bool:
        again = request.first >= 0 or request.preemptions > 0
        if request.external and request.scheduled < 0 and not again:
            request.todo = max(1, request.prompt - request.hits - request.external)
        else:
            tokens = request.prompt + (request.base if again else 0)
            lookup = self.config.prefix_caching and not request.logprobs
            admitted = self.pool.admit(request.segments, tokens, self.now, self._reserve(), lookup)
            if admitted is None:
                return False
            request.blocks, hits = admitted
            request.todo = tokens - hits
            if request.scheduled < 0:
                request.hits = hits
        if request.scheduled < 0:
            self._first_scheduled(request)
        request.state = RequestState.PREFILL
        self.running[request.id] = request
        self.prefilling[request.id] = request
        return True

    def _first_scheduled(self, request: EngineRequest) -> None:
        request.scheduled = self.now
        stats = self.stats
        # vLLM skips the prefix cache and its statistics for prompt log-probabilities.
        if self.config.prefix_caching and not request.logprobs:
            stats.prefix_queries += request.prompt
            stats.prefix_hits += request.hits
            stats.device_tokens += request.hits
        if request.external:
            stats.external_hits += request.external
            if request.handoff is None:
                stats.host_tokens += request.external
            else:
                stats.p2p_tokens += request.external
        if request.external or self.config.host_blocks:
            stats.external_queries += request.prompt - request.hits

    def _take_slot(self, adapter: int) -> float:
        """A slot for the adapter; one that was pushed out has to be copied to the GPU again."""
        self.adapters[adapter] = self.adapters.get(adapter, 0) + 1
        if adapter in self._loaded:
            return 0.0
        while len(self._loaded) >= self.config.loras:
            old = next((a for a in self._loaded if a not in self.adapters), None)
            if old is None:
                break
            del self._loaded[old]
        self._loaded[adapter] = None
        return self.config.lora_load
