"""`inferdoc init`: finds a server, shows the fleet, writes a configuration that the next command reads."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from pathlib import Path

import pytest

from inferdoc.cluster.port_forward import ServerService, forwarded, server_services
from inferdoc.config import load_config
from inferdoc.fleet.members import Pool
from inferdoc.report.doctor import NEXT, configuration_text
from inferdoc.source import find_server
from tests import prometheus_server
from tests.cli.command import alone, call, refused
from tests.conftest import ROOT
from tests.runbooks.test_pages import command_problem

__all__ = ["alone"]
WAY = os.environ["PATH"]
NOBODY = "http://127.0.0.1:1"
SERVICES = {
    "items": [
        {"metadata": {"namespace": "mon", "name": name}, "spec": {"clusterIP": ip, "ports": [{"port": port}]}}
        for name, ip, port in (
            ("prometheus-operated", "None", 9090),
            ("stack-prometheus", "10.0.0.1", 9090),
            ("stack-prometheus-node-exporter", "10.0.0.2", 9100),
            ("prometheus-alertmanager", "10.0.0.3", 80),
            ("postgres", "10.0.0.4", 5432),
            ("prometheus-operator", "10.0.0.5", 80),
        )
    ]
}


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch, tmp_path):
    """Nothing on port 9090 and no kubectl."""
    monkeypatch.setattr(find_server, "LOCAL", NOBODY)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()


def test_without_a_server_the_ways_to_one_are_named():
    done = call("init")
    assert done.code == 4 and "no Prometheus found: give --prometheus URL" in done.err
    assert "kubectl is not installed" in done.err and not Path("inferdoc.toml").exists()


def test_an_existing_file_is_not_replaced():
    Path("inferdoc.toml").write_text("[recipes]\n")
    refused(call("init"), 2, "inferdoc.toml: file exists; pass --force")
    assert Path("inferdoc.toml").read_text() == "[recipes]\n"


def test_services_that_are_no_server_are_left_out_and_headless_ones_come_last():
    found = server_services(lambda words: json.dumps(SERVICES))
    assert [each.name for each in found] == ["stack-prometheus", "prometheus-operated"]
    assert found[0].forward == "kubectl --namespace mon port-forward service/stack-prometheus 9090:9090"


def given_kubectl(folder: Path, body: str) -> None:
    place = folder / "bin" / "kubectl"
    place.write_text(f"#!{sys.executable}\nimport sys, time, json\n{body}\n")
    place.chmod(place.stat().st_mode | stat.S_IXUSR)


def test_a_service_is_forwarded_for_as_long(tmp_path):
    given_kubectl(tmp_path, "print('Forwarding from 127.0.0.1:4711 -> 9090', flush=True)\ntime.sleep(60)")
    with forwarded(ServerService("mon", "prometheus", 9090)) as address:
        assert address == "http://127.0.0.1:4711"
    given_kubectl(tmp_path, "sys.exit(1)")
    with forwarded(ServerService("mon", "prometheus", 9090)) as address:
        assert address is None


def test_the_file_is_one_that_loads():
    pools = [Pool("", "prod", 'odd "name"', "both", "unknown"), Pool("", "prod", "m", "decode", "h100-80")]
    Path("inferdoc.toml").write_text(configuration_text("http://p:9090", pools, "kubectl port-forward x"))
    assert load_config(environment={}).source.prometheus == "http://p:9090"
    text = Path("inferdoc.toml").read_text()
    assert "(here: odd" in text
    commented = "\n".join(
        line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ") and "=" in line
    )
    assert tomllib.loads(commented), "what is commented out is TOML as well"


def test_the_three_commands_exist():
    assert len(NEXT) == 3 and [command_problem(line) for line in NEXT] == [None] * 3


@pytest.mark.live
def test_the_first_run_finds_a_server_shows_the_fleet_and_the_first_command_diagnoses(tmp_path, monkeypatch):
    """A real Prometheus on this machine; its data are old, so the diagnosis ends at the newest sample."""
    monkeypatch.setenv("PATH", WAY)
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    recording = ROOT / "fixtures" / "recordings" / "slow-replica.om.gz"
    with prometheus_server.running([recording], tmp_path / "server") as address:
        monkeypatch.setattr(find_server, "LOCAL", address)
        done = call("init")
        assert done.code == 0, done.err
        assert f"prometheus  {address} (on this machine)" in done.out
        assert "engines     2 engines in 1 pool" in done.out and "causes " in done.out and "missing " in done.out
        assert all(f"  {line}\n" in done.out for line in NEXT)
        assert "looking for a Prometheus" in done.err and "reading the last 15 minutes" in done.err
        assert tomllib.loads(Path("inferdoc.toml").read_text())["source"]["prometheus"] == address
        assert "slow-gpu" in call("diagnose", "--since", "10m", "--until", "latest").out
