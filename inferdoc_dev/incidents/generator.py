"""Random incidents: a cause strikes a fleet drawn by chance (tier, model, shape, load, lengths, severity, moment)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import numpy as np

from inferdoc.simulate.autoscaler import pod_rate
from inferdoc.simulate.hardware import kv_bytes_of, model
from inferdoc.simulate.pod import engine_config, step_time
from inferdoc.simulate.scenario import (
    EngineFlags,
    Expect,
    Exporters,
    FaultSpec,
    Length,
    PoolSpec,
    Prefixes,
    RouterSpec,
    Scenario,
    Stream,
)
from inferdoc_dev.incidents.randomisation import RANDOMISATION, Randomisation
from inferdoc_dev.incidents.randomise import MACHINES, surrounded

SEQUENCES = (64, 48, 32, 24, 16, 12, 8)
MOST_RATE = 3.0
"""Requests/s of one pod at which --max-num-seqs is cut: the simulation grows with requests, the physics does not."""
NAME = "vllm"
NO_PREFIXES = Prefixes()


@dataclass
class Draw:
    """One fleet being drawn. strength: 0 (mild) to 1 (strong); warmup: s before the first scrape, longer where caches
    must have filled; root: the effect of a load change, listed first by design; whole: a pool that is hit
    with the pods that come and go; opt_in: whether DCGM has its
    optional fields (None: by chance, three times in ten); kube: kube-state-metrics is scraped."""

    rng: np.random.Generator
    seed: int
    cause: str
    pools: list[PoolSpec] = field(default_factory=list)
    traffic: list[Stream] = field(default_factory=list)
    faults: list[FaultSpec] = field(default_factory=list)
    router: RouterSpec = field(default_factory=RouterSpec)
    accepts: tuple[str, ...] = ()
    root: str | None = None
    whole: str | None = None
    hit: tuple[str, ...] = ()
    onset: float = 0.0
    duration: float = 0.0
    kube: bool = False
    scrape: float = 15.0
    strength: float = 0.5
    warmup: float = 60.0
    opt_in: bool | None = None

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def spread(self, low: float, high: float) -> float:
        """Even on a logarithmic scale."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def strong(self, mild: float, hard: float) -> float:
        """A parameter of the fault, between its mild and its hard value."""
        return mild + (hard - mild) * self.strength

    # ---- the fleet ---------------------------------------------------------------------------------------------

    def pool(self, pods: int | None = None, **flags: Any) -> PoolSpec:
        """Like pods that do both roles."""
        tier, name, gpus = self.one_of(*MACHINES)
        count = pods or int(self.rng.integers(2, 5))
        spec = PoolSpec(NAME, count, tier, name, gpus, flags=EngineFlags(**flags))
        self.pools = [spec]
        return spec

    def chat(self, load: float, prefixes: Prefixes = NO_PREFIXES, **more: Any) -> Stream:
        """Chats at a share of what the pool sustains; its batch is cut where it could serve more than the limit."""
        length = Length(self.spread(250, 1200), self.between(0.3, 0.6), max=6000)
        answer = Length(self.spread(100, 300), self.between(0.3, 0.6), max=1200)
        stream = Stream(length, answer, prefixes=prefixes, **more)
        pool = self.pools[0]
        if pool.role == "both":
            for sequences in SEQUENCES:
                pool = msgspec.structs.replace(pool, flags=msgspec.structs.replace(pool.flags, max_seqs=sequences))
                if pod_rate(pool, stream) <= MOST_RATE:
                    break
            self.pools[0] = pool
        rate = min(load * pod_rate(pool, stream), 4.0) * pool.pods
        return msgspec.structs.replace(stream, rate=rate)

    def split(self, prefill: int, decode: int, rate: float, prompt: float, late: int = 0) -> None:
        """Prefill and decode apart, `rate` requests/s in all."""
        tier, name, gpus = self.one_of(*MACHINES[:4])
        link = self.one_of(12.5e9, 25e9, 50e9)
        self.pools = [
            PoolSpec(f"{NAME}-prefill", prefill, tier, name, gpus, role="prefill"),
            PoolSpec(f"{NAME}-decode", decode, tier, name, gpus, role="decode", link=link, late=late),
        ]
        length = Length(prompt, self.between(0.3, 0.6), max=12000)
        answer = Length(self.spread(100, 250), self.between(0.3, 0.6), max=1000)
        self.traffic = [Stream(length, answer, rate=rate)]

    def names(self, pool: int = 0) -> tuple[str, ...]:
        spec = self.pools[pool]
        return tuple(f"{spec.name}-{i}" for i in range(spec.pods))

    def victim(self) -> str:
        return str(self.one_of(*self.names()))

    def fault(self, kind: str, **fields: Any) -> None:
        self.faults.append(msgspec.convert({"kind": kind, "at": self.onset, **fields}, FaultSpec))

    def pool_blocks(self, blocks: int) -> None:
        """A KV cache of so many blocks (--num-gpu-blocks-override)."""
        spec = self.pools[0]
        self.pools[0] = msgspec.structs.replace(spec, flags=msgspec.structs.replace(spec.flags, blocks=blocks))

    def streams(self, load_rate: float) -> float:
        """Tokens that the streams of one pod hold on average (Little's law), at its present rate."""
        stream, spec = self.traffic[0], self.pools[0]
        step = step_time(spec).step(16, 16 * stream.prompt.mean(), 0, 0.0, 16).seconds
        context = stream.prompt.mean() + stream.output.mean() / 2
        return load_rate * stream.output.mean() * step * context


Drawing = Callable[[Draw], None]


def draw(
    cause: str, seed: int, recipes: Mapping[str, Drawing], control: bool = False, interval: float | None = None
) -> Scenario:
    """An incident of a cause. The same seed gives the same incident. interval: s between scrapes, None: drawn too."""
    rng = np.random.default_rng([seed, sum(map(ord, cause))])
    d = Draw(rng, seed, cause)
    d.scrape = float(d.one_of(5.0, 10.0, 15.0, 15.0, 30.0))
    d.scrape = d.scrape if interval is None else interval
    d.onset = round(d.between(510, 700), 3)
    d.duration = d.onset + d.between(480, 720)
    d.strength = d.between(0.0, 1.0)
    d.router = RouterSpec(d.one_of("round-robin", "least-loaded", "random"))
    recipes[cause](d)
    expect = Expect(
        None if control else cause, d.accepts, d.hit, None if control else d.onset, root=d.root, pool=d.whole
    )
    title = f"{cause}, seed {seed}, strength {d.strength:.2f}"
    return Scenario(
        f"{cause}-{seed}",
        title,
        expect,
        tuple(d.pools),
        tuple(d.traffic),
        tuple(d.faults),
        d.router,
        Exporters(dcgm_profiling=_opted_in(d), kube=d.kube),
        d.duration,
        d.warmup,
        d.scrape,
        seed,
    )


def _opted_in(d: Draw) -> bool:
    by_chance = bool(d.rng.random() < 0.3)
    return by_chance if d.opt_in is None else d.opt_in


def kv_tokens(spec: PoolSpec) -> int:
    """KV cache of one pod, tokens."""
    config = engine_config(spec)
    return (config.blocks - 1) * config.block_size


def kv_request_bytes(spec: PoolSpec, stream: Stream) -> float:
    """Bytes that one split request moves."""
    return stream.prompt.mean() * kv_bytes_of(model(spec.model))


def randomised(
    kind: str,
    seed: int,
    drawings: Mapping[str, Drawing],
    control: bool = False,
    ranges: Randomisation = RANDOMISATION,
) -> Scenario:
    """A draw of a cause, a control or a pair, with everything beside it drawn as well."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode()), 77])
    interval = float(cast(int, ranges.interval.draw(rng)))
    scenario = draw(kind, seed, drawings, control, interval)
    return surrounded(scenario, rng, ranges)


def pace(spec: PoolSpec, stream: Stream, batch: int) -> float:
    """Seconds per token of each of `batch` streams whose successors' prompts are computed in between (no shared
    prefixes, no drafts)."""
    timing, prompt, output = step_time(spec), stream.prompt.mean(), stream.output.mean()
    prefill = timing.step(0, 0.0, 2048, 512.0, 4).seconds / 2048 * prompt
    step = timing.step(batch, batch * (prompt + output / 2), 0, 0.0, batch).seconds
    return step + batch * prefill / output


def batch_at(spec: PoolSpec, stream: Stream, rate: float) -> int:
    """Streams of one pod at so many requests/s (Little's law); the limit on the batch where that is fewer."""
    for batch in range(1, spec.flags.max_seqs):
        if batch >= rate * stream.output.mean() * pace(spec, stream, batch):
            return batch
    return spec.flags.max_seqs
