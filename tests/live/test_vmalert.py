"""Our rules in VictoriaMetrics' ruler: every rule is evaluated, and the alerts are those of a Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests import prometheus_server, victoria_metrics_server
from tests.live import chain
from tests.live.recorded_clusters import GENERATED, Cluster, recorded, rules_behind, well, with_past
from tests.live.records import recorded_text

FAULTS, CALM = ("demand-beyond-capacity", "gpu-clock-throttle"), "control-pd"
SINCE_SECONDS = 600.0
PATIENCE_SECONDS = 300
CAUSES = {
    "InferdocDemandBeyondCapacity": "demand-beyond-capacity",
    "InferdocGpuClockThrottle": "gpu-clock-throttle",
    "InferdocSlowGpu": "gpu-clock-throttle",
}
PAGES = {"InferdocQueueEatsFirstTokens", "InferdocSloOutage", "InferdocSloBurnFast"}

pytestmark = [
    pytest.mark.live,
    pytest.mark.takes_long("what rules recorded is worked out first, and alerts wait"),
    pytest.mark.skipif(not prometheus_server.available(), reason=prometheus_server.MISSING),
    pytest.mark.skipif(not victoria_metrics_server.available(), reason=victoria_metrics_server.MISSING),
]


@contextmanager
def ruling(clusters: Sequence[Cluster], folder: Path, behind: str = "") -> Iterator[str]:
    """Address of a vmalert over clusters. behind: which records and alerts have a past, as a regular expression."""
    if behind:
        with_past(clusters, folder, rules_behind(behind, folder))
    files = chain.rules_with_links(
        GENERATED, "https://example.org", folder, chain.FASTER, interval="10s", windows=False
    )
    with victoria_metrics_server.running(folder / "server", "-search.latencyOffset=1s") as address:
        for cluster in clusters:
            victoria_metrics_server.load(address, cluster.text)
            if behind:
                victoria_metrics_server.load(address, recorded_text(folder / "data", cluster.name, folder))
        with victoria_metrics_server.ruling(address, [readable(Path(file)) for file in files], folder) as own:
            yield own


def readable(rules: Path) -> Path:
    """The rules without what Debian's vmalert of 2022 does not know: keep_firing_for came with 1.92."""
    document = yaml.load(rules.read_text("utf-8"), yaml.CSafeLoader)
    for group in document["groups"]:
        for rule in group["rules"]:
            rule.pop("keep_firing_for", None)
    rules.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), "utf-8")
    return rules


def told(ruler: str, what: str) -> dict[str, Any]:
    return dict(requests.get(f"{ruler}/api/v1/{what}", timeout=120).json()["data"])


def firing(ruler: str) -> dict[str, set[str]]:
    """The clusters of each alert that fires."""
    alerts: dict[str, set[str]] = {}
    for alert in told(ruler, "alerts")["alerts"] or ():
        if alert["state"] == "firing":
            alerts.setdefault(alert["labels"]["alertname"], set()).add(alert["labels"].get("cluster", ""))
    return alerts


def awaited(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while not (seen := look()) and time.monotonic() < end:
        time.sleep(1)
    return seen


@pytest.mark.slow
def test_causes_and_pages_fire_where_the_fault_is(tmp_path):
    onset = time.time() - SINCE_SECONDS
    clusters = [*(recorded(name, onset, tmp_path) for name in FAULTS), well(CALM, onset, tmp_path)]
    with ruling(clusters, tmp_path, "|".join([*CAUSES, *PAGES])) as ruler:
        assert awaited(lambda: {*CAUSES, *PAGES} <= firing(ruler).keys()), f"only {sorted(firing(ruler))} fire"
        alerts = firing(ruler)
    for name, cluster in CAUSES.items():
        assert alerts[name] == {cluster}
    for name in PAGES:
        assert alerts[name] == {"demand-beyond-capacity"}
    assert not any(CALM in clusters for clusters in alerts.values())


def test_every_rule_is_evaluated(tmp_path):
    cluster = recorded(FAULTS[0], time.time() - SINCE_SECONDS, tmp_path)
    with ruling([cluster], tmp_path) as ruler:

        def rules() -> list[dict[str, Any]]:
            return [rule for group in told(ruler, "rules")["groups"] for rule in group["rules"]]

        assert awaited(lambda: all(not rule["lastEvaluation"].startswith("0001") for rule in rules()))
        assert {rule["name"]: rule["lastError"] for rule in rules() if rule.get("lastError")} == {}
