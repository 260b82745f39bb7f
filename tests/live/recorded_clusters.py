"""Recorded fleets, each a cluster, in a real Prometheus with our rules, before Alertmanager and `inferdoc serve`.

A fleet that is simulated ahead needs no simulator beside the servers: its samples lie in the Prometheus before they are
due, and nobody sees them before. So windows are as long as they are; only what an alert waits for is shorter. The rules
have the past that `inferdoc alerts backfill` gives them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml
from msgspec import structs

from inferdoc.backtest.backfill import backfill
from inferdoc.backtest.replay import RuleSet
from inferdoc.generate.pack import RECORDING, RULES
from inferdoc.generate.promtool import NAME
from inferdoc.simulate.output import write_file
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import adapted, load_scenario
from inferdoc.simulate.scrape import Scraped
from inferdoc_dev.incidents.recording import record
from tests import prometheus_server
from tests.conftest import ROOT
from tests.live import chain
from tests.serve.running import Hook
from tests.serve.test_process import serving_from

GENERATED, RUNBOOKS = ROOT / "alerts" / "generated", ROOT / "runbooks"
SCENARIOS = (
    "engine-hung", "engine-down", "kv-preemption-thrash", "kv-transfer-backlog", "slow-gpu",
    "demand-beyond-capacity", "prefix-unstable-prompt", "admission-shedding", "gpu-clock-throttle", "lora-thrash",
)  # fmt: skip
CALM_SECONDS = 1500.0
"""What is known from before the fault."""
LASTS_SECONDS = 1500.0
"""Longer than it takes to make it all: the fault goes on while somebody looks."""
EVALUATED = "10s"
OUT_OF_ORDER = "1h"
"""What rules record now is older than the newest sample."""


@dataclass(frozen=True)
class Cluster:
    """A recorded fleet. onset: of its fault, Unix seconds; pods: those that are at fault; targets: what was scraped."""

    name: str
    onset: float
    pods: tuple[str, ...]
    targets: tuple[Scraped, ...]
    text: Path


@dataclass(frozen=True)
class Served:
    """The running servers. slack: what was posted to it."""

    prometheus: str
    service: str
    slack: Hook

    def incident(self, cluster: str) -> dict[str, Any] | None:
        """The incident of a cluster as the API tells it, with its looks; None where there is none yet."""
        listed = requests.get(f"{self.service}/api/v1/incidents", timeout=10).json()["incidents"]
        name = next((one["id"] for one in listed if one["place"]["cluster"] == cluster), None)
        if name is None:
            return None
        whole: dict[str, Any] = requests.get(f"{self.service}/api/v1/incidents/{name}", timeout=10).json()
        return whole

    def told(self, incident: str) -> list[str]:
        """The messages about an incident, by its id, as they were posted: the first may say that it is too soon."""
        texts = (json.dumps(body, ensure_ascii=False) for body in self.slack.bodies)
        return [text for text in texts if incident in text]


def recorded(scenario: str, onset: float, folder: Path, pods: int | None = None) -> Cluster:
    """A scenario with its fault at that time, as OpenMetrics text. pods: of its first pool, None as declared."""
    moved = with_fault_at(adapted(load_scenario(scenario), pods), CALM_SECONDS)
    return _written(moved, scenario, onset, moved.expect.pods, folder)


def well(scenario: str, onset: float, folder: Path, pods: int | None = None) -> Cluster:
    """A scenario without a fault over the same time, as OpenMetrics text."""
    return _written(adapted(load_scenario(scenario), pods), scenario, onset, (), folder)


def _written(scenario: Scenario, name: str, onset: float, pods: tuple[str, ...], folder: Path) -> Cluster:
    start, length = round(onset - CALM_SECONDS, 3), CALM_SECONDS + LASTS_SECONDS
    targets = record(structs.replace(scenario, start=start, duration=length)).targets
    for target in targets:
        target.labels["cluster"] = name
    text = folder / f"{name}.om"
    write_file(targets, text)
    return Cluster(name, onset, pods, tuple(targets), text)


def with_fault_at(scenario: Scenario, onset: float) -> Scenario:
    """The scenario with its faults moved to that second, and with what Kubernetes tells."""
    moved = tuple(structs.replace(fault, at=fault.at - scenario.expect.onset + onset) for fault in scenario.faults)
    exporters = structs.replace(scenario.exporters, kube=True)
    return structs.replace(
        scenario, faults=moved, exporters=exporters, expect=structs.replace(scenario.expect, onset=onset)
    )


def rules_behind(names: str, folder: Path) -> Path:
    """A folder with the records that rules rest on. names: a regular expression of names of records and alerts."""
    built = folder / "behind"
    built.mkdir()
    documents = {
        name: yaml.load((GENERATED / name).read_text("utf-8"), yaml.CSafeLoader) for name in (RECORDING, RULES)
    }
    groups = [group for document in documents.values() for group in document["groups"]]
    exprs = {rule.get("record") or rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}
    queue = [name for name in exprs if re.fullmatch(names, name)]
    behind: set[str] = set()
    while queue:
        name = queue.pop()
        if name not in behind:
            behind.add(name)
            queue += exprs.keys() & NAME.findall(exprs[name])
    for name, document in documents.items():
        for group in document["groups"]:
            group["rules"] = [rule for rule in group["rules"] if (rule.get("record") or rule["alert"]) in behind]
        document["groups"] = [group for group in document["groups"] if group["rules"]]
        (built / name).write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), "utf-8")
    return built


def with_past(clusters: Sequence[Cluster], folder: Path, built: Path = GENERATED) -> None:
    """Fill the database of a folder: samples, and what the rules would have recorded until now. built: folder of the
    rules."""
    whole = folder / "clusters.om"
    write_file([target for cluster in clusters for target in cluster.targets], whole)
    prometheus_server.backfill([whole], folder)
    rules = RuleSet("inferdoc", (built / RECORDING, built / RULES))
    span = min(cluster.onset for cluster in clusters) - CALM_SECONDS, time.time()
    backfill(rules, whole, span, folder / "data", lambda said: None)


@contextmanager
def served(folder: Path, built: Path = GENERATED) -> Iterator[Served]:
    """The chain over the database of a folder; all of it is stopped at the end. built: folder of the rules."""
    port = prometheus_server.free_port()
    manager = f"127.0.0.1:{prometheus_server.free_port()}"
    prometheus = f"127.0.0.1:{prometheus_server.free_port()}"
    with ExitStack() as stack:
        webhook = chain.Webhook(RUNBOOKS)
        stack.callback(webhook.stop)
        slack = Hook()
        stack.callback(slack.stop)
        also = f"http://127.0.0.1:{port}/alertmanager"
        routes = chain.routes_to(built, webhook.address, folder, also, chain.FASTER)
        files = chain.rules_with_links(built, webhook.address, folder, chain.FASTER, interval=EVALUATED, windows=False)
        config = folder / "prometheus.yml"
        alerting = {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]}
        storage = {"tsdb": {"out_of_order_time_window": OUT_OF_ORDER}}
        config.write_text(
            yaml.dump({"rule_files": files, "alerting": alerting, "storage": storage}, Dumper=yaml.CSafeDumper), "utf-8"
        )
        stack.enter_context(
            chain.serving(
                [str(chain.alertmanager()), f"--config.file={routes}", f"--storage.path={folder / 'alertmanager'}",
                 f"--web.listen-address={manager}", "--cluster.listen-address=", "--log.level=error"],
                manager, folder / "alertmanager.log",
            )
        )  # fmt: skip
        source = ["--prometheus", f"http://{prometheus}"]
        _, service = stack.enter_context(serving_from(folder, source, slack, port))
        stack.enter_context(
            chain.serving(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
                 f"--web.listen-address={prometheus}", "--log.level=error", "--rules.alert.resend-delay=2s"],
                prometheus, folder / "prometheus.log",
            )
        )  # fmt: skip
        yield Served(f"http://{prometheus}", service, slack)
