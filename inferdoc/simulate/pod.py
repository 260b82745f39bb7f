"""A pod: its engine, its machine, and what happens to both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from inferdoc.simulate.batch import EngineConfig
from inferdoc.simulate.engine import Engine
from inferdoc.simulate.gpus import Gpu, workload
from inferdoc.simulate.hardware import (
    BANDWIDTH_SHARE,
    FLOP_SHARE,
    Health,
    LockStep,
    MeasuredTime,
    PartsTime,
    Roofline,
    StepTime,
    kv_bytes_of,
    model,
    tier,
)
from inferdoc.simulate.link import Link
from inferdoc.simulate.request import EngineRequest
from inferdoc.simulate.scenario import EngineFlags, PoolSpec

Callback = Callable[[EngineRequest, float], None]
CFS_PERIOD = 0.1
"""Seconds in which a CPU quota is counted (Linux: cpu.cfs_period_us, 100 ms)."""
PAGE_SECONDS = 0.015
"""CPU time that a metrics page costs: real servers answer in 12 to 39 ms (fixtures/fleets, control-steady)."""

WAITING_WEIGHT = 4
"""vLLM v1/engine/core_client.py, DPLBAsyncMPClient: the score of a rank is 4 x waiting + running."""


def step_time(spec: PoolSpec) -> StepTime:
    """The machine of a pool's pods, healthy."""
    if spec.parts is not None:
        return PartsTime(spec.parts, spec.flags.draft)
    if spec.measured is not None:
        m = spec.measured
        return MeasuredTime(m.fixed, m.per_stream, m.per_prompt_token)
    cost = spec.flags.draft_cost if spec.flags.draft else 0.0
    return Roofline(tier(spec.tier), model(spec.model), spec.gpus, cost, spec.flags.kernels, spec.flags.graphs)


def engine_config(spec: PoolSpec) -> EngineConfig:
    """Flags of a pool's engines, with the KV cache that its GPUs hold."""
    flags = spec.flags
    timing = step_time(spec)
    if flags.blocks is not None:
        blocks = flags.blocks
    elif isinstance(timing, Roofline):
        narrow = 2 if flags.cache_dtype.startswith("fp8") else 1
        blocks = int(timing.kv_blocks(flags.block_size, flags.memory_share) * flags.pool * narrow)
    else:
        blocks = 4096
    measured = spec.parts or spec.measured
    kv_bytes = measured.kv_bytes if measured is not None else kv_bytes_of(model(spec.model))
    host_blocks = int(flags.offload * 2**30 / (kv_bytes * flags.block_size))
    named = msgspec.structs.asdict(flags) | {"blocks": blocks, "kv_bytes": kv_bytes, "workers": spec.gpus}
    return EngineConfig(**named, role=spec.role, host_blocks=host_blocks, host_link=spec.host_link)


class Pod:
    """name, node and address are those of its labels. alive: the process runs; in_rotation: the router sends it
    work. crashes, restarts, last_end, waits: what Kubernetes knows of its container (ends in a row, starts after them,
    reason of the last end, delay before the next start); created, generation: since when its object exists, and
    which rollout brought it (0: none); replaced: a rollout put another in its place; memory_taken: share of the GPUs'
    memory that something beside the KV cache took."""

    def __init__(
        self, spec: PoolSpec, number: int, index: int, now: float, seed: int, finished: Callback, prefilled: Callback
    ) -> None:
        self.spec = spec
        self.name = f"{spec.name}-{number}"
        self.node = f"node-{index // max(1, 8 // spec.gpus)}"
        self.instance = f"10.0.{index // 200}.{index % 200 + 10}:8000"
        self.first_gpu = (index % max(1, 8 // spec.gpus)) * spec.gpus
        self.alive = True
        self.in_rotation = True
        self.scraped = True
        self.weight = 1.0
        self.started = self.created = now
        self.generation = 0
        self.replaced = False
        self.side_channel = True
        self.reasons = 0
        self.gpus = [Gpu() for _ in range(spec.gpus)]
        self.unix = 0.0
        self.last_load = 0
        self.front_slower = 1.0
        self.parser_misses = 0.0
        self.crashes = 0
        self.restarts = 0
        self.last_end = ""
        self.waits = False
        self.memory_taken = 0.0
        self._seed = seed
        self._finished = finished
        self._prefilled = prefilled
        self._starts = 0
        self._cpu_seen = now
        self._cpu_busy = 0.0
        self._links_seen = now
        self._heat_seen = (now, 0.0, 0.0, 0.0)
        self.rank = 0
        self.ranks: list[Pod] = [self]
        self.pinned_rank: tuple[int, float] | None = None
        self._turn = 0
        self.timing = step_time(spec)
        self.engine = self._make(now)

    def _make(self, now: float) -> Engine:
        self._starts += 1
        rng = np.random.default_rng([self._seed, self._starts])
        link = None
        if self.spec.role == "decode":
            link = Link(self.spec.link, self.spec.link_flow or float("inf"))
        engine = Engine(engine_config(self.spec), self.timing, rng, now, link, self._finished, self._prefilled)
        engine.side_channel = self.side_channel
        engine.front.slower, engine.parser_misses = self.front_slower, self.parser_misses
        return engine

    @property
    def key(self) -> str:
        """Distinguishes it, or a rank of it, from every other of the fleet."""
        return f"{self.name}/{self.rank}"

    @property
    def health(self) -> Health:
        return self.timing.health

    def load(self) -> int:
        """Running and waiting requests of all ranks as its page shows them; a hung engine's page is frozen."""
        if self.alive and not self.engine.hung:
            self.last_load = sum(rank.engine.load for rank in self.ranks)
        return self.last_load

    @property
    def idle(self) -> bool:
        """No rank has a request, nor KV that somebody will read."""
        return all(rank.engine.load == 0 and not rank.engine.pinned for rank in self.ranks)

    def add_ranks(self, now: float) -> None:
        """The further ranks of a data-parallel deployment, on the GPUs next to those of the first."""
        moe = isinstance(self.timing, Roofline) and self.timing.model.experts > 0
        together = LockStep() if moe and self.spec.ranks > 1 else None
        for number in range(1, self.spec.ranks):
            other = Pod(self.spec, 0, 0, now, self._seed + 7919 * number, self._finished, self._prefilled)
            other.name, other.node, other.instance = self.name, self.node, self.instance
            other.first_gpu, other.rank = self.first_gpu + number * self.spec.gpus, number
            self.ranks.append(other)
        for rank in self.ranks:
            if isinstance(rank.timing, Roofline):
                rank.timing.group, rank.timing.rank = together, rank.rank

    def rank_for(self, rng: np.random.Generator) -> Pod:
        """The rank that takes the next request: that of its header, else the one with the least to do."""
        if len(self.ranks) == 1:
            return self
        self._turn += 1
        if self.pinned_rank is not None and rng.random() < self.pinned_rank[1]:
            return self.ranks[self.pinned_rank[0] % len(self.ranks)]

        def score(rank: Pod) -> tuple[int, int]:
            load = WAITING_WEIGHT * len(rank.engine.waiting) + len(rank.engine.running)
            return load, (rank.rank - self._turn) % len(self.ranks)

        return min(self.ranks, key=score)

    def rest(self) -> None:
        """Ranks without work do not set the pace of those that have some."""
        for rank in self.ranks:
            if isinstance(rank.timing, Roofline) and rank.timing.group is not None and rank.engine.load == 0:
                rank.timing.group.rest(rank.rank)

    def kill(self) -> list[EngineRequest]:
        """The process is gone. Returns the requests that are lost with it."""
        for rank in self.ranks:
            rank.alive = False
        return [request for rank in self.ranks for request in rank.engine.live()]

    def restart(self, now: float, flags: dict[str, Any] | None = None) -> None:
        """A new process: empty caches, counters at zero, flags changed where given."""
        for other in self.ranks[1:]:
            other.restart(now, flags)
        if flags:
            changed = msgspec.convert({**msgspec.to_builtins(self.spec.flags), **flags}, EngineFlags)
            self.spec = msgspec.structs.replace(self.spec, flags=changed)
            if isinstance(self.timing, Roofline):
                self.timing.kernels = changed.kernels
        link = self.engine.link
        self.engine = self._make(now)
        if link is not None and self.engine.link is not None:
            self.engine.link.rate, self.engine.link.flow = link.rate, link.flow
        self.alive, self.started = True, now
        self._cpu_seen, self._cpu_busy = now, 0.0

    def account_cpu(self, now: float) -> None:
        """Scheduler periods of the container up to now; throttled while it needs more cores than its limit."""
        stats = self.engine.stats
        passed = now - self._cpu_seen
        if passed <= 0:
            return
        busy = min(1.0, (stats.busy - self._cpu_busy) / passed)
        self._cpu_seen, self._cpu_busy = now, stats.busy
        periods = passed / CFS_PERIOD
        stats.cfs_periods += periods
        short = max(0.0, 1.0 / self.health.cpu - 1.0)
        stats.throttled_periods += periods * busy * min(1.0, 1.5 * short)

    def page_delay(self, draw: float) -> float:
        """Seconds that its metrics page comes late for want of CPU: what the page costs to write takes longer, and a
        container that has used up its quota waits for the next period of the scheduler. draw: between 0 and 1, where
        in the period the scrape falls."""
        share = self.health.cpu
        return PAGE_SECONDS * (1.0 / share - 1.0) + CFS_PERIOD * (1.0 - share) * draw if share < 1.0 else 0.0

    # ---- its GPUs ----------------------------------------------------------------------------------------------

    def reasons_of(self, gpu: int) -> int:
        """Clock throttle reasons of a GPU, as the bits of NVML."""
        return self.reasons | self.gpus[gpu].reasons

    def link_replays(self, gpu: int, now: float) -> float:
        """Packets that the links of a GPU have sent again up to now."""
        passed, self._links_seen = now - self._links_seen, now
        for one in self.gpus:
            one.link_replays += one.link_errors * passed
        return self.gpus[gpu].link_replays

    def settle_clocks(self, now: float) -> None:
        """Heat, power limit and power brake decide the clocks, from the work done since the last call."""
        timing, stats = self.timing, self.engine.stats
        at, busy, compute, memory = self._heat_seen
        passed = now - at
        if passed < 1.0 or not isinstance(timing, Roofline) or timing.tier.card is None:
            return
        self._heat_seen = (now, stats.busy, stats.compute, stats.memory)
        if stats.busy < busy or passed > 5.0:
            return
        card, health = timing.tier.card, timing.health
        for number, gpu in enumerate(self.gpus):
            if not gpu.troubled and gpu.temperature is None:
                continue
            clock, width = health.clock[number], health.bandwidth[number]
            tensor = (stats.compute - compute) / passed * FLOP_SHARE / clock
            dram = (stats.memory - memory) / passed * BANDWIDTH_SHARE / width
            work = workload(min(1.0, (stats.busy - busy) / passed), tensor, dram)
            watts = card.idle_watts + (card.watts - card.idle_watts) * work * clock
            health.clock[number] = gpu.clock(clock, card, watts, passed)
            # Caches and crossbar run at the core clock, so less of the memory's rate is reached at a low one.
            health.bandwidth[number] = min(1.0, 1.1 * health.clock[number])
