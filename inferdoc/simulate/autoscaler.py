"""A horizontal pod autoscaler over one pool, and the cold start of its pods."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import ceil
from typing import Any, Protocol

import msgspec
import numpy as np

from inferdoc.simulate.gateway import Gateway
from inferdoc.simulate.pod import Pod, engine_config, step_time
from inferdoc.simulate.request import EngineRequest
from inferdoc.simulate.router import Router
from inferdoc.simulate.scenario import FaultSpec, PoolSpec, Scenario, Stream
from inferdoc.simulate.surroundings import ScalerSpec
from inferdoc.simulate.workload import Traffic


class FleetHandle(Protocol):
    """now: s of the simulation; hot_pods: those whose clocks follow from heat; late_share, late_by: share of the
    handovers that come so many seconds late."""

    scenario: Scenario
    now: float
    pods: list[Pod]
    router: Router
    gateway: Gateway
    traffic: list[Traffic]
    hot_pods: list[Pod]
    late_share: float
    late_by: float

    @property
    def scalers(self) -> Sequence[Autoscaler]:
        """The autoscalers of its pools."""

    def pod(self, name: str) -> Pod:
        """The pod of this name."""

    def add_pod(self, pool: str, ready: bool = True) -> Pod:
        """One more pod of a pool."""

    def renew(self, pool: str, generation: int, flags: dict[str, Any], version: str | None) -> None:
        """Pods of a pool that are added from now on belong to another generation, with these settings changed."""

    def replace(self, old: Pod, new: Pod) -> None:
        """The name of the old pod means the new one from now on."""

    def lose(self, requests: list[EngineRequest], now: float) -> None:
        """Requests that went down with their process."""

    def take_out(self, pod: Pod, when: float) -> None:
        """The router notices at `when` that the pod is dead."""

    def stop(self, pod: Pod, now: float, shutdown: float) -> None:
        """A planned end."""

    def stop_when_idle(self, pod: Pod, for_good: bool) -> None:
        """A drained pod stops once it has nothing left to do."""


BATCH_STEP = 0.05
"""Seconds per step up to which a batch still counts as healthy: 50 ms per token (20 tokens/s for each reader)."""


def pod_rate(spec: PoolSpec, stream: Stream) -> float:
    """Requests/s of one pod, every step as long as its share of prompts and streams makes it."""
    config, timing = engine_config(spec), step_time(spec)
    prefixes = stream.prefixes
    shared = prefixes.tokens * prefixes.share if prefixes.count and prefixes.stable else 0.0
    unique = stream.prompt.mean() + (0.0 if prefixes.stable else prefixes.tokens * prefixes.share)
    output = stream.output.mean()
    prefill = timing.step(0, 0.0, 2048, 512.0, 4).seconds / 2048 * unique
    if spec.role == "prefill":
        return 1.0 / prefill
    context = unique + shared + output / 2
    room = (config.blocks - 1) * config.block_size * 0.8
    batch = max(1, int(min(config.max_seqs, room / context)))
    gain = 1.0
    chance = 1.0
    for p in spec.flags.accept:
        chance *= p
        gain += chance
    if spec.role == "decode":
        prefill = 0.0
    while batch > 1 and timing.step(batch * (1 + config.draft), batch * context, 0, 0.0, batch).seconds > BATCH_STEP:
        batch = int(batch * 0.9)
    step = timing.step(batch * (1 + config.draft), batch * context, 0, 0.0, batch).seconds
    return 1.0 / (prefill + output / gain * step / batch)


def sustainable(pools: Sequence[PoolSpec], stream: Stream) -> float:
    """Requests/s of the whole fleet: the weaker of the two sides where prefill and decode are apart."""
    rates = {
        role: sum(p.pods * p.ranks * pod_rate(p, stream) for p in pools if p.role == role)
        for role in ("both", "prefill", "decode")
    }
    return rates["both"] if rates["both"] else min(rates["prefill"], rates["decode"])


SPREAD = 0.1
"""Start-ups differ by this share of the usual time (own choice)."""


class Autoscaler:
    """move(now) runs every `every` seconds and sets the number of replicas as the controller of Kubernetes does: the
    present number times metric over target, unless that is within the tolerance; the least recommendation of the
    up-window, the largest of the down-window; within the limits. New pods are ready after the cold start of the pool,
    pods without a GPU never; the newest go first."""

    def __init__(self, fleet: FleetHandle, pool: PoolSpec) -> None:
        assert pool.scaler is not None
        self.pool = pool
        self.spec: ScalerSpec = pool.scaler
        self.desired = pool.pods
        self.active = True
        self.pending: list[Pod] = []
        self._fleet = fleet
        self._next = fleet.now + self.spec.every
        self._starting: list[tuple[float, Pod]] = []
        self._advice: deque[tuple[float, int]] = deque([(fleet.now, pool.pods)])
        self._rng = np.random.default_rng([fleet.scenario.seed, 23])
        self._busy: dict[str, float] = {}

    @property
    def replicas(self) -> list[Pod]:
        """Pods that the deployment counts, ready or not."""
        starting = [pod for _, pod in self._starting]
        return [*self.ready, *starting, *self.pending]

    @property
    def ready(self) -> list[Pod]:
        return [p for p in self._fleet.pods if p.spec.name == self.pool.name and p.alive and p.in_rotation]

    def change(self, fault: FaultSpec | None) -> None:
        """Other settings from now on; None: the initial ones."""
        assert self.pool.scaler is not None
        spec = self.pool.scaler
        if fault is not None:
            spec = msgspec.structs.replace(
                self.spec,
                metric=fault.metric or self.spec.metric,
                target=self.spec.target if fault.target is None else fault.target,
                most=self.spec.most if fault.most is None else fault.most,
                down_window=self.spec.down_window if fault.window is None else fault.window,
            )
        self.spec = spec

    def move(self, now: float) -> None:
        """What is due at `now`: pods that become ready, and a read of the metric."""
        for due, pod in list(self._starting):
            if due <= now:
                self._starting.remove((due, pod))
                pod.restart(now)
                pod.in_rotation = pod.scraped = True
        if now < self._next:
            return
        self._next += self.spec.every
        advised = self._advised()
        self.active = advised is not None
        if advised is None:
            return
        self._advice.append((now, min(max(advised, self.spec.least), self.spec.most)))
        oldest = now - max(self.spec.down_window, self.spec.up_window)
        while self._advice[0][0] < oldest:
            self._advice.popleft()
        floor = max(n for at, n in self._advice if at >= now - self.spec.down_window)
        ceiling = min(n for at, n in self._advice if at >= now - self.spec.up_window)
        self._set(min(max(self.desired, ceiling), floor), now)

    def _advised(self) -> int | None:
        """The number of replicas by the metric; None without a value."""
        ready, spec = self.ready, self.spec
        if spec.metric == "missing" or not ready:
            return None
        if spec.metric == "in-flight":
            flow = self._fleet.gateway.flow
            value = (sum(p.engine.load for p in ready) + (flow.queued if flow else 0)) / spec.target
        else:
            value = sum(self._share_busy(p) for p in ready) / spec.target
        if abs(value / len(ready) - 1.0) <= spec.tolerance:
            return self.desired
        return ceil(value - 1e-9)

    def _share_busy(self, pod: Pod) -> float:
        """Share of the time since the last read in which the GPU had any work."""
        busy = pod.engine.stats.busy
        before = self._busy.get(pod.name, busy)
        self._busy[pod.name] = busy
        return min(1.0, max(0.0, busy - before) / self.spec.every)

    def _set(self, desired: int, now: float) -> None:
        self.desired = desired
        fleet, have = self._fleet, len(self.replicas)
        for _ in range(desired - have):
            pod = fleet.add_pod(self.pool.name, ready=False)
            pod.alive = pod.scraped = False
            if self.spec.room and len(self.replicas) >= self.spec.room:
                self.pending.append(pod)
                continue
            factor = 1.0 + SPREAD * float(self._rng.uniform(-1, 1))
            self._starting.append((now + self.pool.cold_start * factor, pod))
        for _ in range(have - desired):
            self._remove(now)

    def _remove(self, now: float) -> None:
        """The pods that serve nobody yet go first, then the newest."""
        if self.pending:
            self.pending.pop()
        elif self._starting:
            self._starting.pop()
        elif self.ready:
            self._fleet.stop(self.ready[-1], now, self.spec.shutdown)
