"""A real VictoriaMetrics that holds recordings, on a free loopback port, for tests."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import requests

from tests.prometheus_server import free_port, started

MISSING = "Debian's victoria-metrics is not on the PATH: apt-get install victoria-metrics"


def available() -> bool:
    """Whether a real server can be started at all."""
    return shutil.which("victoria-metrics") is not None


@contextmanager
def running(folder: Path, *options: str) -> Iterator[str]:
    """An empty server; yields its address. It is stopped whatever happens."""
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(3):
        address = f"127.0.0.1:{free_port()}"
        command = [
            "victoria-metrics",
            f"-storageDataPath={folder / 'data'}",
            f"-httpListenAddr={address}",
            "-retentionPeriod=100y",
            "-loggerLevel=WARN",
            "-memory.allowedBytes=512MB",
            "-maxLabelsPerTimeseries=60",
            *options,
        ]
        with started(command, f"http://{address}/health", folder / "log") as is_ready:
            if is_ready:
                yield f"http://{address}"
                return
    raise RuntimeError(f"victoria-metrics did not start: {(folder / 'log').read_text(encoding='utf-8')[-2000:]}")


@contextmanager
def ruling(address: str, rules: Sequence[Path], folder: Path) -> Iterator[str]:
    """A vmalert that evaluates these files against a server and writes its records there; yields its own address."""
    own = f"127.0.0.1:{free_port()}"
    command = [
        "vmalert",
        *(f"-rule={file}" for file in rules),
        f"-datasource.url={address}",
        f"-remoteWrite.url={address}",
        "-remoteWrite.flushInterval=1s",
        "-notifier.url=http://127.0.0.1:9",
        f"-httpListenAddr={own}",
        "-loggerLevel=ERROR",
    ]
    log = folder / "vmalert.log"
    with started(command, f"http://{own}/health", log) as is_ready:
        if not is_ready:
            raise RuntimeError(f"vmalert did not start: {log.read_text('utf-8')[-2000:]}")
        yield f"http://{own}"


def load(address: str, recording: Path) -> None:
    """Import OpenMetrics text with timestamps (plain or .gz), and wait until it can be searched."""
    with gzip.open(recording, "rt") if recording.suffix == ".gz" else recording.open() as source:
        lines = (line.rpartition(" ") for line in source if not line.startswith("#"))
        text = "".join(f"{sample} {round(float(at) * 1000)}\n" for sample, _, at in lines)
    requests.post(f"{address}/api/v1/import/prometheus", data=text.encode(), timeout=120).raise_for_status()
    requests.get(f"{address}/internal/force_flush", timeout=30).raise_for_status()


def forget(address: str) -> None:
    """Delete all that the server holds."""
    everything = {"match[]": '{__name__!=""}'}
    requests.post(f"{address}/api/v1/admin/tsdb/delete_series", data=everything, timeout=30).raise_for_status()
