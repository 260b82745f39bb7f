"""How causes are drawn: GPUs, experts, tiers and settings."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.generator import Draw, Recipe
from inferdoc.simulate.scenario import Length, PoolSpec

replace = msgspec.structs.replace


def hot_expert(d: Draw) -> None:
    tier = d.one_of("h100-80", "h200-141", "a100-80")
    logged = bool(d.rng.random() < 0.6)
    d.pool()
    d.pools = [PoolSpec("vllm", 2, tier, "mixtral-8x7b", 8, flags=replace(d.pools[0].flags, balancedness_log=logged))]
    stream = d.chat(0.5)
    d.pools[0] = replace(d.pools[0], flags=replace(d.pools[0].flags, max_seqs=256))
    prompt = Length(d.spread(2000, 4000), 0.4, max=12000)
    d.traffic = [replace(stream, prompt=prompt, rate=d.pools[0].pods * d.between(5, 8))]
    victim = d.victim()
    d.fault("hot-expert", pods=[victim], hot=d.strong(2.0, 6.0))
    d.hit = (victim,)


def slow(d: Draw) -> None:
    d.pool(pods=int(d.rng.integers(2, 6)))
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    victim = d.victim()
    pace = d.strong(0.85, 0.4)
    gpu = int(d.rng.integers(d.pools[0].gpus))
    d.fault("clock", pods=[victim], gpu=gpu, clock=pace, bandwidth=min(1.0, pace * 1.1), reasons=d.one_of(8, 64, 128))
    d.router = replace(d.router, policy=d.one_of("round-robin", "random"))
    d.hit = (victim,)


CAUSES: dict[str, Recipe] = {
    "ep-hot-expert": hot_expert,
    "slow-gpu": slow,
}
