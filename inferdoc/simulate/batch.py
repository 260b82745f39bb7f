"""The batch of one engine: running streams, steps of decoding and of prompts, and what each of them leaves in the
statistics.

Streams advance together, so the batch keeps one token clock instead of a counter per stream: a stream ends when the
clock reaches its end, and needs a new block whenever the clock meets its phase within a block. Steps in which only
decoding happens are equal and are computed together up to the next event: the cost of a simulated hour grows with its
requests, not with its steps.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque

import numpy as np

from inferdoc.simulate.blocks import BlockPool
from inferdoc.simulate.hardware import StepTime
from inferdoc.simulate.request import EngineRequest, RequestState, expected
from inferdoc.simulate.scenario import EngineFlags, Role
from inferdoc.simulate.stats import EngineStats

HICCUPS = 0.02
"""Pauses of the process per second (garbage collection, co-tenants), 20 to 80 ms each (own choice: healthy tails
wander)."""

CALLS = 0.7
"""Share of the answers to requests with tools that call one (own choice: agents call more than they talk)."""


class EngineConfig(EngineFlags, frozen=True):
    """Flags of the engine, and what follows from its pool. blocks: of the KV cache; kv_bytes: of a token; workers: its
    GPUs; handshake: seconds until an unanswered one fails; host_blocks: KV blocks in host memory (0: no offloading);
    host_link: bytes/s to it."""

    blocks: int = 4096
    kv_bytes: int = 131072
    workers: int = 1
    handshake: float = 5.0
    role: Role = "both"
    host_blocks: int = 0
    host_link: float = 50e9


class Batch(ABC):
    """Running requests and their streams. `now` in seconds; `waiting` holds those that are not admitted, in order."""

    def __init__(self, config: EngineConfig, timing: StepTime, rng: np.random.Generator, now: float) -> None:
        self.config = config
        self.timing = timing
        self.now = now
        self.stats = EngineStats(config.max_len, config.draft)
        self.pool = BlockPool(config.blocks - 1, config.block_size, self._evicted if config.kv_metrics else None)
        self.waiting: deque[EngineRequest] = deque()
        self.running: dict[int, EngineRequest] = {}
        self.prefilling: dict[int, EngineRequest] = {}
        self.adapters: dict[int, int] = {}
        self.accept = list(config.accept) or [0.8] * config.draft
        self.corrupt = 0.0
        self._structured = 0
        self.parser_misses = 0.0
        self._clock = 0
        self._context = 0
        self._decoding = 0
        self._crossing = [0] * config.block_size
        self._ends: list[tuple[int, int, EngineRequest]] = []
        self._dirty = False
        self._progress = 0.0
        self._steps = 0
        self._rng = rng
        self._noise: list[float] = []
        self._hiccup = now + rng.exponential(1 / HICCUPS)

    @abstractmethod
    def _ended(self, request: EngineRequest) -> None:
        """A request has all its tokens: the engine decides what becomes of its blocks."""

    def _lag(self) -> float:
        """Seconds by which the front end sends a token late."""
        return 0.0

    def _evicted(self, blocks: int, lifetime: float, idle: float, gaps: list[float]) -> None:
        sampled = int(self._rng.poisson(blocks * 0.01))
        if sampled:
            self.stats.lifetime.observe(lifetime, sampled)
            self.stats.idle.observe(idle, sampled)
            for gap in gaps:
                self.stats.reuse.observe(gap, sampled)

    def _prune(self) -> None:
        """Forget the ends of streams that were preempted or left."""
        ends = self._ends
        while ends and (ends[0][2].state != RequestState.DECODE or ends[0][0] != ends[0][2].end):
            heapq.heappop(ends)

    def _collect(self) -> None:
        """Streams that have reached their length."""
        ends = self._ends
        while ends and ends[0][0] <= self._clock:
            end, _, request = heapq.heappop(ends)
            if request.state == RequestState.DECODE and end == request.end:
                request.last = self.now
                self.stats.generation -= self._clock - end
                self._finish(request)

    def _jitter(self) -> float:
        if not self._noise:
            self._noise = np.exp(self._rng.normal(0.0, 0.04, 512)).tolist()
        return self._noise.pop()

    def _decode(self, limit: float) -> None:
        """Decoding alone: as many steps as pass before something else can happen."""
        batch, draft = self._decoding, self.config.draft
        rate = 1.0
        if draft:
            rate += self._drafted()[0]
        cost = self.timing.step(batch * (1 + draft), self._context, 0, 0.0, batch)
        seconds = cost.seconds * self._jitter()
        steps = max(1, -int(-(limit - self.now) // seconds))
        self._prune()
        rest = self._ends[0][0] - self._clock
        steps = min(steps, max(1, round(rest / rate)))
        tokens = self._tokens(steps, rate, rest)
        need, free = self._fresh_blocks(tokens), self.pool.free
        if need > free:
            fits = bisect_right(range(tokens), free, key=self._fresh_blocks) - 1
            tokens, need = max(fits, 1), self._fresh_blocks(fits)
            steps = max(1, min(steps, -int(-tokens // rate)))
        if tokens > 0:
            self.pool.take(need, self.now)
        self._advance_streams(tokens, steps, seconds, cost.compute, cost.memory)
        self.stats.iteration.observe(batch * tokens / steps, steps)
        self._collect()

    def _drafted(self) -> tuple[float, float]:
        """(accepted, verified) draft tokens of the average stream."""
        free = expected(self.accept)
        if not self._structured:
            return free
        bound, share = expected(self.accept, self.config.grammar), self._structured / self._decoding
        return free[0] + share * (bound[0] - free[0]), free[1] + share * (bound[1] - free[1])

    def _verified(self) -> int:
        """Tokens that each stream gains in one step, as far as there are blocks for them."""
        self._prune()
        tokens = self._tokens(1, 1.0 + self._drafted()[0], self._ends[0][0] - self._clock)
        while tokens > 1 and self._fresh_blocks(tokens) > self.pool.free:
            tokens -= 1
            self._progress += 1.0
        return tokens

    def _tokens(self, steps: int, rate: float, rest: int) -> int:
        """Tokens that each stream gains in so many steps; rest: until the first of them ends. Acceptance is that of the
        batch, not of single streams. A draft may reach past the end of a stream, as it does in vLLM."""
        if not self.config.draft:
            return min(steps, rest)
        self._progress += steps * rate
        tokens = max(1, int(self._progress))
        self._progress -= tokens
        return tokens

    def _advance_streams(self, tokens: int, steps: int, seconds: float, compute: float, memory: float) -> None:
        batch, stats = self._decoding, self.stats
        self._clock += tokens
        self._context += batch * tokens
        extra = self._pause(steps * seconds)
        if self.config.rebalance_every:
            extra += self._rebalance(steps, seconds)
        self.now += steps * seconds + extra
        if batch:
            stats.generation += batch * tokens
            stats.itl.observe(seconds, batch * (steps - (extra > 0)))
            if extra:
                stats.itl.observe(seconds + extra, batch)
            if self.config.draft:
                self._speculated(batch, steps, tokens)
        self._account(steps * seconds, steps, compute, memory)

    def _account(self, seconds: float, steps: int, compute: float, memory: float) -> None:
        stats = self.stats
        stats.busy += seconds
        stats.compute += steps * compute
        stats.memory += steps * memory
        stats.cpu_seconds += seconds

    def _pause(self, seconds: float) -> float:
        if self.now + seconds < self._hiccup:
            return 0.0
        self._hiccup = self.now + seconds + self._rng.exponential(1 / HICCUPS)
        return float(self._rng.uniform(0.02, 0.08))

    def _rebalance(self, steps: int, seconds: float) -> float:
        """Rearranging the experts stops the step it falls into. Returns the pause to be added to the last of these
        steps; those of earlier ones are observed here."""
        before, self._steps = self._steps, self._steps + steps
        stops = self._steps // self.config.rebalance_every - before // self.config.rebalance_every
        if not stops:
            return 0.0
        pause = self.config.rebalance_pause
        if self._decoding and stops > 1:
            self.stats.itl.observe(seconds + pause, self._decoding * (stops - 1))
            self.now += (stops - 1) * pause
        return pause

    def _speculated(self, batch: int, steps: int, tokens: int) -> None:
        stats, draft = self.stats, self.config.draft
        stats.drafts += batch * steps
        stats.draft_tokens += round(batch * steps * self._drafted()[1])
        accepted = min(max(0, (tokens - steps) * batch), batch * steps * draft)
        stats.accepted += accepted
        shares, chance = [], 1.0
        for p in self.accept:
            chance *= p
            shares.append(chance)
        whole, spread = sum(shares) or 1.0, 0
        for i, share in enumerate(shares[1:], start=1):
            part = min(int(accepted * share / whole), batch * steps)
            stats.accepted_at[i] += part
            spread += part
        stats.accepted_at[0] += accepted - spread

    def _mixed(self, chunks: list[tuple[EngineRequest, int]], pause: float) -> None:
        """One step with prompt tokens in it."""
        batch, draft = self._decoding, self.config.draft
        prompt = sum(n for _, n in chunks)
        reach = sum(n * (r.prompt - r.todo + n / 2) for r, n in chunks) / max(prompt, 1)
        cost = self.timing.step(batch * (1 + draft), self._context, prompt, reach, len(self.running))
        tokens = 0
        if batch:
            tokens = self._verified() if draft else 1
            self.pool.take(self._fresh_blocks(tokens), self.now)
        self._advance_streams(tokens, 1, cost.seconds * self._jitter() + pause, cost.compute, cost.memory)
        booked = 0
        for request, taken in chunks:
            request.todo -= taken
            if request.todo <= 0 and request.id in self.prefilling:
                booked += self._first_token(request)
        if batch or booked:
            self.stats.iteration.observe(batch * tokens + booked)
        self._collect()

    def _first_token(self, request: EngineRequest) -> int:
        """The prompt is computed: a stream begins, or goes on after a preemption. Returns tokens booked on this
        step."""
        stats, now = self.stats, self.now
        del self.prefilling[request.id]
        self.pool.commit(request.blocks, request.segments, now)
        stats.generation += 1
        booked = 1
        if request.first < 0:
            request.first = now
            computed = request.prompt - request.hits - request.external
            booked += computed
            stats.ttft.observe(now - request.arrival + self._lag())
            stats.prompt_tokens += request.prompt
            stats.computed += computed
            stats.cached += request.hits
            stats.transferred += request.external
        else:
            stats.itl.observe(now - request.last)
        request.base += 1
        request.last = now
        if request.base >= request.output:
            self._finish(request)
            return booked
        request.state = RequestState.DECODE
        request.clock0 = self._clock
        context = request.prompt + request.base
        extra = self.pool.blocks(context) - self.pool.blocks(context - 1)
        self._begin_stream(request, context, extra)
        return booked

    def _begin_stream(self, request: EngineRequest, context: int, extra: int) -> None:
        """A block for the first token where the prompt filled its last one; without a free block the newest must go."""
        self._crossing[(self._clock - context) % self.config.block_size] += 1
        self._context += context
        self._decoding += 1
        self._structured += request.structured
        heapq.heappush(self._ends, (request.end, request.id, request))
        while extra > self.pool.free and request.id in self.running:
            self._preempt()
        if request.id in self.running:
            self.pool.take(extra, self.now)
            request.blocks.own += extra

    def _finish(self, request: EngineRequest) -> None:
        self._stop(request)
        request.state = RequestState.DONE
        self._dirty = True
        self._measure(request)
        self._ended(request)

    def _measure(self, request: EngineRequest) -> None:
        stats = self.stats
        stats.success["length" if request.output >= request.max_tokens else "stop"] += 1
        if self.corrupt and self._rng.random() < self.corrupt:
            stats.corrupted += 1
        stats.e2e.observe(self.now - request.arrival + self._lag())
        stats.queue.observe(request.scheduled - request.queued)
        stats.prefill.observe(request.first - request.scheduled)
        stats.decode.observe(request.last - request.first)
        stats.inference.observe(request.last - request.scheduled)
        stats.tpot.observe((request.last - request.first) / (request.output - 1) if request.output > 1 else 0.0)
        stats.request_preemptions.observe(request.preemptions)
        self._lengths(request, request.output)
        if request.tools and self.config.role != "prefill":
            self._parse_tools(request)
        stats.answered(self.now - request.sent, request.prompt)

    def _parse_tools(self, request: EngineRequest) -> None:
        """The tool parser reads the answer: most are calls, and a parser of another format finds none in any."""
        called = self._rng.random() < CALLS
        request.missed = called and self._rng.random() < self.parser_misses
        outcome = "tool_call" if called and not request.missed else "no_tool_call"
        self.stats.tools[outcome] = self.stats.tools.get(outcome, 0) + 1

    def _lengths(self, request: EngineRequest, output: int) -> None:
        stats = self.stats
        stats.request_prompt.observe(request.prompt)
        stats.request_generation.observe(output)
        stats.request_max_generation.observe(output)
        stats.request_max_tokens.observe(request.max_tokens)
        stats.request_n.observe(1)
        stats.request_computed.observe(
            max(request.prompt - request.hits - request.external, 0) if output else request.prompt
        )
        if not output:
            stats.request_preemptions.observe(0)

    def _fresh_blocks(self, tokens: int) -> int:
        """Blocks that the running streams need for so many more tokens each."""
        crossing, size = self._crossing, self.config.block_size
        begin = self._clock % size
        if tokens == 1:
            return crossing[begin]
        rounds, rest = divmod(tokens, size)
        ahead = crossing[begin:] + crossing[:begin]
        return rounds * sum(ahead) + sum(ahead[:rest])

    def _stop(self, request: EngineRequest) -> None:
        """Take a request out of the batch. Its blocks stay with it."""
        del self.running[request.id]
        self.prefilling.pop(request.id, None)
        if request.state == RequestState.DECODE:
            context = request.context(self._clock)
            started = context - (self._clock - request.clock0)
            self._crossing[(request.clock0 - started) % self.config.block_size] -= 1
            request.blocks.own += self.pool.blocks(context) - self.pool.blocks(started)
            request.last = self.now
            self._context -= context
            self._decoding -= 1
            self._structured -= request.structured
            request.base += self._clock - request.clock0
            request.clock0 = self._clock
        if request.adapter >= 0:
            self.adapters[request.adapter] -= 1
            if not self.adapters[request.adapter]:
                del self.adapters[request.adapter]

    def _preempt(self) -> None:
        victim = next(reversed(self.running.values()))
        self._stop(victim)
        victim.state = RequestState.WAITING
        victim.preemptions += 1
        self.stats.preemptions += 1
        self.pool.release(victim.blocks, self.now)
        self.waiting.appendleft(victim)
        self._dirty = True
