"""A page that arrives with its diagnosis: several faults at once, each in a cluster of its own, from the samples in a
real Prometheus with our rules over a real Alertmanager and the service to a webhook that looks like Slack's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.generate.alerts import build_alerts
from inferdoc.generate.links import GeneratedLinks
from inferdoc.judging.model import seconds
from tests import prometheus_server
from tests.live import chain
from tests.live.recorded_clusters import GENERATED, SCENARIOS, Cluster, Served, recorded, served, with_past

pytestmark = pytest.mark.live

LEAD_SECONDS = 60.0
"""The faults are a minute old before the first of them is recorded."""
PATIENCE_SECONDS = 300.0
ONSET_SECONDS = 90.0
"""A window of a rate and two scrapes."""


FIRST, REST = SCENARIOS[:4], SCENARIOS[4:]
"""Each is one fleet: what the rules recorded of a cluster takes long to work out. The first are paged by the set of
rules that has the pages alone."""
CASES = [*FIRST, *(pytest.param(name, marks=pytest.mark.slow) for name in REST)]
ChainOf = Callable[[str], tuple[Cluster, Served]]


@pytest.fixture(scope="module")
def chain_of(tmp_path_factory) -> Iterator[ChainOf]:
    """Scenario -> its cluster, and the servers of the fleet that it is in; only those of one fleet run."""
    if not prometheus_server.available() or chain.alertmanager() is None:
        pytest.skip("needs Prometheus and Alertmanager: apt-get install prometheus prometheus-alertmanager")
    clusters: dict[str, Cluster] = {}
    with ExitStack() as stack:
        servers: list[Served] = []

        def of(name: str) -> tuple[Cluster, Served]:
            if name not in clusters:
                stack.close()
                clusters.clear()
                folder = tmp_path_factory.mktemp("clusters")
                onset = time.time() - LEAD_SECONDS
                made = [recorded(each, onset, folder) for each in (FIRST if name in FIRST else REST)]
                built = GENERATED
                if name in FIRST:
                    built = folder / "pages"
                    build_alerts(load_catalogue(), GeneratedLinks(), built, rule_set="pages")
                with_past(made, folder, built)
                clusters.update({cluster.name: cluster for cluster in made})
                servers[:] = [stack.enter_context(served(folder, built))]
            return clusters[name], servers[0]

        yield of


@pytest.mark.takes_long("windows of minutes pass as they do in a cluster")
@pytest.mark.parametrize("name", CASES)
def test_the_message_names_cause_pods_onset_and_runbook(chain_of, name):
    cluster, chained = chain_of(name)
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
