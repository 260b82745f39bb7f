"""`inferdoc collect` against the live page, `inferdoc diagnose` on the store: both as a user would run them."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.process_cost import INFERDOC

STOP_SECONDS = 30.0


@contextlib.contextmanager
def collecting(targets: Sequence[str], store: Path, log: Path, interval: float) -> Iterator[None]:
    """Scrape into a store for as long as the block lasts. targets: the flags of `inferdoc collect` that say what;
    interval: seconds between two scrapes. Raises RuntimeError where it ended early."""
    command = [*INFERDOC, "collect", *targets, "--interval", f"{interval:g}s", "--store", str(store)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"inferdoc collect ended early with {process.returncode} (see {log})")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def diagnosis(store: Path, begin: float, end: float) -> dict[str, Any]:
    """The JSON document for a window in Unix seconds, with the exit code under "exit"."""
    window = ["--from", f"{begin:.3f}", "--until", f"{end:.3f}"]
    command = [*INFERDOC, "diagnose", "--store", str(store), *window, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(f"inferdoc diagnose ended with {done.returncode}: {done.stderr.strip()}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document | {"exit": done.returncode}


def unix(stamp: str) -> float:
    """Seconds since the epoch of an RFC 3339 stamp."""
    return datetime.fromisoformat(stamp).timestamp()
