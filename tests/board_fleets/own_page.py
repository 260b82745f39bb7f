"""The page of `inferdoc collect --expose` as a Prometheus would have stored it: real verdicts of a simulated fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.collect.collector import CollectStats
from inferdoc.config import Config
from inferdoc.config_sections import PricesSection, TierPrice
from inferdoc.cost.bill import billed
from inferdoc.expose.exporter import Exposed
from inferdoc.expose.rounds import Result
from inferdoc.forecast.result import Forecast
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.request import diagnosis
from inferdoc.report.cost import cost_metrics
from inferdoc.source.open import open_source

TARGET = 'job="inferdoc",instance="inferdoc-0:9100",namespace="monitoring",pod="inferdoc-0"'
SCRAPE = 15
TAKEN = {"namespace": "exported_namespace", "pod": "exported_pod"}
"""Labels of the page that those of the target push aside, without honor_labels."""


@dataclass
class Made:
    """Work that is done: what Rounds shows of it. at: Unix seconds."""

    result: Result[Diagnosis] | Result[list[Forecast]]
    done: int = 1
    failed: int = 0

    def newest(self, now: float | None = None) -> object:
        return self.result


def own_page(store: Path, start: float, end: float) -> str:
    """OpenMetrics text: a diagnosis of the store at the end, shown over its last stretch."""
    catalogue = load_catalogue()
    source = open_source(store=str(store))
    try:
        answer = diagnosis(source, Config(), catalogue, {"since": "15m", "until": "latest"})
    finally:
        source.close()
    stats = CollectStats()
    judged = Made(Result(answer, end - 120, 1.5))
    foreseen = Made(Result([_forecast(start)], start, 1.0))
    page = Exposed(Families(catalogue.exporters["inferdoc"]), stats, lambda: 1_000_000, None, judged, foreseen)  # type: ignore[arg-type]
    metered = [*_metered(store), *Families(catalogue.exporters["inferdoc"]).families(_room(end))]
    told: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for at in np.arange(start, end, SCRAPE):
        stats.scrapes, stats.samples = stats.scrapes + 10, stats.samples + 5000
        stats.failed += at % 300 == 0
        for metric in (*page.collect(), *metered):
            kinds[metric.name] = metric.type if metric.type != "info" else "gauge"
            for sample in metric.samples:
                if not sample.name.endswith("_created"):
                    told.setdefault(metric.name, []).append(_line(sample.name, sample.labels, sample.value, float(at)))
    told["up"] = [f"up{{{TARGET}}} 1 {at}" for at in np.arange(start, end, SCRAPE)]
    kinds["up"] = "gauge"
    families = (line for name, lines in told.items() for line in (f"# TYPE {name} {kinds[name]}", *sorted(lines)))
    return "\n".join([*families, "# EOF", ""])


def _metered(store: Path) -> Iterator[Metric]:
    """What a node exporter shows of the bill of the store."""
    config = Config(prices=PricesSection(tiers={"h100-80": TierPrice(3.0), "a100-80": TierPrice(1.5)}))
    source = open_source(store=str(store))
    try:
        bill = billed(source, config, load_catalogue(), {"since": "15m", "until": "latest"})
    finally:
        source.close()
    yield from text_string_to_metric_families(cost_metrics(bill))


def _room(end: float) -> Mapping[str, Sequence[Row]]:
    """Room of two pools, of which one has none after a loss. end: Unix seconds."""
    whose = {
        role: {"pool": f"llm-llama-{role}", "model_name": "llama", "role": role, "tier": tier}
        for role, tier in (("prefill", "h100-80"), ("decode", "a100-80"))
    }
    prefill, decode = whose["prefill"], whose["decode"]
    return {
        "inferdoc_headroom_used": [(prefill | {"load": "peak"}, 0.62), (decode | {"load": "peak"}, 0.93)],
        "inferdoc_headroom_replicas": [
            *((prefill | {"what": what}, n) for what, n in (("counted", 6), ("to_spare", 2), ("to_add", 0))),
            *((decode | {"what": what}, n) for what, n in (("counted", 4), ("to_spare", 0), ("to_add", 2))),
        ],
        "inferdoc_headroom_after_loss": [
            *((prefill | {"lost": lost}, n) for lost, n in (("one pod", 0.74), ("the fullest node", 0.93))),
            *((decode | {"lost": lost}, n) for lost, n in (("one pod", 1.24), ("the fullest node", 1.86))),
        ],
        "inferdoc_headroom_crossing_timestamp_seconds": [(decode | {"path": "earliest"}, end + 37 * 3600)],
    }


def _line(name: str, labels: dict[str, str], value: float, at: float) -> str:
    told = ",".join([TARGET, *(f'{TAKEN.get(key, key)}="{text}"' for key, text in labels.items())])
    return f"{name}{{{told}}} {value} {at}"


def _forecast(start: float) -> Forecast:
    steps = np.linspace(8.0, 14.0, 24)
    quantiles = {0.5: steps, 0.95: steps * 1.3}
    return Forecast("llm/llama", "requests/s", int(start), 3600, "UTC", steps, quantiles, "blend", skill=0.6)


def neighbours(start: float, end: float) -> Iterator[str]:
    """GPUs of another team on the same exporters, which no board may show."""
    yield "# TYPE DCGM_FI_DEV_GPU_UTIL gauge"
    target = 'job="dcgm-exporter",instance="node-9:9400",Hostname="node-9",gpu="0",modelName="NVIDIA H100 80GB HBM3"'
    for at in np.arange(start, end, SCRAPE):
        yield f'DCGM_FI_DEV_GPU_UTIL{{{target},namespace="training",pod="other-team-0"}} 97 {at}'
    yield "# EOF"
