"""One `vllm serve` on loopback, in a process group of its own that never outlives the run."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

NAME = "tiny"
READY_SECONDS = 300.0
STOP_SECONDS = 10.0
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    "OMP_NUM_THREADS": "1",
}
"""One compute thread, free to move: one core's capacity whatever the machine, and it can evade a neighbour."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(vllm: Path, model: Path, flags: Sequence[str], log: Path) -> Iterator[str]:
    """The URL of a server that answers; it is gone when the block ends, however it ends. Raises SystemExit with the
    log's reason where it does not come up."""
    port = free_port()
    command = [str(vllm), "serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--served-model-name", NAME]
    command += ["--enforce-eager", "--disable-uvicorn-access-log", *flags]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            env=os.environ | ENVIRONMENT | _openmp(vllm),
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(process, url, log)
        yield url
    finally:
        _end(process)


def _openmp(vllm: Path) -> dict[str, str]:
    """Intel's OpenMP, which comes with the package: with GNU's, a verification step of speculation takes half a second
    (vLLM warns of it in its log)."""
    library = vllm.parent.parent / "lib" / "libiomp5.so"
    return {"LD_PRELOAD": str(library)} if library.is_file() else {}


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    limit = time.monotonic() + READY_SECONDS
    while time.monotonic() < limit:
        if process.poll() is not None:
            raise SystemExit(f"vllm serve ended with {process.returncode}: {_reason(log)} (see {log})")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"vllm serve did not answer within {READY_SECONDS:.0f} s (see {log})")


def _reason(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if "Error" in line]
    return lines[-1].strip() if lines else "no error in its log"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Politely, then the whole group by force, until it is gone. A second Ctrl-C does not cut this short."""
    deaf = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        limit = time.monotonic() + STOP_SECONDS
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < limit:
                os.killpg(process.pid, signal.SIGKILL)
                process.poll()
                time.sleep(0.05)
    finally:
        for number, before in deaf.items():
            signal.signal(number, before)


def counters(url: str) -> dict[str, float]:
    """Sum of every series of a family, read from the page itself and not through inferdoc."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name.split("{")[0]] = found.get(name.split("{")[0], 0.0) + float(value)
    return found
