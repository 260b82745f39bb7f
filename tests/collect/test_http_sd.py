"""Targets from an http_sd endpoint on loopback: refresh, failure, credentials, certificates."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from inferdoc.cli.collect import command
from inferdoc.collect.collector import collect
from inferdoc.collect.discovery import Discovery, make_target
from inferdoc.collect.samples import Page
from inferdoc.collect.scrape import ScrapeOptions
from inferdoc.collect.targets import HttpDiscovery
from inferdoc.config import load_config
from inferdoc.errors import ConfigError, SourceError
from inferdoc.store import Store
from tests.certificate import self_signed

from .conftest import Answer, PageServer, respond

JSON = "application/json; charset=utf-8"
QUICK = 0.02
"""Seconds between two requests in tests."""


def listing(*pods: str) -> Answer:
    groups = [{"targets": [f"{pod}:8000"], "labels": {"pod": pod}} for pod in pods]
    return respond(json.dumps(groups).encode(), JSON)


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until it holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(QUICK / 2)


def pods(discovery: HttpDiscovery) -> list[str]:
    return [target.labels["pod"] for target in discovery.targets()]


def test_groups_labels_and_request(server: PageServer) -> None:
    labels = {"job": "vllm", "pod": "a", "__scheme__": "https", "__metrics_path__": "/m", "__meta_x": "y"}
    groups = [{"targets": ["a:1", "b:2"], "labels": labels}, {"targets": []}]
    server.pages["/sd"] = respond(json.dumps(groups).encode(), JSON)
    found = HttpDiscovery(f"{server.url}/sd?team=a", refresh=30).targets()
    assert [target.url for target in found] == ["https://a:1/m", "https://b:2/m"]
    assert found[0].labels == {"job": "vllm", "instance": "a:1", "pod": "a"}
    path, headers = server.requests[0]
    assert path == "/sd?team=a"
    assert headers["Accept"] == "application/json"
    assert headers["X-Prometheus-Refresh-Interval-Seconds"] == "30"


def test_it_is_asked_again_only_after_the_refresh_time(server: PageServer) -> None:
    server.pages["/sd"] = listing("a")
    patient = HttpDiscovery(f"{server.url}/sd", refresh=3600)
    assert [pods(patient) for _ in range(5)] == [["a"]] * 5
    assert len(server.requests) == 1
    eager = HttpDiscovery(f"{server.url}/sd", refresh=QUICK)
    assert pods(eager) == ["a"]
    server.pages["/sd"] = listing("b", "c")
    until(lambda: pods(eager) == ["b", "c"])
    server.pages["/sd"] = respond(b"[]", JSON)
    until(lambda: pods(eager) == [])
    assert eager.problems == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (respond(b"", status=503), "HTTP 503 Service Unavailable"),
        (respond(b"<html>sign in</html>", "text/html"), "sends text/html, not application/json"),
        (respond(b'[{"targets": ["a:1"', JSON), "the list is not JSON (line 1: "),
        (respond(b"\xff\xfe[", JSON), "the list is not JSON ("),
        (respond(b"[" * 100_000, JSON), "the list is not JSON (maximum recursion depth"),
        (respond(b"[" + b"7" * 5000 + b"]", JSON), "the list is not JSON (Exceeds the limit"),
        (respond(b"{}", JSON), "the list: expected a list of target groups, found dict"),
        (respond(b'[{"targets": "a:1"}]', JSON), "the list: [0].targets: expected a list of addresses, found str"),
        (respond(b'[{"targets": ["a:1"], "labels": {"x": 1}}]', JSON), "the list: [0].labels.x: expected text"),
        (respond(b"", status=302, Location="https://login.example.org/"), "is this behind a login?"),
    ],
)
def test_an_endpoint_that_fails_keeps_its_last_good_targets(server: PageServer, answer: Answer, reason: str) -> None:
    server.pages["/sd"] = listing("a", "b")
    discovery = HttpDiscovery(f"{server.url}/sd?token=s3cret", refresh=QUICK)
    assert pods(discovery) == ["a", "b"]
    server.pages["/sd"] = answer
    until(lambda: bool(discovery.targets() and discovery.problems))
    (problem,) = discovery.problems
    assert problem.startswith(f"http_sd {server.url}/sd: {reason}") or reason in problem
    assert problem.endswith("; its last 2 good targets stay")
    assert "s3cret" not in problem
    assert "\n" not in problem
    assert pods(discovery) == ["a", "b"]
    server.pages["/sd"] = listing("c")
    until(lambda: pods(discovery) == ["c"])
    assert discovery.problems == []


def test_an_endpoint_that_never_answered_has_no_targets() -> None:
    discovery = HttpDiscovery("http://127.0.0.1:1/sd")
    assert discovery.targets() == []
    assert discovery.problems == ["http_sd http://127.0.0.1:1/sd: connection refused"]


def test_a_slow_endpoint_holds_up_nobody_after_its_first_answer(server: PageServer) -> None:
    server.pages["/sd"] = listing("a")
    discovery = HttpDiscovery(f"{server.url}/sd", ScrapeOptions(timeout=2.0), refresh=QUICK)
    assert pods(discovery) == ["a"]
    server.pages["/sd"] = lambda handler: server.drip(handler, b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500, 0.02)
    until(lambda: bool(discovery.targets()) and len(server.requests) >= 2)
    begin = time.monotonic()
    assert pods(discovery) == ["a"]
    assert time.monotonic() - begin < 1.0
    until(lambda: bool(discovery.targets() and discovery.problems))
    assert discovery.problems[0].endswith("took longer than 2 s; its last 1 good targets stay")


def test_a_failure_is_said_once_and_so_is_the_recovery(server: PageServer) -> None:
    class Nowhere:
        def append(self, target_labels: dict[str, str], timestamp_ms: int, page: Page) -> None:
            if asked() >= 4:
                server.pages["/sd"] = groups

    def asked() -> int:
        return sum(1 for path, _ in server.requests if path == "/sd")

    groups = respond(json.dumps([{"targets": [server.url[7:]]}]).encode(), JSON)
    server.pages["/metrics"] = respond(b"a 1\n")
    server.pages["/sd"] = respond(b"", status=500)
    said: list[str] = []
    stop = threading.Event()

    def report(line: str) -> None:
        said.append(line)
        if line == "targets: well again":
            stop.set()

    discovery = Discovery([make_target(server.url)], (), [HttpDiscovery(f"{server.url}/sd", refresh=QUICK)])
    collect(discovery, Nowhere(), interval=0.03, duration=60, stop=stop, report=report)
    assert asked() >= 4
    about = [line for line in said if line.startswith("targets:")]
    assert about == [
        f"targets: http_sd {server.url}/sd: HTTP 500 Internal Server Error",
        "targets: well again",
    ]


def test_the_credentials_are_those_of_the_scrapes_and_read_every_time(server: PageServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-one\n")
    server.pages["/sd"] = listing("a")
    options = ScrapeOptions(bearer_token_file=token, headers={"X-Scope-OrgID": "team-a"})
    discovery = HttpDiscovery(f"{server.url}/sd", options, refresh=QUICK)
    discovery.targets()
    assert server.requests[0][1]["Authorization"] == "Bearer s3cret-one"
    assert server.requests[0][1]["X-Scope-OrgID"] == "team-a"
    token.write_text("s3cret-two")
    until(lambda: bool(discovery.targets()) and server.requests[-1][1]["Authorization"] == "Bearer s3cret-two")
    token.unlink()
    until(lambda: bool(discovery.targets() and discovery.problems))
    assert f"bearer token file {token}: No such file or directory" in discovery.problems[0]
    assert "s3cret" not in discovery.problems[0]


def test_tls_is_verified(server: PageServer, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    server.pages["/sd"] = listing("a")
    url = server.url.replace("http://", "https://") + "/sd"
    strict = HttpDiscovery(url)
    assert strict.targets() == []
    assert "TLS certificate is not trusted" in strict.problems[0]
    assert pods(HttpDiscovery(url, ScrapeOptions(ca_file=certificate))) == ["a"]


def test_what_is_no_endpoint() -> None:
    with pytest.raises(ConfigError, match="credentials do not belong in the URL"):
        HttpDiscovery("http://me:s3cret@h/sd")
    with pytest.raises(ConfigError, match="is not a URL such as"):
        HttpDiscovery("ftp://h/sd")
    with pytest.raises(ConfigError, match="the refresh time must be above 0 s, not 0 s"):
        HttpDiscovery("h/sd", refresh=0)


def test_the_command_and_the_configuration(server: PageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.pages["/metrics"] = respond(b"# TYPE a gauge\na 1\n")
    groups = [{"targets": [server.url[7:]], "labels": {"pod": "p0"}}]
    server.pages["/"] = server.pages["/sd"] = respond(json.dumps(groups).encode(), JSON)
    store = tmp_path / "fleet.db"
    result = CliRunner().invoke(command, ["--http-sd", server.url, "--once", "--store", str(store)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("1 scrapes (0 failed)")
    with Store.open(store) as opened:
        assert [target["pod"] for target in opened.targets()] == ["p0"]
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "inferdoc.toml"
    config.write_text(f'[collect]\nhttp_sd = ["{server.url}/sd"]\nhttp_sd_refresh_seconds = 5\n')
    assert load_config(config).collect.http_sd_refresh_seconds == 5
    other = tmp_path / "other.db"
    result = CliRunner().invoke(command, ["--once", "--store", str(other)])
    assert result.exit_code == 0, result.output
    assert server.requests[-2][1]["X-Prometheus-Refresh-Interval-Seconds"] == "5"


def test_an_endpoint_without_targets_is_said_where_nothing_can_be_scraped(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none of 0 targets could be scraped: targets: http_sd .*connection refused"):
        CliRunner().invoke(
            command,
            ["--http-sd", "http://127.0.0.1:1/sd", "--once", "--store", str(tmp_path / "fleet.db")],
            catch_exceptions=False,
        )
