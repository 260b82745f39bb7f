"""Measure wall time, CPU and memory of a process together with the processes that it starts.

CPU is that of this process and of the child processes it has waited for: close what starts processes inside the block.
Memory is the largest sum, over readings every 50 ms, of the peaks so far (VmHWM) of this process and its running
descendants: an upper bound of what they held at one moment, exact if there is one process. `ru_maxrss` is not used: a
process inherits the peak of the process that started it, and for children the kernel keeps only the largest.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from os import getpid
from pathlib import Path
from typing import ParamSpec, TypeVar

INTERVAL_SECONDS = 0.05
PROCESSES = Path("/proc")
INFERDOC = (sys.executable, "-c", "from inferdoc.cli.main import main; main()")
"""The command `inferdoc` of this environment."""

P = ParamSpec("P")
T = TypeVar("T")


def cpu_seconds() -> float:
    """CPU seconds of this process and of the child processes that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass
class Spent:
    """Wall and CPU seconds of the `with` blocks of this object, summed."""

    wall: float = 0.0
    cpu: float = 0.0
    _start: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def __enter__(self) -> Spent:
        self._start = (time.perf_counter(), cpu_seconds())
        return self

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._start[0]
        self.cpu += cpu_seconds() - self._start[1]

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.cpu:.2f} s CPU)"


class PeakMemory:
    """The peaks of a process and its descendants, read until the `with` block ends. root: this process by default.

    mb: the largest sum; root_mb: of the root alone; others_mb: the largest sum of its descendants.
    """

    def __init__(self, root: int | None = None) -> None:
        self.mb = self.root_mb = self.others_mb = 0.0
        self._root = getpid() if root is None else root
        self._parents: dict[int, int] = {}
        self._seen: set[int] = {self._root}
        self._reading = threading.Lock()
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._sampler.join()

    def read(self) -> None:
        """Read the peaks as they are now. A new process counts from the second time on: before its program is loaded
        the kernel shows the peak of the process that started it."""
        with self._reading:
            tree = self._tree()
            peaks = {pid: _peak_mb(pid) for pid in tree & self._seen}
            self._seen = tree | {self._root}
            own = peaks.pop(self._root, 0.0)
            others = sum(peaks.values())
            self.root_mb, self.others_mb = max(self.root_mb, own), max(self.others_mb, others)
            self.mb = max(self.mb, own + others)

    def _sample(self) -> None:
        while not self._ended.is_set():
            self.read()
            self._ended.wait(INTERVAL_SECONDS)
        self.read()

    def _tree(self) -> set[int]:
        """The root and its descendants that run. The parent of a process is read once."""
        running = {int(path.name) for path in PROCESSES.iterdir() if path.name.isdigit()}
        self._parents = {pid: parent for pid, parent in self._parents.items() if pid in running}
        for pid in running - self._parents.keys():
            with suppress(OSError, IndexError):
                stat = (PROCESSES / str(pid) / "stat").read_text("utf-8")
                self._parents[pid] = int(stat.rpartition(")")[2].split()[1])
        return {pid for pid in running if self._descends(pid)}

    def _descends(self, pid: int) -> bool:
        while pid not in (0, self._root):
            pid = self._parents.get(pid, 0)
        return pid == self._root


def _peak_mb(pid: int) -> float:
    """The largest memory of a process so far, megabytes; 0 if it has ended."""
    with suppress(OSError, IndexError):
        status = (PROCESSES / str(pid) / "status").read_text("utf-8")
        return int(status.split("VmHWM:", 1)[1].split(None, 1)[0]) / 1024
    return 0.0


class ProcessCost(Spent):
    """Wall seconds, CPU seconds and peak memory of one `with` block in this process and its descendants."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = PeakMemory()

    def __enter__(self) -> ProcessCost:
        self.memory.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.memory.__exit__()


@dataclass(frozen=True)
class CommandCost:
    """A command that has ended. peak_mb: of it and its descendants; output: standard output and error."""

    peak_mb: float
    seconds: float
    code: int
    output: str


def run_command(command: Sequence[str]) -> CommandCost:
    """Run a command and measure it from outside."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with PeakMemory(process.pid) as memory:
        output, _ = process.communicate()
    return CommandCost(memory.mb, time.monotonic() - start, process.returncode, output)


def in_new_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a new process, whose peak memory is that of the call."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()
