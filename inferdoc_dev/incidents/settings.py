"""Draw causes by settings: changes on all or some pods, and pods that always differ."""

from __future__ import annotations

from typing import Any

import msgspec

from inferdoc.simulate.scenario import Prefixes
from inferdoc_dev.incidents.generator import Draw, Drawing
from inferdoc_dev.incidents.prefixes import relaunch

replace = msgspec.structs.replace


def _worse(d: Draw) -> dict[str, Any]:
    """One setting that shows in the cache configuration or the image, and slower kernels that come with it: a KV format
    whose attention backend is not the tuned one, or an image built without the right ones."""
    slower = d.strong(1.35, 2.2)
    return {**d.one_of({"cache_dtype": "fp8"}, {"python": "3.12.11"}), "kernels": slower}


def regression(d: Draw) -> None:
    """A canary comes back with one changed setting and is slower than its like."""
    d.pool(pods=int(d.rng.integers(3, 6)))
    d.traffic = [d.chat(d.between(0.2, 0.35))]
    victim = d.victim()
    relaunch(d, victim, flags=_worse(d))
    d.router = replace(d.router, policy=d.one_of("round-robin", "random"))
    d.hit = (victim,)


def several(d: Draw) -> None:
    """A canary comes back with several changed settings and is slower than its like."""
    d.pool(pods=int(d.rng.integers(3, 6)))
    d.traffic = [d.chat(d.between(0.2, 0.35))]
    victim = d.victim()
    flags = {"cache_dtype": "fp8", "kernels": d.strong(1.35, 2.2), "memory_share": 0.85, "block_size": d.one_of(16, 32)}
    relaunch(d, victim, flags=flags)
    d.router = replace(d.router, policy=d.one_of("round-robin", "random"))
    d.hit = (victim,)


def drift(d: Draw) -> None:
    """One pod of the pool was left behind: without prefix caching, or with slower kernels. More traffic shows it."""
    d.pool(pods=int(d.rng.integers(3, 6)))
    d.traffic = [d.chat(d.between(0.15, 0.25), Prefixes(10, int(d.spread(1500, 3000))))]
    spec = d.pools[0]
    odd = msgspec.convert({**msgspec.to_builtins(spec.flags), **_worse(d)}, type(spec.flags))
    d.pools = [replace(spec, pods=spec.pods - 1), replace(spec, name="vllm-old", pods=1, flags=odd)]
    d.fault("traffic", rate=d.strong(1.3, 2.2))
    d.router = replace(d.router, policy=d.one_of("round-robin", "random"))
    d.hit = ("vllm-old-0",)


CAUSES: dict[str, Drawing] = {
    "config-drift": drift,
    "config-regression": regression,
    "multi-parameter-change": several,
}
