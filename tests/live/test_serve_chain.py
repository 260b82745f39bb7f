"""From a simulated fleet to a message that says what is wrong: Prometheus, Alertmanager and `inferdoc serve`."""

from __future__ import annotations

import time

import pytest
import requests

from inferdoc.simulate.output import Live
from inferdoc.simulate.scenario_files import load_scenario
from tests import prometheus_server
from tests.conftest import ROOT
from tests.live import chain
from tests.serve.running import Hook
from tests.serve.test_process import serving_from

pytestmark = [pytest.mark.live, pytest.mark.takes_long("a baseline takes 45 s, and the alert waits and is resolved")]

DEAD, WELL = "vllm-1", "vllm-0"
PAGE = "InferdocEngineDown"
CALM_SECONDS = 50
"""What a baseline takes: 45 s and 15 scrapes."""


def test_a_dead_engine_is_told_with_cause_pod_onset_and_runbook(tmp_path):
    if not prometheus_server.available() or chain.alertmanager() is None:
        pytest.skip("needs Prometheus and Alertmanager: apt-get install prometheus prometheus-alertmanager")
    hook, port = Hook(), prometheus_server.free_port()
    live = Live(load_scenario("control-steady"), 0, 1.0)
    also = f"http://127.0.0.1:{port}/alertmanager"
    with (
        chain.running(live, ROOT / "alerts" / "generated", ROOT / "runbooks", tmp_path, also, alerts={PAGE}) as running,
        serving_from(tmp_path, ["--prometheus", running.prometheus], hook, port) as (_, address),
    ):
        instances = {
            t.scraped.labels["pod"]: t.scraped.labels["instance"] for t in live.targets if "pod" in t.scraped.labels
        }
        running.up(list(instances.values()), 1)
        time.sleep(CALM_SECONDS)
        died = time.time()
        running.down.add(instances[DEAD])
        message = running.until(
            "the message about the dead engine, at the latest from the second look",
            lambda: next((b for b in hook.bodies if "*cause*  engine-down" in str(b)), None),
        )
        assert (
            DEAD in str(message) and WELL not in str(message["blocks"][1]) and "/runbooks/engine-down" in str(message)
        )
        (incident,) = [
            one
            for one in requests.get(f"{address}/api/v1/incidents", timeout=10).json()["incidents"]
            if one["id"] in str(message)
        ]
        assert incident["story"]["pods"] == [DEAD] and incident["story"]["cause"] == "engine-down"
        document = requests.get(f"{address}/api/v1/incidents/{incident['id']}/diagnosis", timeout=10).json()
        onset = chain.moment(document["findings"][0]["onset"])
        assert abs(onset - died) <= 30, "since when"

        running.down.clear()
        running.until("the end", lambda: any("Resolved: " in str(b) for b in hook.bodies))
    hook.stop()
