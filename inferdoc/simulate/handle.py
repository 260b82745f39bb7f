"""What faults, containers and autoscalers may do to a fleet: its handle, so that the fleet can own them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from inferdoc.simulate.gateway import Gateway
from inferdoc.simulate.pod import Pod, engine_config, step_time
from inferdoc.simulate.request import EngineRequest
from inferdoc.simulate.router import Router
from inferdoc.simulate.scenario import FaultSpec, PoolSpec, Scenario, Stream
from inferdoc.simulate.workload import Traffic


class Scaler(Protocol):
    """An autoscaler whose settings a fault may change."""

    def change(self, fault: FaultSpec | None) -> None:
        """Other settings from now on; None: the initial ones."""


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
    def scalers(self) -> Sequence[Scaler]:
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
