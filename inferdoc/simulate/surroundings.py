"""What surrounds a fleet and its fault: how it is scraped, under which labels and names, who else is in the namespace.

Nothing here changes a mechanism of the fleet. `randomise` draws it, `record` applies it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

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
