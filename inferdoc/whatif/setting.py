"""What a pool is played with: its machine, its settings and its traffic, as far as visible, given or assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from msgspec.structs import replace as with_fields

from inferdoc.simulate.scenario import (
    EngineFlags,
    Expect,
    Exporters,
    Length,
    Policy,
    PoolSpec,
    Role,
    RouterSpec,
    Scenario,
    StepParts,
    Stream,
)

WARM_UP = 180.0
"""Seconds that are played before the first that counts: caches fill, streams begin."""
ONE_TOKEN = Length(1.0, 0.0, max=1)
"""What a prefill pod writes of an answer: it is requested one token, and decode writes them all."""
NO_TIME = StepParts(weights=1e-6, kv_token=0.0, token=1e-10, front=1e-6)
"""Of an engine that stands before decode pods which are played alone."""
MANY_BLOCKS, MANY = 2**22, 2**20


@dataclass(frozen=True)
class PlayedSetting:
    """replicas: pods; gpus: of each; tier: their name; kv_tokens: of each pod; the limits as those of vLLM's flags;
    accepted: share of drafts whose first i tokens were all accepted; router: how requests are spread; assumed: what
    nobody gave, by key, in words; role: of its pods; link: bytes/s at which one decode pod reads KV."""

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
    role: Role = "both"
    link: float | None = None

    apart: ClassVar[bool] = False
    """Whether two pools serve each request."""

    @property
    def sides(self) -> tuple[PlayedSetting, ...]:
        """Its pools: itself."""
        return (self,)

    @property
    def assumptions(self) -> list[str]:
        """What nobody gave, in words."""
        return list(self.assumed.values())

    def scenario(self, seed: int, pods: int | None = None) -> Scenario:
        """A play of all its intervals. Prefill pods by themselves write one token of each answer; decode pods by
        themselves read prompts that were computed in no time. pods: fewer than all, with their share of the traffic."""
        count = pods or self.replicas
        traffic = with_fields(self.traffic, rate=self.traffic.rate * count / self.replicas)
        if self.role == "prefill":
            return play_of((self.pool_spec("both", count),), with_fields(traffic, output=ONE_TOKEN), self.router, seed)
        pool = self.pool_spec(self.role, count)
        return play_of((self._ahead(), pool) if self.role == "decode" else (pool,), traffic, self.router, seed)

    def pool_spec(self, role: Role, pods: int) -> PoolSpec:
        """Its machines and settings, for the simulator."""
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
        name = "pool" if role == "both" else role
        spec = PoolSpec(name, pods, gpus=self.gpus, role=role, flags=flags, parts=self.parts)
        return spec if self.link is None else with_fields(spec, link=self.link)

    def _ahead(self) -> PoolSpec:
        """What computes prompts in no time."""
        flags = EngineFlags(
            blocks=MANY_BLOCKS,
            block_size=self.block_size,
            max_seqs=MANY,
            budget=MANY,
            max_len=max(32768, self.kv_tokens),
        )
        return PoolSpec("ahead", 1, role="prefill", flags=flags, parts=NO_TIME)

    def with_steps(self, parts: StepParts) -> PlayedSetting:
        """The same on a machine with other step times."""
        return replace(self, parts=parts)

    def with_traffic(self, traffic: Stream) -> PlayedSetting:
        """The same under other traffic."""
        return replace(self, traffic=traffic)


def play_of(pools: tuple[PoolSpec, ...], traffic: Stream, router: Policy, seed: int) -> Scenario:
    """A play of all intervals of the traffic."""
    return Scenario(
        id="whatif",
        title="whatif",
        expect=Expect(cause=None),
        pools=pools,
        traffic=(with_fields(traffic, start=-WARM_UP),),
        router=RouterSpec(policy=router),
        exporters=Exporters(dcgm=False, router=False, cadvisor=False),
        duration=len(traffic.rates) * traffic.burst_every,
        warmup=WARM_UP,
        seed=seed,
    )


def chances(accepted: tuple[float, ...], draft: int) -> tuple[float, ...]:
    """From the share of drafts accepted up to each position to the chance of each position once those before it were
    accepted; further positions as the last one."""
    found, before = [], 1.0
    for share in accepted:
        found.append(min(1.0, share / before) if before > 0 else 0.0)
        before = share
    found += [found[-1] if found else 0.0] * (draft - len(found))
    return tuple(found[:draft])


@dataclass(frozen=True)
class PairSetting:
    """prefill, decode: each as it would be played by itself; traffic: of both."""

    prefill: PlayedSetting
    decode: PlayedSetting
    traffic: Stream

    apart: ClassVar[bool] = True
    """Whether two pools serve each request."""

    @property
    def sides(self) -> tuple[PlayedSetting, ...]:
        """Its pools, the prefill pool first."""
        return self.prefill, self.decode

    @property
    def assumptions(self) -> list[str]:
        """What nobody gave of either, in words."""
        return [f"{side.role}: {words}" for side in self.sides for words in side.assumptions]

    def scenario(self, seed: int) -> Scenario:
        """A play of all intervals."""
        pools = tuple(side.pool_spec(side.role, side.replicas) for side in self.sides)
        return play_of(pools, self.traffic, self.prefill.router, seed)

    def with_steps(self, prefill: StepParts, decode: StepParts) -> PairSetting:
        """The same on machines with other step times."""
        return replace(self, prefill=self.prefill.with_steps(prefill), decode=self.decode.with_steps(decode))

    def with_traffic(self, traffic: Stream) -> PairSetting:
        """The same under other traffic."""
        return replace(self, traffic=traffic)
