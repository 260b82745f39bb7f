"""Whatever reads JSON of others names a text that is none in one line."""

from __future__ import annotations

import asyncio
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferdoc.backtest.recording import FILE, read_labels
from inferdoc.bench.request import _documents
from inferdoc.cluster import pods, port_forward
from inferdoc.collect.probe import probe
from inferdoc.collect.targets import HttpDiscovery
from inferdoc.errors import InferdocError
from inferdoc.generate.boards import _load
from inferdoc.incidents import capsule
from inferdoc.incidents.capsule import diagnosis_named
from inferdoc.incidents.model import AlertScope
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.references import stored
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.plan import parse
from inferdoc.serve.app import read_alerts
from inferdoc.serve.run_process import RunRequest
from inferdoc.serve.runner import Runner
from inferdoc.sizing.request import _read
from inferdoc.source.find_server import responding
from inferdoc.source.open import open_source
from inferdoc.source.recognise import _speaks_prometheus
from inferdoc.verify.answer import _document
from inferdoc.verify.model import ledger_lines
from tests.source.fake_server import Answer, serving

DEEP = 100_000
BODIES = {
    "not UTF-8": b'{"a":"\xff"}',
    "half a surrogate pair": b'{"a":"\\ud800"',
    "deep": b'{"a":' * DEEP,
    "many digits": b"[" + b"7" * 5000 + b"]",
    "another type": b'["a"]',
    "nothing": b"",
}


def by_kubectl(monkeypatch: pytest.MonkeyPatch, folder: Path, body: bytes) -> None:
    """What a program prints comes as bytes."""
    (folder / "out").write_bytes(body)
    words = kubectl.run(["cat", str(folder / "out")])
    monkeypatch.setattr(kubectl, "run", lambda _: words)
    kubectl.get("hpa", "a", "b")


def by_http(body: bytes, read: Callable[[str], object], **headers: str) -> None:
    with serving(lambda _: Answer(200, body, {"Content-Type": "application/json", **headers})) as server:
        read(server.url)


def by_file(folder: Path, name: str, body: bytes, read: Callable[[Path], object]) -> None:
    path = folder / name
    path.write_bytes(body)
    read(path)


def capsule_of(folder: Path, body: bytes) -> None:
    with zipfile.ZipFile(folder / "x.capsule", "w") as archive:
        archive.writestr("capsule.json", body)
    capsule.read(folder / "x.capsule")


def baseline_of(folder: Path, body: bytes) -> None:
    by_file(
        folder,
        "a",
        stored.FORMAT + b"\n" + body[: stored.LONGEST_HEADER - 1] + b"\n",
        lambda path: stored.read(path, "a"),
    )


def listed_targets(url: str) -> None:
    found = HttpDiscovery(url)
    assert found.targets() == []
    raise InferdocError(*found.problems)


def run_of(monkeypatch: pytest.MonkeyPatch, folder: Path, body: bytes) -> None:
    (folder / "out").write_bytes(body)
    (folder / "program").write_text(f"#!/bin/sh\ncat > /dev/null; cat {folder}/out\n")
    (folder / "program").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "program"))
    asyncio.run(Runner({}, {}).run(RunRequest({}, {}, 0.0, 1.0, AlertScope())))


def refuse_unless_found(found: object) -> None:
    if not found:
        raise InferdocError("not found")


def named(path: Path) -> None:
    diagnosis_named(str(path), lambda: pytest.fail("a file is no incident"))


def printed(body: bytes) -> str:
    """What a program printed, as it is decoded."""
    return body.decode("utf-8", "replace")


def latest(url: str) -> None:
    source = open_source(prometheus=url, timeout=2.0)
    try:
        source.latest_ms()
    finally:
        source.close()


READERS: dict[str, Callable[[bytes, Path, pytest.MonkeyPatch], Any]] = {
    "labels of recordings": lambda body, folder, _: by_file(folder, FILE, body, lambda path: read_labels(path.parent)),
    "stored baseline": lambda body, folder, _: baseline_of(folder, body),
    "document of diff": lambda body, folder, _: by_file(folder, "a", body, named),
    "capsule": lambda body, folder, _: capsule_of(folder, body),
    "process of a diagnosis": lambda body, folder, patch: run_of(patch, folder, body),
    "webhook": lambda body, folder, _: read_alerts(body, 0.0),
    "plan": lambda body, folder, _: parse(body, "plan.json"),
    "kubectl get": lambda body, folder, patch: by_kubectl(patch, folder, body),
    "pods of a cluster": lambda body, folder, _: pods._json(printed(body) or "["),
    "services of a cluster": lambda body, folder, _: port_forward.server_services(lambda _: printed(body)),
    "verify": lambda body, folder, _: by_file(folder, "a", body, lambda path: _document(str(path), Diagnosis, "--of")),
    "ledger": lambda body, folder, _: by_file(folder, "a", body or b"-", ledger_lines),
    "load test": lambda body, folder, _: by_file(folder, "a", body, lambda path: list(_documents(str(path)))),
    "model": lambda body, folder, _: by_file(folder, "config.json", body, _read),
    "dashboard": lambda body, folder, _: by_file(folder, "a", body, _load),
    "search for a server": lambda body, folder, _: by_http(body, lambda url: refuse_unless_found(responding([url]))),
    "what an address is": lambda body, folder, _: refuse_unless_found(_speaks_prometheus(body)),
    "http_sd": lambda body, folder, _: by_http(body, listed_targets),
    "probe": lambda body, folder, _: by_http(body, lambda url: probe(url, 5.0)),
    "Prometheus": lambda body, folder, _: by_http(body, latest),
    "data of a Prometheus": lambda body, folder, _: by_http(b'{"status":"success","data":' + body + b"}", latest),
}  # fmt: skip


ANOTHER_TEXT = {
    ("kubectl get", "not UTF-8"),
    ("services of a cluster", "not UTF-8"),
    ("pods of a cluster", "not UTF-8"),
}
"""Read with the bytes replaced."""
ANOTHER_VALUE = {("pods of a cluster", "another type")}
"""Nothing is known of the pod."""


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("reader", READERS)
def test_a_text_that_is_no_json_is_one_line(reader, body, tmp_path, monkeypatch):
    try:
        READERS[reader](BODIES[body], tmp_path, monkeypatch)
    except InferdocError as refused:
        assert str(refused) and "\n" not in str(refused)
    else:
        assert (reader, body) in ANOTHER_TEXT | ANOTHER_VALUE
