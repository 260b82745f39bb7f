"""From a simulated fleet that is scraped to the message that somebody receives: an engine dies in a pool that sheds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from inferdoc.simulate.output import Live
from inferdoc.simulate.scenario_files import load_scenario
from tests import prometheus_server
from tests.conftest import ROOT
from tests.live import chain

pytestmark = [pytest.mark.live, pytest.mark.takes_long("alerts wait, fire, are held back and are resolved")]

DEAD, WELL = "vllm-1", "vllm-0"
PAGE, TICKET, ALWAYS = "InferdocEngineDown", "InferdocAdmissionShedding", "InferdocWatchdog"
OURS = {PAGE, TICKET, ALWAYS}
"""All others are evaluated in test_page_with_diagnosis.py and test_vmalert.py."""
SHEDDING = """\
id: admission-shedding
title: Two engines refuse requests at a guard that is set too low
expect: {cause: admission-shedding, pods: [vllm-0, vllm-1], onset: 0s}
pools:
  - {name: vllm, pods: 2, tier: h100-80, model: llama-3.1-8b, flags: {max_queued: 8}}
traffic:
  - rate: 8
    prompt: {median: 800, sigma: 0.5, max: 6000}
    output: {median: 200, sigma: 0.5, max: 1000}
duration: 1h
seed: 14
"""


@pytest.fixture
def running(tmp_path) -> Iterator[chain.Chain]:
    if not prometheus_server.available() or chain.alertmanager() is None:
        pytest.skip("needs Prometheus and Alertmanager: apt-get install prometheus prometheus-alertmanager")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SHEDDING, "utf-8")
    live = Live(load_scenario(str(scenario)), 0, 1.0)
    with chain.running(live, ROOT / "alerts" / "generated", ROOT / "runbooks", tmp_path, alerts=OURS) as found:
        yield found


def test_a_dead_engine_pages_holds_back_its_own_ticket_and_resolves(running: chain.Chain):
    hook = running.webhook

    def shedding(pods: set[str], state: str) -> bool:
        told = [(labels, status) for labels, status in running.states() if labels["alertname"] == TICKET]
        return pods <= {labels["pod"] for labels, status in told if status["state"] == state}

    def of(receiver: str, status: str, name: str) -> set[str]:
        return {a["labels"]["pod"] for a in hook.alerts(receiver, status) if a["labels"]["alertname"] == name}

    running.until("both engines have a ticket that waits", lambda: shedding({DEAD, WELL}, "active"))
    assert not hook.alerts("ticket", "firing"), "tickets wait, so that causes that show later can hold them back"

    instance = next(t.scraped.labels["instance"] for t in running.live.targets if t.scraped.labels.get("pod") == DEAD)
    running.down.add(instance)
    running.until("the page of the dead engine", lambda: of("page", "firing", PAGE) == {DEAD})
    running.until("its ticket is held back", lambda: shedding({DEAD}, "suppressed"))
    (inhibited,) = (
        status["inhibitedBy"]
        for labels, status in running.states()
        if labels["alertname"] == TICKET and labels["pod"] == DEAD
    )
    assert inhibited and shedding({WELL}, "active"), "the other engine is none of its business"
    running.until("the ticket of the other one", lambda: of("ticket", "firing", TICKET))
    assert of("ticket", "firing", TICKET) == {WELL}

    page = next(a for a in hook.alerts("page", "firing") if a["labels"]["alertname"] == PAGE)
    answer = requests.get(page["annotations"]["runbook_url"], timeout=10)
    assert answer.status_code == 200 and "engine" in answer.text.lower()
    command = page["annotations"]["diagnose_command"]
    assert f"--pod '{DEAD}'" in command and command.startswith("inferdoc diagnose --prometheus 'http://"), command
    assert f"/{DEAD}: " in page["annotations"]["description"]

    running.down.clear()
    running.until("the page is taken back", lambda: of("page", "resolved", PAGE) == {DEAD})
    running.until(
        "its own ticket, now that nothing explains it", lambda: of("ticket", "firing", TICKET) == {DEAD, WELL}
    )
    assert hook.alerts("deadman", "firing"), "the watchdog arrives all the while"
