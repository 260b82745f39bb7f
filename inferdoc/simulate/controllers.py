"""Scenario settings of flow control and autoscalers."""

from __future__ import annotations

from typing import Literal

import msgspec

ScaleOn = Literal["in-flight", "gpu", "missing"]


class FlowSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Flow control of the llm-d router. queue_limit, kv_limit: load of an endpoint that counts as full (defaults of its
    utilisation detector: 5 waiting requests, 0.8 of the KV cache); staleness: s after which an endpoint's figures count
    as stale, and the endpoint as full (default 200 ms); ttl: s a request may be queued; capacity: requests that one
    priority may hold, 0 for no limit."""

    queue_limit: float = 5.0
    kv_limit: float = 0.8
    staleness: float = 0.2
    ttl: float = 60.0
    capacity: int = 0


class ScalerSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A horizontal pod autoscaler. least, most: replicas; target: requests at work or waiting per replica, or the share
    of time a GPU is busy, by `metric` (missing: its query returns nothing); every: s between two runs (default 15 s);
    up_window, down_window: s of stabilisation (defaults 0 and 300 s); tolerance: of the ratio (default 0.1); room: pods
    for which there are GPUs, 0 for enough; shutdown: s that the live requests of a removed pod get (vLLM
    --shutdown-timeout, default 0)."""

    least: int = 1
    most: int = 10
    target: float = 8.0
    metric: ScaleOn = "in-flight"
    every: float = 15.0
    up_window: float = 0.0
    down_window: float = 300.0
    tolerance: float = 0.1
    room: int = 0
    shutdown: float = 120.0
