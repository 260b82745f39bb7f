"""Runs a temporary Prometheus on loopback over a folder of blocks, without scraping."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from inferdoc.errors import InferdocError

MISSING = "prometheus is not on the PATH; rules are evaluated by it (Debian and Ubuntu: apt-get install prometheus)"
START_SECONDS, STOP_SECONDS, TRIES = 60, 20, 3


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server over the blocks in folder/data; it is stopped in any case. Raises InferdocError."""
    program = shutil.which("prometheus")
    if program is None:
        raise InferdocError(MISSING)
    (folder / "prometheus.yml").write_text("global: {}\n", "utf-8")
    for _ in range(TRIES):  # another process may take the port in between
        address = f"127.0.0.1:{_free_port()}"
        options = {
            "config.file": folder / "prometheus.yml",
            "storage.tsdb.path": folder / "data",
            "storage.tsdb.retention.time": "100y",
            "web.listen-address": address,
            "log.level": "warn",
        }
        command = [program, *(f"--{name}={value}" for name, value in options.items())]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            if _is_ready(process, address):
                yield f"http://{address}"
                return
        finally:
            _stop(process)
    log_lines = (folder / "log").read_text("utf-8", "replace").splitlines()
    raise InferdocError(f"{program} does not start: {log_lines[-1] if log_lines else 'its log is empty'}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_ready(process: subprocess.Popen[bytes], address: str) -> bool:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if requests.get(f"http://{address}/-/ready", timeout=2).status_code == 200:
                return True
        except requests.exceptions.RequestException:
            pass
        time.sleep(0.05)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
