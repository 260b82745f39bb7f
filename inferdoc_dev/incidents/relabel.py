"""The pages of a fleet as a user's scrape configuration stores them: other names, other labels, families dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.samples import Labels, Layout, Page, Series
from inferdoc.simulate.engine_pages import POOL
from inferdoc.simulate.scrape import Scraped
from inferdoc.simulate.surroundings import AllowList, LabelLayout, Surroundings

ENGINES, ROUTER = "vllm", "llm-d-epp"
"""Jobs of the bare recording."""
ADDRESS = re.compile(r"^10\.0\.(\d+)\.(\d+)(:\d+)?$")
NODE = re.compile(r"^(GPU-)?node-(\d+)(.*)$")
OF_TARGET = frozenset({"up", "scrape_duration_seconds"})
"""Series that Prometheus itself adds: no relabelling of metrics drops them."""
SUFFIXES = ("_bucket", "_count", "_sum", "_created")
DASHBOARD = frozenset(
    {
        "vllm:e2e_request_latency_seconds",
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
        "vllm:time_per_output_token_seconds",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:num_requests_running",
        "vllm:num_requests_swapped",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
        "vllm:request_success_total",
        "vllm:request_prompt_tokens",
        "vllm:request_generation_tokens",
        "vllm:request_queue_time_seconds",
        "vllm:request_prefill_time_seconds",
        "vllm:request_decode_time_seconds",
        "vllm:request_max_num_generation_tokens",
    }
)
"""What the Grafana dashboard in vLLM's repository reads (examples/online_serving/prometheus_grafana)."""


def family(name: str) -> str:
    """The family of a series, by its name."""
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def keeps(allow: AllowList, withheld: frozenset[str], engine: bool) -> Callable[[str], bool]:
    """Whether a series of a page passes the relabelling of metrics."""

    def kept(name: str) -> bool:
        if name in OF_TARGET:
            return True
        head = family(name)
        if head in withheld or f"{head}_total" in withheld:
            return False
        if not engine or allow == "all":
            return True
        return head in DASHBOARD if allow == "dashboard" else name.startswith("vllm:")

    return kept


@dataclass
class Relabelling:
    """values: names of the simulation and their replacements; network: second number of every address, so that
    fleets of one namespace have none in common; turn: Unix seconds from when on the engines carry one more label."""

    surroundings: Surroundings
    values: Mapping[str, str]
    network: int
    namespace: str
    deployment: str
    turn: float | None = None
    _layouts: dict[tuple[bytes, bool], tuple[Layout, NDArray[np.bool_]]] = field(default_factory=dict)

    def value(self, text: str) -> str:
        """A label value as exposed."""
        if text in self.values:
            return self.values[text]
        if text == POOL:
            return f"{self.deployment}-pool"
        address = ADDRESS.match(text)
        if address:
            return f"10.{self.network}.{address[1]}.{address[2]}{address[3] or ''}"
        node = NODE.match(text)
        return f"{node[1] or ''}node-{self.network}-{node[2]}{node[3]}" if node else text

    def target(self, target: Scraped) -> list[Scraped]:
        """A target under its labels and with what is kept of its pages; two where a rule changed in between."""
        engine = target.labels["job"] == ENGINES
        where = self._labels(target.labels, self.surroundings.layout)
        pages = [(stamp, self._page(page, engine)) for stamp, page in target.pages]
        if self.turn is None or not engine or not pages:
            return [Scraped(where, pages)]
        turn = 1000 * self.turn
        before = [entry for entry in pages if entry[0] < turn]
        after = [entry for entry in pages if entry[0] >= turn]
        changed = {**where, "team": "serving"}
        return [Scraped(labels, part) for labels, part in ((where, before), (changed, after)) if part]

    def shown(self, target: Scraped) -> tuple[str, ...]:
        """Under which names a reader may find a target: its pod, its address."""
        labelled = self._labels(target.labels, self.surroundings.layout)
        names = (labelled.get("pod"), labelled.get("kubernetes_pod_name"), labelled["instance"])
        return tuple(name for name in names if name)

    def _labels(self, labels: Mapping[str, str], layout: LabelLayout) -> dict[str, str]:
        job, namespace = labels["job"], self.namespace
        instance = self.value(labels["instance"])
        pod = self.value(labels["pod"]) if "pod" in labels else ""
        if job == ENGINES:
            return self._engine_labels(instance, pod, layout)
        if job == ROUTER:
            labelled = {"job": f"{self.deployment}-epp", "instance": instance}
            return (
                labelled
                if layout == "instance"
                else {**labelled, "namespace": namespace, "pod": f"{self.deployment}-epp"}
            )
        labelled = {"job": job, "instance": instance}
        if self.surroundings.exported and not pod:
            # The exporter's own pod takes the place; Prometheus keeps what the page says under exported_*.
            own = f"{job}-{instance.split(':')[0].replace('.', '-')}"
            return {**labelled, "namespace": "monitoring", "pod": own}
        return {**labelled, "namespace": namespace, "pod": pod} if pod else labelled

    def _engine_labels(self, instance: str, pod: str, layout: LabelLayout) -> dict[str, str]:
        job, namespace = self.surroundings.job, self.namespace
        if layout == "instance":
            return {"job": job, "instance": instance}
        if layout == "annotations":
            return {
                "job": "kubernetes-pods",
                "instance": instance,
                "kubernetes_namespace": namespace,
                "kubernetes_pod_name": pod,
                "app": self.deployment,
            }
        labelled = {"job": job, "instance": instance, "namespace": namespace, "pod": pod}
        if layout == "podmonitor":
            labelled |= {"job": f"{namespace}/{self.deployment}", "container": "vllm", "endpoint": "metrics"}
        return labelled

    def _page(self, page: Page, engine: bool) -> Page:
        key = page.layout.digest, engine
        if key not in self._layouts:
            self._layouts[key] = self._layout(page.layout, engine)
        layout, kept = self._layouts[key]
        return Page(layout, page.values[kept])

    def _layout(self, layout: Layout, engine: bool) -> tuple[Layout, NDArray[np.bool_]]:
        is_kept = keeps(self.surroundings.allow, frozenset(self.surroundings.withheld), engine)
        kept = np.array([is_kept(series.name) for series in layout.series], bool)
        series = [
            Series(one.name, self._relabelled(one.labels))
            for one, keep in zip(layout.series, kept, strict=True)
            if keep
        ]
        present = {name for one in series for name in (one.name, family(one.name))}
        types = {name: kind for name, kind in layout.types.items() if name in present}
        return Layout(series, types), kept

    def _relabelled(self, labels: Labels) -> Labels:
        return tuple((name, self.value(value)) for name, value in labels)
