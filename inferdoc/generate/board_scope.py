"""What the variables of a board choose, and how each exporter is narrowed to it.

Engines carry the labels that the variables are named after. What stands beside them (GPUs, containers) is joined with
the pods that are chosen, so that nobody else's shows; what stands above them is narrowed by cluster and namespace.
"""

from __future__ import annotations

from collections.abc import Sequence

from inferdoc.catalogue.record_names import INFO
from inferdoc.catalogue.signal import Level
from inferdoc.generate.board_spec import Feature
from inferdoc.generate.pod_info import POD, chosen
from inferdoc.judging.conditions.render import ENGINE_SIGN, POOL, clause
from inferdoc.source.reads import Matcher, selector

SEEN_WITHIN = "1h"
"""An engine that stopped answering shows as down for so long."""

MATCHED: dict[Level, tuple[str, ...]] = {
    "engine": ("cluster", "namespace", "model_name", "pod"),
    "target": ("cluster", "namespace", "pod"),
    "gpu": ("cluster",),
    "router": ("cluster", "namespace"),
    "tenant": ("cluster", "namespace"),
    "namespace": ("cluster", "namespace"),
}
"""Variables that narrow the series of a level. GPU exporters carry the pod that uses a GPU in one label or another."""


def matched(labels: Sequence[str]) -> tuple[Matcher, ...]:
    """Matchers with the variables of these names."""
    return tuple((label, "=~", f"${label}") for label in labels)


def engines() -> str:
    """The targets that are chosen engines, those that stopped answering lately too."""
    return f"present_over_time({selector(ENGINE_SIGN, matched(MATCHED['engine']))}[{SEEN_WITHIN}])"


FEATURES: dict[Feature, tuple[str, tuple[Matcher, ...]]] = {
    "adapters": ("vllm:lora_requests_info", ()),
    "drafts": ("vllm:spec_decode_num_drafts_total", ()),
    "ranks": (ENGINE_SIGN, (("engine", "=", "1"),)),
}
"""Series that only pods with a feature have; of several data-parallel ranks one is the second."""


def pods(level: Level, roles: Sequence[str] = (), only: Feature | None = None) -> str:
    """One series for each chosen pod, with its role and tier; roles: of these only; only: with this feature."""
    match = list(matched((*POOL, "pool")))
    if roles:
        match.append(("role", "=~", "|".join(roles)))
    found = chosen(match, engines())
    by = ", ".join(POD)
    if only is not None:
        name, own = FEATURES[only]
        sign = selector(name, (*own, *matched(("cluster",))))
        sign = f"rate({sign}[$__rate_interval])" if name.endswith("_total") else sign
        found = f"{clause(found)}\nand on ({by}) {sign}"
    if level == "engine":
        return found
    return f"{clause(found)}\nand on ({by}) {engines()}"


def pods_without_info() -> str:
    """Chosen pods of which no rule has recorded what they are."""
    by = ", ".join(POD)
    return f"count(group by ({by}) ({engines()}) unless on ({by}) {INFO}) or vector(0)"
