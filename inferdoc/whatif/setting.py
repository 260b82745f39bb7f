"""Settings as users write them, and the machine, settings and traffic of a simulated pool."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, get_args

from msgspec.structs import replace as with_fields

from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
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

LONGEST_DRAFT = 16
MOST_FACTOR = 10.0
MOST_REPLICAS = 1000


@dataclass(frozen=True)
class SettingKey:
    """expected: of its value, in words; read: the value of a text, None for one that cannot be; now: whether it may be
    given for the pool as it is; set: whether it may be changed."""

    expected: str
    read: Callable[[str], Any]
    now: bool = False
    set: bool = True


def _whole(least: int, most: int, none: bool = False) -> Callable[[str], Any]:
    """none: 0 counts as well."""

    def read(text: str) -> int | None:
        value = int(text)
        return value if least <= value <= most or (none and value == 0) else None

    return read


def _factor(text: str) -> float | None:
    value = float(text.removeprefix("x"))
    return value if math.isfinite(value) and 1 / MOST_FACTOR <= value <= MOST_FACTOR else None


def _one_of(words: Iterable[str]) -> Callable[[str], Any]:
    known = tuple(words)
    return lambda text: text if text in known else None


def _shares(text: str) -> tuple[float, ...] | None:
    shares = tuple(float(part) for part in text.split(","))
    falling = all(earlier >= later for earlier, later in pairwise(shares))
    return shares if len(shares) <= LONGEST_DRAFT and falling and all(0 <= each <= 1 for each in shares) else None


SIDES = ("prefill", "decode")
BOTH_SIDES = ("kv-dtype", "router", "traffic", "prompts", "answers")
"""Keys of both sides at once, where prefill and decode are apart: what is read there must be as it is written here."""
DECODE_ONLY = ("draft-tokens", "accepted")
TRAFFIC = f"a factor of {1 / MOST_FACTOR:g} to {MOST_FACTOR:g}"
POLICIES: tuple[str, ...] = get_args(Policy)
KEYS: dict[str, SettingKey] = {
    "replicas": SettingKey(f"pods, 1 to {MOST_REPLICAS}", _whole(1, MOST_REPLICAS)),
    "tier": SettingKey("a hardware tier: h100-80", str.lower),
    "max-num-seqs": SettingKey("requests, 1 to 65536", _whole(1, 65536), now=True),
    "batch-tokens": SettingKey("tokens of a step, 64 to 1048576", _whole(64, 2**20), now=True),
    "chunk-tokens": SettingKey(
        "tokens of one prompt in a step, 16 to 1048576, or 0 for no limit", _whole(16, 2**20, none=True), now=True
    ),
    "kv-tokens": SettingKey("tokens of one pod's KV cache, 1000 to 1000000000", _whole(1000, 10**9), now=True),
    "kv-dtype": SettingKey("bf16 or fp8", _one_of(("bf16", "fp8"))),
    "router": SettingKey(f"one of {', '.join(POLICIES)}", _one_of(POLICIES), now=True),
    "draft-tokens": SettingKey(f"drafted tokens of a step, 0 to {LONGEST_DRAFT}", _whole(0, LONGEST_DRAFT)),
    "accepted": SettingKey("shares of 0 to 1 by position, none above the one before: 0.8,0.6,0.42", _shares, now=True),
    "traffic": SettingKey(TRAFFIC, _factor),
    "prompts": SettingKey(f"{TRAFFIC} on the length of prompts", _factor),
    "answers": SettingKey(f"{TRAFFIC} on the length of answers", _factor),
}


def side_of(key: str) -> tuple[str | None, str]:
    """prefill.replicas -> (prefill, replicas); the side is None where the key names none."""
    side, dot, own = key.partition(".")
    return (side, own) if dot and side in SIDES else (None, key)


def refuse_sides(settings: Mapping[str, Any], flag: str, pool: str) -> None:
    """Raises InferdocError where settings name a side of a pool that has none."""
    for key in settings:
        side, own = side_of(key)
        if side is not None:
            raise InferdocError(
                f"{flag} {key}: the pods of {pool} do both phases, so it has no {side} side: {flag} {own}=...; whether "
                "parting them would pay says `inferdoc headroom`"
            )


def of_side(settings: Mapping[str, Any], side: str) -> dict[str, Any]:
    """Settings of one side, by key without it: its own and those of both."""
    found = {}
    for key, value in settings.items():
        named, own = side_of(key)
        if named == side or (named is None and not (own in DECODE_ONLY and side != "decode")):
            found[own] = value
    return found


def settings_for_request(texts: Iterable[str], flag: str, of_now: bool = False) -> dict[str, Any]:
    """Key -> value of `KEY=VALUE` texts. flag: the option they came with; of_now: only keys of the pool as it is.
    Raises InferdocError."""
    known: Mapping[str, SettingKey] = {key: each for key, each in KEYS.items() if (each.now if of_now else each.set)}
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not value:
            raise InferdocError(f"{flag} {text}: expected KEY=VALUE, KEY one of {', '.join(known)}")
        side, own = side_of(key)
        if own not in known or (side is not None and own in BOTH_SIDES):
            raise InferdocError(f'{flag} {text}: no setting "{key}"{nearest(own, known)}; known: {", ".join(known)}')
        if key in found:
            raise InferdocError(f"{flag} {key}: given twice")
        try:
            read = known[own].read(value)
        except ValueError:
            read = None
        if read is None:
            raise InferdocError(f"{flag} {text}: expected {known[own].expected}")
        found[key] = read
    return found


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
