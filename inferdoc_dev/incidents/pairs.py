"""Inject two faults into one fleet."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from inferdoc.simulate.pod import step_time
from inferdoc.simulate.scenario import Prefixes
from inferdoc_dev.incidents.generator import Draw, Drawing

replace = msgspec.structs.replace


def cpu(d: Draw, pod: str) -> None:
    """So few cores that preparing a step takes longer than the step."""
    spec = d.pools[0]
    step = step_time(spec).step(16, 16 * 800, 0, 0.0, 16).seconds
    d.fault("cpu", pods=[pod], cpu=max(0.01, 1.3e-3 / (step * d.strong(1.5, 3.0))))


TOGETHER: dict[str, Callable[[Draw, str], None]] = {
    "engine-down": lambda d, pod: d.fault("kill", pods=[pod]),
    "engine-hung": lambda d, pod: d.fault("hang", pods=[pod]),
    "slow-gpu": lambda d, pod: d.fault("clock", pods=[pod], clock=d.strong(0.6, 0.4), bandwidth=d.strong(0.65, 0.45)),
    "metric-absent-or-renamed": lambda d, pod: d.fault(
        "drop-series", pods=[pod], families=["vllm:kv_cache_usage_perc"]
    ),
    "prefix-unstable-prompt": lambda d, pod: d.fault("traffic", unstable=True),
    "cpu-starvation": cpu,
}
"""Faults that can be injected together, on different pods."""


def two_at_once(first: str, second: str) -> Drawing:
    """Both faults, the second two minutes after the first."""

    def recipe(d: Draw) -> None:
        d.pool(pods=int(d.rng.integers(4, 6)))
        d.traffic = [d.chat(d.between(0.15, 0.3), Prefixes(10, 2500))]
        d.router = replace(d.router, policy="round-robin")
        names = d.names()
        TOGETHER[first](d, names[0])
        d.onset += 120
        TOGETHER[second](d, names[1])
        d.onset -= 120
        d.hit, d.accepts = (names[0],), (first, second)

    return recipe


PAIRS: dict[str, Drawing] = {f"{a}+{b}": two_at_once(a, b) for a in TOGETHER for b in TOGETHER if a != b}
