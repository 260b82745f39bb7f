"""Outages of what engines stand behind and of what watches them, total and partial, in a real Prometheus with the real
rules: each pages or is a ticket as designed, and ends with the outage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from inferdoc.simulate.output import Live
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.simulate.scrape import Scraped
from tests import prometheus_server
from tests.conftest import ROOT
from tests.live import chain

pytestmark = [pytest.mark.live, pytest.mark.takes_long("each outage begins, waits and is over")]

TIMES = 60
"""An hour is a minute, five minutes five scrapes."""
FLEET = """\
id: outages
title: Three engines on three machines behind two routers
expect: {cause: null}
pools:
  - {name: vllm, pods: 3, tier: h100-80, model: llama-3.3-70b, gpus: 8}
traffic:
  - {rate: 6, prompt: {median: 400, max: 2000}, output: {median: 60, max: 200}}
exporters: {kube: true}
duration: 1h
seed: 5
"""
ROUTER, GPUS, CONTAINERS, PODS, ENGINES = "llm-d-epp", "dcgm-exporter", "cadvisor", "kube-state-metrics", "vllm"
OURS = {
    *("InferdocRouterDown", "InferdocRouterReplicaDown", "InferdocExporterDown", "InferdocExporterVanished"),
    *("InferdocTargetVanished", "InferdocEngineDown"),
}
HOUR_SECONDS = 3600 / TIMES


@pytest.fixture(scope="module")
def running(tmp_path_factory) -> Iterator[chain.Chain]:
    if not prometheus_server.available() or chain.alertmanager() is None:
        pytest.skip("needs Prometheus and Alertmanager: apt-get install prometheus prometheus-alertmanager")
    folder = tmp_path_factory.mktemp("outages")
    scenario = folder / "scenario.yaml"
    scenario.write_text(FLEET, "utf-8")
    live = Live(load_scenario(str(scenario)), 0, 1.0)
    (first,) = (target for target in live.targets if target.scraped.labels["job"] == ROUTER)
    second = replace(first, scraped=Scraped({**first.scraped.labels, "instance": "10.0.250.3:9090", "pod": "epp-1"}))
    live.targets.append(second)
    live.servers.append(live._server(second, 0))
    generated = ROOT / "alerts" / "generated"
    with chain.running(live, generated, ROOT / "runbooks", folder, times=TIMES, alerts=OURS) as found:
        begun = time.monotonic()
        found.up(instances(found), 1)
        found.until("an hour of record", lambda: time.monotonic() - begun > 1.2 * HOUR_SECONDS)
        yield found


def instances(running: chain.Chain, job: str | None = None) -> list[str]:
    """The targets of a job, or of all."""
    labels = (target.scraped.labels for target in running.live.targets)
    return [each["instance"] for each in labels if job in (None, each["job"])]


def ours(running: chain.Chain) -> set[tuple[str, str, str]]:
    """Alert, severity and job of what fires about outages."""
    return {
        (each["alertname"], each["severity"], each.get("job", ""))
        for each in running.firing()
        if each["alertname"] in OURS
    }


PAGE, TICKET = "critical", "warning"
DOWN = [
    (ROUTER, False, {("InferdocRouterReplicaDown", TICKET, ROUTER)}),
    (ROUTER, True, {("InferdocRouterDown", PAGE, ROUTER), ("InferdocRouterReplicaDown", TICKET, ROUTER)}),
    (GPUS, False, {("InferdocExporterDown", TICKET, GPUS)}),
    (GPUS, True, {("InferdocExporterDown", TICKET, GPUS)}),
    (CONTAINERS, False, {("InferdocExporterDown", TICKET, CONTAINERS)}),
    (PODS, True, {("InferdocExporterDown", TICKET, PODS)}),
    (ENGINES, False, {("InferdocEngineDown", PAGE, "")}),
    (ENGINES, True, {("InferdocEngineDown", PAGE, "")}),
]
GONE = [
    (ROUTER, True, {("InferdocRouterDown", PAGE, ROUTER), ("InferdocTargetVanished", TICKET, ROUTER)}),
    (GPUS, False, {("InferdocExporterVanished", TICKET, GPUS)}),
    (GPUS, True, {("InferdocExporterVanished", TICKET, GPUS), ("InferdocTargetVanished", TICKET, GPUS)}),
    (PODS, True, {("InferdocExporterVanished", TICKET, PODS), ("InferdocTargetVanished", TICKET, PODS)}),
    (ENGINES, True, {("InferdocTargetVanished", TICKET, ENGINES)}),
]


def chosen(running: chain.Chain, job: str, whole: bool) -> list[str]:
    """All targets of a job, or one of them."""
    found = instances(running, job)
    assert whole or len(found) > 1
    return found if whole else found[:1]


@pytest.mark.parametrize(
    ("job", "whole", "wanted"), DOWN, ids=[f"{job}-{'all' if all_ else 'one'}" for job, all_, _ in DOWN]
)
def test_what_does_not_answer_fires_as_designed_and_clears(running, job, whole, wanted):
    running.until("nothing fires", lambda: not ours(running))
    running.down.update(chosen(running, job, whole))
    running.until(f"{wanted}", lambda: wanted <= ours(running))
    assert ours(running) == wanted
    running.down.clear()
    running.until("it clears", lambda: not ours(running))


@pytest.mark.parametrize(
    ("job", "whole", "wanted"), GONE, ids=[f"{job}-{'all' if all_ else 'one'}" for job, all_, _ in GONE]
)
def test_what_is_no_longer_discovered_fires_as_designed_and_clears(running, job, whole, wanted):
    running.until("nothing fires", lambda: not ours(running))
    running.discover(chosen(running, job, whole))
    running.until(f"{wanted}", lambda: wanted <= ours(running))
    assert ours(running) == wanted
    running.discover(())
    running.until("it clears", lambda: not ours(running))
