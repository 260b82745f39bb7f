"""Pages beside the engines: cAdvisor and inferdoc's reader of the balancedness log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from inferdoc.simulate.items import Item, counter, gauge, labels
from inferdoc.simulate.pod import Pod


def cadvisor_items(pods: Sequence[Pod], now: float, namespace: str) -> Iterator[Item]:
    """Scheduler periods and CPU seconds of the containers of one node."""
    alive = [pod for pod in pods if pod.alive]
    for pod in alive:
        pod.account_cpu(now)

    def where(pod: Pod) -> tuple[tuple[str, str], ...]:
        return labels(namespace=namespace, pod=pod.name, container="vllm")

    for pod in alive:
        yield counter("container_cpu_cfs_periods_total", round(pod.engine.stats.cfs_periods), where(pod))
    for pod in alive:
        throttled = round(pod.engine.stats.throttled_periods)
        yield counter("container_cpu_cfs_throttled_periods_total", throttled, where(pod))


def balancedness_items(pod: Pod, model_name: str, rng: np.random.Generator) -> Iterator[Item]:
    """What the engine's log says of its experts: mean over maximum of the tokens per rank, 0.94 to 0.99 when even."""
    value = min(1.0, float(rng.normal(0.95, 0.01)) / pod.health.hot)
    yield gauge("inferdoc_eplb_balancedness", round(value, 4), labels(model_name=model_name))
