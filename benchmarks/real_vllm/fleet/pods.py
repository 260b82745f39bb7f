"""One pod: the processes of one `vllm serve` with a simulated accelerator, and what can be done to them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.real_vllm.fleet.starts import Starts

EXECUTOR = "benchmarks.real_vllm.fleet.accelerator.SimulatedExecutor"
MODEL = "chat-14b"
BLOCK = 16
READY_SECONDS = 240.0
STOP_SECONDS = 8.0
ACCELERATOR: Mapping[str, float] = {
    "weight_seconds": 0.020,
    "context_seconds": 2.4e-7,
    "token_seconds": 1.2e-4,
    "step_seconds": 0.003,
    "draft_seconds": 0.0015,
    "slow": 1.0,
    "acceptance": 0.75,
    "adapter_seconds": 0.15,
    "load_seconds": 8.0,
}
"""A 14 B model in FP8 on a mid-range card: 14 GB of weights at 700 GB/s, 164 kB of cache a token, 28 GFLOP a token."""

_PORTS = itertools.count(21000)
"""Below the range from which the kernel takes the ports of the clients' connections."""


def free_port() -> int:
    for port in _PORTS:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("count() does not end")


@dataclass
class Pod:
    """name, address: as Kubernetes would give them; folder: knobs and log. in_flight: requests that the router sent
    here and that have not ended; ready: whether the router sends any."""

    name: str
    address: str
    flags: Sequence[str]
    folder: Path
    starts: Starts
    model: Path
    knobs: dict[str, float] = field(default_factory=lambda: dict(ACCELERATOR))
    in_flight: int = 0
    ready: bool = False
    draining: bool = False

    def __post_init__(self) -> None:
        self.port = free_port()
        self.process = 0
        self.turn(**self.knobs)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def turn(self, **values: float) -> None:
        """Set knobs of the accelerator; a running engine takes note within a quarter of a second."""
        self.knobs |= values
        fresh = self._knobs_file.with_suffix(".new")
        fresh.write_text(json.dumps(self.knobs), "utf-8")
        fresh.replace(self._knobs_file)

    @property
    def _knobs_file(self) -> Path:
        return self.folder / f"{self.name}.json"

    def start(self) -> None:
        """Start the processes, in a group of their own."""
        arguments = [str(self.model), "--host", "127.0.0.1", "--port", str(self.port), "--served-model-name", MODEL]
        arguments += ["--distributed-executor-backend", EXECUTOR, "--block-size", str(BLOCK), "--stream-interval", "8"]
        arguments += ["--enforce-eager", "--disable-uvicorn-access-log", *self.flags]
        environment = {"FLEET_ACCELERATOR": str(self._knobs_file)}
        self.process = self.starts.serve(arguments, environment, self._log_file)

    @property
    def _log_file(self) -> Path:
        return self.folder / f"{self.name}.log"

    def runs(self) -> bool:
        """Whether its API server is a process."""
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        return self.process > 0

    async def answers(self) -> bool:
        """Whether /health says 200."""
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port), 2.0)
        except (OSError, TimeoutError):
            return False
        try:
            writer.write(b"GET /health HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")
            return (await asyncio.wait_for(reader.readline(), 2.0)).split()[1:2] == [b"200"]
        except (OSError, TimeoutError):
            return False
        finally:
            writer.close()

    async def serve(self) -> None:
        """Start, and wait until it answers. Raises RuntimeError where it does not come up."""
        self.start()
        limit = time.monotonic() + READY_SECONDS
        while not await self.answers():
            if not self.runs():
                raise RuntimeError(f"{self.name} ended while it started (see {self._log_file})")
            if time.monotonic() > limit:
                raise RuntimeError(f"{self.name} did not answer within {READY_SECONDS:.0f} s (see {self._log_file})")
            await asyncio.sleep(0.5)
        self.ready = True

    def send(self, number: int, part: str = "all") -> None:
        """A signal to a part of the pod: all, engine (the engine core) or front (the API server)."""
        if not self.runs():
            return
        with contextlib.suppress(ProcessLookupError):
            if part == "all":
                os.killpg(self.process, number)
            else:
                os.kill(self.engine() if part == "engine" else self.process, number)

    def engine(self) -> int:
        """The process of the engine core. Raises RuntimeError where there is none."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                words = stat.read_text().rpartition(")")[2].split()
                if int(words[1]) == self.process and b"EngineCore" in stat.with_name("cmdline").read_bytes():
                    return int(stat.parent.name)
            except (OSError, IndexError):
                continue
        raise RuntimeError(f"{self.name} has no engine core")

    def waited_seconds(self) -> float:
        """How long the main threads of API server and engine core stood ready to run without a core, so far."""
        total = 0.0
        with contextlib.suppress(OSError, RuntimeError):
            for number in (self.process, self.engine()):
                total += int(Path(f"/proc/{number}/schedstat").read_text().split()[1]) / 1e9
        return total

    async def stop(self) -> None:
        """SIGTERM, as the kubelet sends it, and SIGKILL for what is left."""
        self.ready = False
        self.send(signal.SIGTERM)
        limit = time.monotonic() + STOP_SECONDS
        while self.runs() and time.monotonic() < limit:
            await asyncio.sleep(0.2)
        self.kill()

    def kill(self) -> None:
        """End every process of the group, and see to it that none is left."""
        self.ready = False
        limit = time.monotonic() + STOP_SECONDS
        with contextlib.suppress(ProcessLookupError):
            while self.process and time.monotonic() < limit:
                os.killpg(self.process, signal.SIGKILL)
                time.sleep(0.02)
