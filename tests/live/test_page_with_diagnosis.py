"""A page that arrives with its diagnosis: ten faults at once, each in a cluster of its own, from the samples in a real
Prometheus with our rules over a real Alertmanager and the service to a webhook that looks like Slack's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from inferdoc.judging.model import seconds
from tests import prometheus_server
from tests.live import chain
from tests.live.recorded_clusters import SCENARIOS, Cluster, Served, recorded, served, with_past

pytestmark = pytest.mark.live

LEAD_SECONDS = 60.0
"""The faults are a minute old before the first of them is recorded."""
PATIENCE_SECONDS = 300.0
ONSET_SECONDS = 90.0
"""A window of a rate and two scrapes."""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory) -> dict[str, Cluster]:
    if not prometheus_server.available() or chain.alertmanager() is None:
        pytest.skip("needs Prometheus and Alertmanager: apt-get install prometheus prometheus-alertmanager")
    folder = tmp_path_factory.mktemp("clusters")
    onset = time.time() - LEAD_SECONDS
    made = [recorded(name, onset, folder) for name in SCENARIOS]
    with_past(made, folder)
    return {cluster.name: cluster for cluster in made}


@pytest.fixture(scope="module")
def chained(clusters) -> Iterator[Served]:
    with served(next(iter(clusters.values())).text.parent) as running:
        yield running


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_message_names_cause_pods_onset_and_runbook(clusters, chained, name):
    cluster = clusters[name]
    incident = _with_a_cause(chained, name)
    story = next(look["story"] for look in incident["looks"] if look["story"] and look["story"]["cause"])
    assert story["cause"] == name, [alert["name"] for alert in incident["alerts"]]
    assert story["pods"] and set(story["pods"]) <= set(cluster.pods)
    assert abs(seconds(story["onset"]) - cluster.onset) <= ONSET_SECONDS
    (message, *_) = _until(lambda: [body for body in chained.slack.bodies if incident["id"] in json.dumps(body)])
    told = json.dumps(message, ensure_ascii=False)
    assert name in told and "/runbooks/" in told and all(pod in told for pod in story["pods"])


def _with_a_cause(chained: Served, name: str) -> dict:
    """The incident of a cluster once one of its looks told a cause."""

    def told() -> dict | None:
        incident = chained.incident(name)
        looks = incident["looks"] if incident else ()
        return incident if any(look["story"] and look["story"]["cause"] for look in looks) else None

    return _until(told)


def _until(told):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if value := told():
            return value
        time.sleep(0.5)
    raise AssertionError(f"not within {PATIENCE_SECONDS:g} s")
