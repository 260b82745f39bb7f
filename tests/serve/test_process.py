"""The command itself: what a kill leaves, how it ends when it is told to, and what it takes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests import prometheus_server
from tests.serve.running import Hook, firing, webhook

MOST_MEGABYTES = 300
RUN = "import sys; from inferdoc.cli.main import main; main(sys.argv[1:])"


@pytest.fixture
def hook() -> Iterator[Hook]:
    opened = Hook()
    yield opened
    opened.stop()


@contextmanager
def serving(folder: Path, store: Path, hook: Hook) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command over a store."""
    with serving_from(folder, ["--store", str(store)], hook) as running:
        yield running


@contextmanager
def serving_from(
    folder: Path, source: list[str], hook: Hook, port: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command and its address, which it says first. port: a free one."""
    config = folder / "inferdoc.toml"
    config.write_text(
        f'[serve]\nlisten = "127.0.0.1:1"\nrecord = "{folder}/incidents.db"\n'
        f'[[serve.outputs]]\nkind = "slack"\nurl = "{hook.address}/slack"\n',
        "utf-8",
    )
    command = [sys.executable, "-c", RUN, "--config", str(config), "serve", *source]
    chosen = port
    for _ in range(3):
        port = chosen or prometheus_server.free_port()
        process = subprocess.Popen(
            [*command, "--listen", f"127.0.0.1:{port}"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert process.stderr is not None
        for line in process.stderr:
            if "listening on" in line:
                break
        if process.poll() is None:
            break
    try:
        address = f"http://127.0.0.1:{port}"
        _until(lambda: _answers(address))
        yield process, address
    finally:
        process.kill()
        process.wait(20)
        process.stderr.close()


def _answers(address: str) -> bool:
    try:
        return requests.get(f"{address}/healthz", timeout=2).status_code == 200
    except requests.RequestException:
        return False


def _until(result, seconds: float = 60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := result():
            return value
        time.sleep(0.05)
    raise AssertionError("not in time")


def test_a_kill_loses_no_incident_that_was_acknowledged(tmp_path, store_of, hook):
    store = store_of("control-steady")
    with serving(tmp_path, store, hook) as (process, address):
        for number in range(5):
            alert = firing(mark=f"f{number}", model_name=f"m{number}")
            assert requests.post(f"{address}/alertmanager", json=webhook(alert), timeout=10).status_code == 200
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    result = len(hook.bodies)
    assert result < 5, "the test kills in the middle"
    with serving(tmp_path, store, hook) as (_, address):
        incidents = requests.get(f"{address}/api/v1/incidents", timeout=10).json()["incidents"]
        assert sorted(one["place"]["model"] for one in incidents) == [f"m{number}" for number in range(5)]
        _until(lambda: {i["id"] for i in incidents} <= set(re.findall(r"\d{8}-\d{4}-[0-9a-f]{6}", str(hook.bodies))))


def test_on_sigterm_it_finishes_what_is_under_way(tmp_path, store_of, hook):
    with serving(tmp_path, store_of("control-steady"), hook) as (process, address):
        requests.post(f"{address}/alertmanager", json=webhook(firing()), timeout=10)
        _until(lambda: "inferdoc_looks_waiting 0.0" in requests.get(f"{address}/metrics", timeout=5).text)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0 and len(hook.bodies) == 1


@pytest.mark.slow
@pytest.mark.takes_long("400 webhooks of 20 alerts each")
def test_hundreds_of_webhooks_take_little_memory(tmp_path, store_of, hook):
    with serving(tmp_path, store_of("control-steady"), hook) as (process, address), requests.Session() as session:
        codes = set()
        for number in range(400):
            alerts = [firing(mark=f"{number}-{k}", pod=f"vllm-{k}", model_name=f"m{number % 100}") for k in range(20)]
            codes.add(session.post(f"{address}/alertmanager", json=webhook(*alerts), timeout=30).status_code)
        assert codes <= {200, 503} and 200 in codes
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        assert peak is not None and int(peak[1]) / 1024 < MOST_MEGABYTES
