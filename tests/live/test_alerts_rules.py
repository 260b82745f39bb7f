"""The rules against a real Prometheus over real recordings: loaded by the server, evaluated without an error."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
import requests
import yaml

from inferdoc.catalogue.record_names import INFO, SEEN_RECORD
from inferdoc.generate.pack import RECORDING, RULES
from inferdoc.judging.conditions.render import SEEN
from inferdoc.source.open import open_source
from tests import prometheus_server
from tests.conftest import ROOT

pytestmark = pytest.mark.live

GENERATED = ROOT / "alerts" / "generated"
RECORDINGS = ("control-pd", "spec-acceptance-decay", "kv-preemption-thrash")
RATE_INTERVAL = "30s"
PODS = f'label_replace(group by (cluster, namespace, pod) ({SEEN}), "role", "both", "", "")'
"""Stands for the info series, which a query alone cannot have: it rests on what was recorded before."""


@pytest.fixture(scope="module", params=RECORDINGS)
def server(request, prometheus_of) -> tuple[str, float]:
    address = prometheus_of(request.param)
    source = open_source(prometheus=address)
    latest = source.latest_ms()
    source.close()
    return address, latest / 1000


def rules(name: Path) -> list[dict[str, str]]:
    return [
        rule
        for group in yaml.load((GENERATED / name).read_text("utf-8"), yaml.CSafeLoader)["groups"]
        for rule in group["rules"]
    ]


def test_every_recorded_signal_evaluates_and_core_ones_have_values(server):
    """Windows of 30 s instead of 5 m: the recordings are short. Matching errors (many-to-many) would show here."""
    address, at = server
    filled = set()
    for rule in (rule for file in (RECORDING, RULES) for rule in rules(file) if "record" in rule):
        expr = rule["expr"].replace("[5m]", f"[{RATE_INTERVAL}]").replace(INFO, PODS).replace(SEEN_RECORD, SEEN)
        answer = requests.post(f"{address}/api/v1/query", data={"query": expr, "time": at - 5}, timeout=30).json()
        assert answer["status"] == "success", f"{rule['record']}: {answer.get('error')}"
        if answer["data"]["result"]:
            filled.add(rule["record"].split(":")[1].removeprefix("inferdoc_"))
    assert filled >= {
        "kv_usage",
        "preempt_fraction",
        "generation_tokens_rate",
        "running",
        "waiting_capacity",
        "target_up",
    }


def test_every_alert_evaluates(server):
    address, at = server
    for rule in (rule for rule in rules(RULES) if "alert" in rule):
        answer = requests.post(f"{address}/api/v1/query", data={"query": rule["expr"], "time": at}, timeout=30).json()
        assert answer["status"] == "success", f"{rule['alert']}: {answer.get('error')}"


def test_a_server_loads_and_evaluates_the_files(tmp_path):
    """The files as they are, in a server that runs: every group is evaluated without an error."""
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    address = f"127.0.0.1:{prometheus_server.free_port()}"
    hurried = []
    for name in (RECORDING, RULES):
        document = yaml.load((GENERATED / name).read_text("utf-8"), yaml.CSafeLoader)
        for group in document["groups"]:
            group["interval"] = "1s"
        (tmp_path / name).write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), "utf-8")
        hurried.append(str(tmp_path / name))
    config = tmp_path / "prometheus.yml"
    config.write_text(yaml.dump({"rule_files": hurried}, Dumper=yaml.CSafeDumper), "utf-8")
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            groups = evaluated(f"http://{address}", process)
        finally:
            process.terminate()
            process.wait(20)
    assert len(groups) == 9
    for group in groups:
        for rule in group["rules"]:
            assert rule["health"] == "ok", f"{rule['name']}: {rule.get('lastError')}"
    firing = {rule["name"] for group in groups for rule in group["rules"] if rule.get("state") == "firing"}
    assert firing == {"InferdocWatchdog"}, "nothing but the watchdog fires where there is nothing"


def evaluated(address: str, server: subprocess.Popen) -> list[dict]:
    """The rule groups of a server, once all of them have been evaluated."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        assert server.poll() is None, "the server refused the rules: its log is in the folder of the test"
        try:
            groups = requests.get(f"{address}/api/v1/rules", timeout=5).json()["data"]["groups"]
        except requests.exceptions.RequestException:
            groups = []
        ready = [rule["health"] != "unknown" for group in groups for rule in group["rules"]]
        if ready and all(ready):
            return groups
        time.sleep(0.3)
    raise AssertionError("the server did not evaluate the rules in time")
