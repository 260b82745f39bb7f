"""How causes are drawn: clients, router, replicas and telemetry."""

from __future__ import annotations

import msgspec

from inferdoc_dev.incidents.generator import Draw, Drawing

replace = msgspec.structs.replace


def retry_storm(d: Draw) -> None:
    """More requests than the pool finishes, until the queue outlasts the patience of the clients: they hang up and ask
    again."""
    d.pool()
    load = d.between(0.35, 0.6)
    d.traffic = [d.chat(load, timeout=d.between(15, 40), retries=int(d.rng.integers(3, 8)))]
    d.fault("traffic", rate=d.strong(1.3, 2.5) / load)
    d.hit, d.accepts = d.names(), ("demand-beyond-capacity",)


def absent(d: Draw) -> None:
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.5))]
    gone = d.one_of(
        ["vllm:kv_cache_usage_perc"],
        ["vllm:num_preemptions_total", "vllm:prompt_tokens_total"],
        ["vllm:num_requests_running", "vllm:num_requests_waiting"],
        ["vllm:generation_tokens_total"],
    )
    victim = d.victim()
    d.fault("drop-series", pods=[victim], families=gone)
    d.hit = (victim,)


def imbalance(d: Draw) -> None:
    d.pool(pods=int(d.rng.integers(3, 6)))
    d.traffic = [d.chat(d.between(0.35, 0.5))]
    victim = d.victim()
    d.fault("routing", pods=[victim], share=d.strong(0.35, 0.85))
    d.hit = (victim,)


def artifact(d: Draw) -> None:
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.5))]
    victim = d.victim()
    if d.rng.random() < 0.5:
        d.fault("duplicate-target", pods=[victim])
    else:
        d.fault("scrape-gap", pods=[victim], lost=d.strong(0.5, 0.9))
    d.hit = (victim,)


CAUSES: dict[str, Drawing] = {
    "client-retry-storm": retry_storm,
    "metric-absent-or-renamed": absent,
    "routing-imbalance": imbalance,
    "telemetry-artifact": artifact,
}
