"""`serve` as the chart starts it: its arguments, configuration and token, with the folders of the pod elsewhere;
the probes and the ServiceMonitor find what they ask for."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.packages.built import one, rendered
from tests.prometheus_server import free_port

RUN = "import sys; from inferdoc.cli.main import main; main(sys.argv[1:])"
TOKEN = "a-token-of-the-test"
START_SECONDS = 60


@pytest.fixture(scope="module")
def chart() -> list[dict[str, Any]]:
    return rendered({"serviceMonitor": {"enabled": True}, "serve": {"port": free_port()}})


@pytest.fixture(scope="module")
def address(chart, tmp_path_factory) -> Iterator[str]:
    """The running service. Paths of the pod lie below a folder; it listens on loopback, and asks for the token all the
    same."""
    root: Path = tmp_path_factory.mktemp("pod")
    for folder in ("etc/inferdoc/auth", "var/lib/inferdoc"):
        (root / folder).mkdir(parents=True)
    (root / "etc/inferdoc/auth/token").write_text(TOKEN + "\n")
    text = one(chart, "ConfigMap")["data"]["inferdoc.toml"].replace("0.0.0.0", "127.0.0.1")
    (root / "etc/inferdoc/inferdoc.toml").write_text(text.replace('"/', f'"{root}/'))
    (container,) = one(chart, "Deployment")["spec"]["template"]["spec"]["containers"]
    words = [word.replace("/etc/", f"{root}/etc/") for word in container["args"]]
    process = subprocess.Popen([sys.executable, "-c", RUN, *words], stderr=subprocess.PIPE, text=True)
    place = f"http://127.0.0.1:{container['ports'][0]['containerPort']}"
    try:
        _until_answered(process, place + container["startupProbe"]["httpGet"]["path"])
        yield place
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert (root / "var/lib/inferdoc/incidents.db").is_file()


def _until_answered(process: subprocess.Popen[str], url: str) -> None:
    last = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < last:
        try:
            requests.get(url, timeout=5)
            return
        except requests.ConnectionError:
            time.sleep(0.1)
    process.kill()
    raise AssertionError(process.communicate()[1])


def test_the_probes_are_answered_without_the_token(chart, address):
    (container,) = one(chart, "Deployment")["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == container["ports"][0]["name"]
        assert requests.get(address + asked["path"], timeout=10).status_code == 200


def test_what_the_service_monitor_scrapes_is_there_for_who_has_the_token(chart, address):
    (endpoint,) = one(chart, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["port"] == one(chart, "Service")["spec"]["ports"][0]["name"]
    path = address + endpoint["path"]
    assert requests.get(path, timeout=10).status_code == 401
    bearer = {"Authorization": f"{endpoint['authorization']['type']} {TOKEN}"}
    answer = requests.get(path, headers={**bearer, "Host": "10.0.0.7:9109"}, timeout=10)
    assert answer.status_code == 200 and "# TYPE inferdoc_" in answer.text


def test_alertmanager_reaches_it_by_the_name_of_the_service(address):
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "inferdoc.inferdoc.svc:9109"}
    answer = requests.post(f"{address}/alertmanager", headers=headers, json={"version": "4", "alerts": []}, timeout=10)
    assert answer.status_code < 300, answer.text
