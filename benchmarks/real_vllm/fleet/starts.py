"""Starts of pods, by way of the nursery."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.real_vllm.server import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[3]
NURSERY = "benchmarks.real_vllm.fleet.nursery"


class Starts:
    """Holds the process from which servers are forked. Use as a context manager; the servers themselves are not ended
    with it.

    Raises RuntimeError where the process does not come up or has ended."""

    def __init__(self, python: Path, log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(python), "-m", NURSERY],
                env=os.environ | ENVIRONMENT | {"VLLM_LOGGING_LEVEL": "WARNING", "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._answer()

    def __enter__(self) -> Starts:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that servers are forked from has ended (see {self._log})")
        return line.strip()

    def serve(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
        """Start `vllm serve` with these arguments. Returns its process id, which leads a group of its own."""
        request = {"arguments": ["serve", *arguments], "environment": dict(environment), "log": str(log)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._answer())
