"""What a pool is played with: its machine, its settings and its traffic, as far as visible, given or assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as with_fields

from inferdoc.simulate.scenario import (
    EngineFlags,
    Expect,
    Exporters,
    Policy,
    PoolSpec,
    RouterSpec,
    Scenario,
    StepParts,
    Stream,
)

WARM_UP = 180.0
"""Seconds that are played before the first that counts: caches fill, streams begin."""


@dataclass(frozen=True)
class PlayedSetting:
    """replicas: pods; gpus: of each; tier: their name; kv_tokens: of each pod; the limits as those of vLLM's flags;
    accepted: share of drafts whose first i tokens were all accepted; router: how requests are spread; assumed: what
    nobody told, by key, in words."""

    replicas: int
    gpus: int
    tier: str
    parts: StepParts
    kv_tokens: int
    block_size: int
    max_num_seqs: int
    batch_tokens: int
    chunk_tokens: int
    draft_tokens: int
    accepted: tuple[float, ...]
    router: Policy
    traffic: Stream
    assumed: Mapping[str, str] = field(default_factory=dict)

    def scenario(self, seed: int, pods: int | None = None) -> Scenario:
        """A play of all its stretches. pods: fewer than all, with their share of the traffic."""
        share = 1.0 if pods is None else pods / self.replicas
        flags = EngineFlags(
            blocks=max(2, self.kv_tokens // self.block_size),
            block_size=self.block_size,
            max_seqs=self.max_num_seqs,
            budget=self.batch_tokens,
            long_prefill=self.chunk_tokens,
            draft=self.draft_tokens,
            accept=chances(self.accepted, self.draft_tokens),
            max_len=max(32768, self.kv_tokens),
        )
        return Scenario(
            id="whatif",
            title="whatif",
            expect=Expect(cause=None),
            pools=(PoolSpec("pool", pods or self.replicas, gpus=self.gpus, flags=flags, parts=self.parts),),
            traffic=(with_fields(self.traffic, rate=self.traffic.rate * share, start=-WARM_UP),),
            router=RouterSpec(policy=self.router),
            exporters=Exporters(dcgm=False, router=False, cadvisor=False),
            duration=len(self.traffic.rates) * self.traffic.burst_every,
            warmup=WARM_UP,
            seed=seed,
        )

    def with_steps(self, parts: StepParts) -> PlayedSetting:
        """The same on a machine with other step times."""
        return replace(self, parts=parts)

    def with_traffic(self, traffic: Stream) -> PlayedSetting:
        """The same under other traffic."""
        return replace(self, traffic=traffic)


def chances(accepted: tuple[float, ...], draft: int) -> tuple[float, ...]:
    """From the share of drafts accepted up to each position to the chance of each position once those before it were
    accepted; further positions as the last one."""
    found, before = [], 1.0
    for share in accepted:
        found.append(min(1.0, share / before) if before > 0 else 0.0)
        before = share
    found += [found[-1] if found else 0.0] * (draft - len(found))
    return tuple(found[:draft])
