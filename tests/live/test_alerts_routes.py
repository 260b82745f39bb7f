"""Inhibition on a real Alertmanager: effects are held back, the watchdog and other pods' alerts are not."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import requests

from inferdoc.generate.alerts import ALERTMANAGER
from tests import prometheus_server
from tests.conftest import ROOT

pytestmark = pytest.mark.live

CONFIG = ROOT / "alerts" / "generated" / ALERTMANAGER
SETTLED_LOOKS = 5
BASE = {"component": "inferdoc", "namespace": "a"}


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory) -> Iterator[str]:
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        pytest.skip("needs Alertmanager: apt-get install prometheus-alertmanager")
    folder = tmp_path_factory.mktemp("alertmanager")
    address = f"127.0.0.1:{prometheus_server.free_port()}"
    command = [
        program,
        f"--config.file={CONFIG}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
        "--log.level=error",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_for(f"http://{address}/-/ready")
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(20)


def wait_for(url: str) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            if requests.get(url, timeout=2).status_code == 200:
                return
        except requests.exceptions.RequestException:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


def states(address: str, *alerts: dict[str, str]) -> dict[str, str]:
    """Post alerts, and say for each which state it is in, by its `id` label, once it stays so: Alertmanager lists an
    alert before those that hold it back have reached its inhibitor."""
    ends = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    requests.post(f"{address}/api/v2/alerts", json=[{"labels": a, "endsAt": ends} for a in alerts], timeout=10)
    wanted = {alert["id"] for alert in alerts}
    end = time.monotonic() + 20
    found: dict[str, str] = {}
    alike = 0
    while time.monotonic() < end:
        listed = requests.get(f"{address}/api/v2/alerts", timeout=10).json()
        before, found = (
            found,
            {a["labels"]["id"]: a["status"]["state"] for a in listed if a["labels"].get("id") in wanted},
        )
        settled = wanted == found.keys() and "unprocessed" not in found.values()
        alike = alike + 1 if settled and found == before else 0
        if alike == SETTLED_LOOKS:
            return found
        time.sleep(0.2)
    return found


def alert(name: str, ident: str, **labels: str) -> dict[str, str]:
    return {**BASE, "alertname": name, "id": ident, "severity": "warning", **labels}


def test_a_dead_engine_holds_back_its_own_alerts_only(alertmanager):
    found = states(
        alertmanager,
        alert("InferdocEngineDown", "down", severity="critical", pod="p0"),
        alert("InferdocKvPreemptionThrash", "same-pod", pod="p0"),
        alert("InferdocKvPreemptionThrash", "other-pod", pod="p1"),
        alert("InferdocKvPreemptionThrash", "other-namespace", pod="p0", namespace="b"),
        alert("InferdocDemandBeyondCapacity", "pool-without-pod"),
        alert("InferdocEngineHung", "hung", severity="critical", pod="p0"),
        {"alertname": "InferdocWatchdog", "id": "watchdog", "severity": "info", "component": "inferdoc"},
        {"alertname": "Foreign", "id": "foreign", "severity": "warning", "namespace": "a", "pod": "p0"},
    )
    assert {ident for ident, state in found.items() if state == "suppressed"} == {"same-pod", "hung"}
    assert len(found) == 8


def test_labels_that_both_lack_do_not_count_as_equal(alertmanager):
    found = states(
        alertmanager,
        {"alertname": "InferdocEngineDown", "id": "nameless", "severity": "critical", "component": "inferdoc"},
        {"alertname": "InferdocSlowGpu", "id": "nameless-too", "severity": "warning", "component": "inferdoc"},
    )
    assert set(found.values()) == {"active"}


def test_fast_burn_holds_back_slow_burn_of_the_same_objective(alertmanager):
    found = states(
        alertmanager,
        alert("InferdocSloBurnFast", "fast", severity="critical", model_name="m", slo="ttft"),
        alert("InferdocSloBurnSlow", "slow", model_name="m", slo="ttft"),
        alert("InferdocSloBurnSlow", "other-objective", model_name="m", slo="itl"),
        alert("InferdocSloBurnSlow", "other-model", model_name="n", slo="ttft"),
        alert("InferdocSloBurnSlow", "other-role", model_name="m", slo="ttft", role="prefill"),
    )
    assert {ident for ident, state in found.items() if state == "suppressed"} == {"slow"}


def test_a_cause_holds_back_what_it_explains_in_its_own_model_only(alertmanager):
    """By the effects that causes declare: load that outgrew the pool explains requests that are refused."""
    cause, effect = "InferdocDemandBeyondCapacity", "InferdocAdmissionShedding"
    kind = {"kind": "cause", "namespace": "effects"}
    found = states(
        alertmanager,
        alert(cause, "cause", model_name="m", **kind),
        alert(effect, "effect", model_name="m", pod="p0", **kind),
        alert(effect, "other-model", model_name="n", pod="p1", **kind),
        alert(effect, "no-model", pod="p2", **kind),
        alert(effect, "other-namespace", model_name="m", pod="p0", **{**kind, "namespace": "b"}),
        alert("InferdocGpuEccDegradation", "no-effect", model_name="m", **kind),
    )
    assert {ident for ident, state in found.items() if state == "suppressed"} == {"effect"}
    assert len(found) == 6
