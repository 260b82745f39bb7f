"""Draw causes of prefix caching and routing."""

from __future__ import annotations

from typing import Any

import msgspec

from inferdoc.simulate.scenario import Prefixes
from inferdoc_dev.incidents.generator import Draw, Drawing, kv_tokens

replace = msgspec.structs.replace


def warmed(d: Draw, seconds: float) -> None:
    """Traffic runs for so long before the first scrape that the caches are full."""
    d.warmup = seconds
    d.traffic = [replace(stream, start=-seconds) for stream in d.traffic]


def relaunch(d: Draw, pod: str, **more: Any) -> None:
    """The pod is drained and its new process begins at the onset, with other flags where given."""
    after = d.between(60, 110)
    d.fault("restart", pods=[pod], at=d.onset - after, after=after, **more)


def locality(d: Draw) -> None:
    """All prefixes fit the pool while each lives on one pod; no pod can hold them all once the router forgets where
    they are."""
    pods = int(d.rng.integers(3, 6))
    d.pool(pods=pods, kv_metrics=bool(d.rng.random() < 0.5))
    count, tokens = int(d.rng.integers(60, 150)), int(d.strong(1000, 3500))
    d.traffic = [d.chat(d.between(0.2, 0.35), Prefixes(count, tokens, 1.0, d.between(0.2, 0.8)))]
    live = d.streams(d.traffic[0].rate / pods)
    d.pool_blocks(int((count * tokens / pods * d.between(1.2, 1.6) + live * 2.5 + 30_000) / 16))
    warmed(d, 600)
    d.router = replace(d.router, policy="prefix")
    d.fault("routing", policy=d.one_of("round-robin", "random", "least-loaded"))
    d.hit = d.names()


def cold_start(d: Draw) -> None:
    """So many prefixes that a new process needs minutes until it has seen each of them."""
    pods = int(d.rng.integers(2, 5))
    d.pool(pods=pods)
    tokens = int(d.strong(1000, 3500))
    d.traffic = [d.chat(d.between(0.2, 0.35), Prefixes(2, tokens))]
    rate, room = d.traffic[0].rate / pods, 0.5 * kv_tokens(d.pools[0])
    count = max(8, int(min(rate * d.between(200, 400), room / tokens)))
    d.traffic = [replace(d.traffic[0], prefixes=Prefixes(count, tokens, 1.0, 0.2))]
    warmed(d, 900)
    victim = d.victim()
    relaunch(d, victim)
    d.hit, d.accepts = (victim,), ("engine-down",)


def hot_replica(d: Draw) -> None:
    """Strict affinity: a prefix never leaves its pod, whatever the load there; one prefix becomes popular."""
    d.pool(pods=int(d.rng.integers(3, 6)))
    prefixes = Prefixes(int(d.rng.integers(10, 30)), int(d.spread(800, 2500)), d.between(0.55, 0.8), 0.0)
    d.traffic = [d.chat(d.between(0.4, 0.6), prefixes)]
    d.router = replace(d.router, policy="prefix", spill=1e9)
    d.fault("traffic", popular=d.strong(0.45, 0.95))
    # No pod has the first requested prefix; the simulation decides which pod gets it.
    d.hit = ()


def bypassed(d: Draw) -> None:
    """A pod comes back with caching switched off, or clients begin to ask for prompt log-probabilities."""
    d.pool()
    prefixes = Prefixes(int(d.rng.integers(4, 20)), int(d.strong(1000, 4000)), 1.0, d.between(0, 0.8))
    d.traffic = [d.chat(d.between(0.2, 0.35), prefixes)]
    if d.rng.random() < 0.5:
        victim = d.victim()
        relaunch(d, victim, flags={"prefix_caching": False})
        d.hit = (victim,)
    else:
        d.fault("traffic", logprobs=d.strong(0.7, 1.0))
        d.hit = d.names()


def divergence(d: Draw) -> None:
    """Engines and router render prompts differently: what the router finds in its index, no engine ever has."""
    d.pool()
    prefixes = Prefixes(int(d.rng.integers(4, 20)), int(d.strong(1500, 4000)), 1.0, d.between(0, 0.8))
    d.traffic = [d.chat(d.between(0.2, 0.35), prefixes)]
    d.router = replace(d.router, policy="prefix")
    d.fault("traffic", template=True)
    d.hit = d.names()


CAUSES: dict[str, Drawing] = {
    "prefix-locality-loss": locality,
    "prefix-cold-start": cold_start,
    "prefix-index-divergence": divergence,
    "prefix-hot-replica": hot_replica,
    "prefix-cache-bypassed": bypassed,
}
