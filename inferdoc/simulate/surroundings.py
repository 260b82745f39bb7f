"""What surrounds a fleet and its fault: how it is scraped, under which labels and names, who else is in the namespace.

Nothing here changes a mechanism of the fleet. `randomise` draws it, `record` applies it.
"""

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


LabelLayout = Literal["pod", "podmonitor", "annotations", "instance"]
"""Which labels a target has. pod: namespace and pod; podmonitor: those of the Prometheus operator (container, endpoint,
job namespace/name) besides; annotations: the scrape config of the Prometheus examples (kubernetes_pod_name,
kubernetes_namespace); instance: job and instance only, as in a static config."""
Naming = Literal["numbered", "deployment"]
"""numbered: name-0, name-1 (a StatefulSet); deployment: name-<hash of the replica set>-<five letters>."""
AllowList = Literal["all", "prefix", "dashboard"]
"""What metric_relabel_configs keep of an engine's page: all; names that begin with vllm: and nothing of the process;
what the dashboard in vLLM's repository reads."""


class Bystander(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A small fleet of another model in the same namespace. happens: the innocent thing that happens to it at `at`
    s."""

    tier: str
    model: str
    gpus: int
    pods: int
    load: float
    router: bool
    happens: Literal["nothing", "rollout", "grow", "burst"] = "nothing"
    at: float = 0.0


class Surroundings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """seed: of names, lost scrapes and jitter. jitter: s (the largest) by which a scrape is late or early; lost: share
    of the scrapes that never happen; refused: times an hour that a target does not answer a scrape although it lives.
    layout, naming: see there; base: name of the deployments, in place of `vllm`; roles_named: prefill and decode stand
    in pod names; exported: exporters are scraped without honouring labels, so `pod` has their own pod; job: that
    of the engines; allow, withheld: what is kept of the pages, and families that are dropped besides; relabelled: s
    from when on the engines carry one more label (a relabelling rule was changed); age: s that the first pods ran
    before the recording. window: s of the recording at which a timely window starts; late: s
    after the onset at which a late window starts; old: s after the onset at which that of one who looks
    much later does, None where the recording is too short. bystanders: other models of the namespace. happened: the
    innocent things that were put into the fleet, by name, for tables."""

    seed: int = 0
    jitter: float = 0.0
    lost: float = 0.0
    refused: float = 0.0
    layout: LabelLayout = "pod"
    naming: Naming = "numbered"
    base: str = "vllm"
    roles_named: bool = True
    exported: bool = False
    job: str = "vllm"
    allow: AllowList = "all"
    withheld: tuple[str, ...] = ()
    relabelled: float | None = None
    age: float = 0.0
    window: float = 0.0
    late: float = 180.0
    old: float | None = None
    bystanders: tuple[Bystander, ...] = ()
    happened: tuple[str, ...] = ()
