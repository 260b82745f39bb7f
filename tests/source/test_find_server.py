"""A command without a source names how to give one, and a server that responds here."""

from __future__ import annotations

import json

import pytest

from inferdoc.source import find_server
from inferdoc.source.find_server import in_cluster, no_source, responding
from tests.cli.command import call
from tests.page_server import answering

NOBODY = "http://127.0.0.1:1"
SUCCESS = json.dumps({"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}})


def prometheus():
    return answering(lambda path: SUCCESS if path.startswith("/api/v1/query") else None, "application/json")


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A shell without any source, and nothing on port 9090."""
    for name in ("INFERDOC_PROMETHEUS_URL", "INFERDOC_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(find_server, "LOCAL", NOBODY)


@pytest.mark.parametrize("command", ["diagnose", "audit", "signals", "doctor"])
def test_without_a_source_a_command_names_the_ways_to_give_one(command, nowhere):
    done = call(command)
    assert (done.code, done.out) == (4, "")
    assert len(done.err.splitlines()) <= 3
    for way in ("--prometheus", "INFERDOC_PROMETHEUS_URL", "inferdoc.toml"):
        assert way in done.err
    assert "responds" not in done.err


def test_a_server_on_this_machine_is_named(nowhere, monkeypatch):
    with prometheus() as address:
        monkeypatch.setattr(find_server, "LOCAL", address)
        done = call("diagnose")
    assert done.code == 4 and len(done.err.splitlines()) <= 3
    assert f"add --prometheus {address}" in done.err


def test_a_server_of_the_cluster_is_named(nowhere):
    with prometheus() as address:
        host, port = address.removeprefix("http://").split(":")
        services = {"PROMETHEUS_K8S_SERVICE_HOST": host, "PROMETHEUS_K8S_SERVICE_PORT": port, "DB_SERVICE_HOST": host}
        assert f"responds at {address}:" in no_source(services)


def test_services_of_other_names_are_not_tried():
    services = {"POSTGRES_SERVICE_HOST": "10.0.0.1", "POSTGRES_SERVICE_PORT": "5432", "PROMETHEUS_SERVICE_HOST": "h"}
    assert list(in_cluster(services)) == []


def test_what_speaks_no_prometheus_is_not_named():
    with answering(lambda path: "<html>Grafana</html>") as address, prometheus() as other:
        assert responding([NOBODY, address]) is None
        assert responding([address, other]) == other
