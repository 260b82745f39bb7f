"""A page that arrives with its diagnosis: several faults at once, each in a cluster of its own, from the samples in a
real Prometheus with our rules over a real Alertmanager and the service to a webhook that looks like Slack's."""

from __future__ import annotations

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


FIRST, REST = SCENARIOS[:4], SCENARIOS[4:]
CASES = [*((FIRST, name) for name in FIRST), *(pytest.param(REST, name, marks=pytest.mark.slow) for name in REST)]
"""What the rules recorded of a cluster takes long to work out."""


@pytest.fixture(scope="module")
def scenarios(request) -> tuple[str, ...]:
    return request.param


@pytest.fixture(scope="module")
def clusters(scenarios, tmp_path_factory) -> dict[str, Cluster]:
    if not prometheus_server.available() or chain.alertmanager() is None:
        pytest.skip("needs Prometheus and Alertmanager: apt-get install prometheus prometheus-alertmanager")
    folder = tmp_path_factory.mktemp("clusters")
    onset = time.time() - LEAD_SECONDS
    made = [recorded(name, onset, folder) for name in scenarios]
    with_past(made, folder)
    return {cluster.name: cluster for cluster in made}


@pytest.fixture(scope="module")
def chained(clusters) -> Iterator[Served]:
    with served(next(iter(clusters.values())).text.parent) as running:
        yield running


@pytest.mark.takes_long("windows of minutes pass as they do in a cluster")
@pytest.mark.parametrize(
    ("scenarios", "name"), CASES, indirect=["scenarios"], ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_message_names_cause_pods_onset_and_runbook(clusters, chained, name):
    cluster = clusters[name]
    incident = _until(lambda: _told(chained.incident(name), name))
    story = next(story for story in _stories(incident) if story["cause"] == name)
    assert story["pods"] and set(story["pods"]) <= set(cluster.pods)
    assert abs(seconds(story["onset"]) - cluster.onset) <= ONSET_SECONDS
    (told, *_) = _until(lambda: [text for text in chained.told(incident["id"]) if f"*cause*  {name}" in text])
    assert "/runbooks/" in told and all(pod in told for pod in story["pods"])


def _told(incident: dict | None, cause: str) -> dict | None:
    """The incident once a look told that cause: the first minute of one may look like another's, and is looked at again
    three minutes later."""
    return incident if incident and any(story["cause"] == cause for story in _stories(incident)) else None


def _stories(incident: dict) -> list[dict]:
    return [look["story"] for look in incident["looks"] if look["story"]]


def _until(told):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if value := told():
            return value
        time.sleep(0.5)
    raise AssertionError(f"not within {PATIENCE_SECONDS:g} s")
