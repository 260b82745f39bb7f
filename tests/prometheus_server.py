"""A real Prometheus over back-filled recordings, on a free loopback port, for tests."""

from __future__ import annotations

import ctypes
import gzip
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import requests

from tests.built import built

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
START_SECONDS = 30
LONG_BLOCKS = "--max-block-duration=768h"
"""promtool reads the whole file once for each block, and makes one for every two hours of weeks without it."""
MISSING = "Debian's prometheus and promtool are not on the PATH: apt-get install prometheus"


def available() -> bool:
    """Whether a real server can be started at all."""
    return bool(shutil.which("prometheus") and shutil.which("promtool"))


def backfill(recordings: Sequence[Path], folder: Path) -> None:
    """Write OpenMetrics text with timestamps (plain or .gz) as blocks of a Prometheus database."""
    folder.mkdir(parents=True, exist_ok=True)
    for recording in recordings:
        if recording.is_relative_to(FIXTURES):
            blocks = built(f"blocks of {recording}", lambda place, one=recording: _write_blocks(one, place))
            shutil.copytree(blocks / "data", folder / "data", dirs_exist_ok=True)
        else:
            _write_blocks(recording, folder)


def _write_blocks(recording: Path, folder: Path) -> None:
    text = recording
    if recording.suffix == ".gz":
        text = folder / "backfill.om"
        with gzip.open(recording) as source, text.open("wb") as target:
            shutil.copyfileobj(source, target)
    command = ["promtool", "tsdb", "create-blocks-from", LONG_BLOCKS, "openmetrics", "--quiet", str(text)]
    command.append(str(folder / "data"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"promtool refuses {recording}: {done.stdout}{done.stderr}")
    if text != recording:
        text.unlink()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextmanager
def running(
    recordings: Sequence[Path], folder: Path, *options: str, auth: tuple[str, str] | None = None
) -> Iterator[str]:
    """A server over these recordings; yields its address. It is stopped whatever happens. auth: what it asks of us."""
    backfill(recordings, folder)
    config = folder / "prometheus.yml"
    config.write_text("global: {}\n", encoding="utf-8")
    for _ in range(3):
        address = f"127.0.0.1:{free_port()}"
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={address}",
            "--log.level=warn",
            *options,
        ]
        with begun(command, f"http://{address}/-/ready", folder / "log", auth) as is_ready:
            if is_ready:
                yield f"http://{address}"
                return
    raise RuntimeError(f"prometheus did not start: {(folder / 'log').read_text(encoding='utf-8')[-2000:]}")


@contextmanager
def begun(command: Sequence[str], url: str, log: Path, auth: tuple[str, str] | None = None) -> Iterator[bool]:
    """A server of its own; yields whether it answers at an address. It is stopped whatever happens."""
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, preexec_fn=die_with_parent)
    try:
        yield _ready(process, url, auth)
    finally:
        stop(process)


def _ready(process: subprocess.Popen[bytes], url: str, auth: tuple[str, str] | None) -> bool:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if requests.get(url, timeout=2, auth=auth).status_code == 200:
                return True
        except requests.exceptions.RequestException:
            pass
        time.sleep(0.05)
    return False


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
