"""A simulated fleet that answers on loopback, and the configuration with which a Prometheus scrapes it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import urllib.error
import urllib.request

import pytest
import yaml

from inferdoc.collect import parse
from inferdoc.errors import InferdocError
from inferdoc.simulate.output import CONTENT_TYPE, Live, scrape_configuration, serve
from inferdoc.simulate.scenario_files import adapted, load_scenario


def free_ports(count: int) -> int:
    """The first of so many neighbouring ports that nobody listens on."""
    for first in range(21000, 60000, count):
        taken = []
        try:
            for port in range(first, first + count):
                one = socket.socket()
                taken.append(one)
                one.bind(("127.0.0.1", port))
        except OSError:
            continue
        finally:
            for one in taken:
                one.close()
        return first
    raise AssertionError("no free ports")


@pytest.fixture
def live():
    fleet = Live(adapted(load_scenario("kv-transfer-backlog"), duration="2m"), free_ports(32), 1.0)
    fleet.start()
    yield fleet
    fleet.stop()


def get(server) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        return answer.read()


def test_every_target_answers_with_a_page(live):
    for target, server in zip(live.targets, live.servers, strict=True):
        page = parse(get(server), CONTENT_TYPE)
        assert len(page.values) > 3, target.scraped.labels
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{live.servers[0].server_address[1]}/nothing", timeout=10)


def test_the_configuration_names_every_target_with_its_labels(live, tmp_path):
    first = live.servers[0].server_address[1]
    text = scrape_configuration([target.scraped for target in live.targets], first, 15.0)
    scraped = {
        (page["targets"][0], job["job_name"], page["labels"].get("pod"))
        for job in yaml.safe_load(text)["scrape_configs"]
        for page in job["static_configs"]
    }
    assert scraped == {
        (f"127.0.0.1:{first + n}", target.scraped.labels["job"], target.scraped.labels.get("pod"))
        for n, target in enumerate(live.targets)
    }
    if promtool := shutil.which("promtool"):
        (tmp_path / "prometheus.yml").write_text(text, "utf-8")
        run = [promtool, "check", "config", str(tmp_path / "prometheus.yml")]
        checked = subprocess.run(run, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_it_ends_with_the_scenario():
    printed, shown = [], []
    scenario = adapted(load_scenario("control-steady"), duration="60s")
    serve(scenario, free_ports(32), 1000.0, printed.append, shown.append)
    assert "until Ctrl-C" in printed[0] and printed[-1] == f"scenario {scenario.id} is over"
    assert yaml.safe_load(shown[0])["scrape_configs"][0]["scrape_interval"] == "1s"


def test_a_port_that_is_taken_is_named(live):
    port = live.servers[0].server_address[1]
    with pytest.raises(InferdocError, match=f"port {port} .*choose --port"):
        Live(load_scenario("control-steady"), port, 1.0)
