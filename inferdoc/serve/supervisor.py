"""Keeps background tasks running: a failure is logged, counted, shown by /readyz, and tried again with back-off."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line
from inferdoc.incidents.record import RecordError

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two attempts: doubled after each, up to the longest."""


class Supervisor:
    """down: why, by the name of a task that fails now; failures: of each task since the start. log: gets a line for the
    log, and may fail."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._ending = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._idle: set[str] = set()
        self.down: dict[str, str] = {}
        self.failures: Counter[str] = Counter()

    @property
    def ending(self) -> bool:
        """Whether the tasks are to end."""
        return self._ending.is_set()

    @property
    def names(self) -> list[str]:
        """The tasks."""
        return list(self._tasks)

    def log(self, line: str) -> None:
        """Log a line. A log that cannot be written stops no task."""
        with contextlib.suppress(Exception):
            self._log(line)

    def start(self, name: str, work: Callable[[], Awaitable[bool]], *, finish: bool = True) -> None:
        """Run a task: `work` again and again until it returns True. A failure makes it wait, never end. finish: whether
        `stop` waits for it."""
        self._tasks[name] = asyncio.create_task(self._keep(name, work), name=name)
        if not finish:
            self._idle.add(name)

    def running(self, names: Iterable[str]) -> bool:
        """Whether one of these tasks has not ended."""
        return any(name in self._tasks and not self._tasks[name].done() for name in names)

    async def stop(self, patience: float) -> None:
        """Let the tasks finish, for so many seconds at most."""
        self._ending.set()
        for name in self._idle:
            self._tasks[name].cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks.values(), timeout=patience)
            for task in late:
                task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def insist(self, name: str, write: Callable[..., T], *given: object) -> T:
        """The value of a write to the incident record, in a thread: tried again while the record fails (locked, full).
        Raises RecordError once the tasks are to end."""
        pause = FIRST_PAUSE
        while True:
            try:
                value = await asyncio.to_thread(write, *given)
            except RecordError as error:
                self._failed(name, error)
                if self.ending:
                    raise
                pause = await self._wait(pause)
            else:
                self._well(name)
                return value

    async def _keep(self, name: str, work: Callable[[], Awaitable[bool]]) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                is_last = await work()
            except Exception as error:  # whatever it is: a task that ended would leave the service mute
                self._failed(name, error)
                if self.ending:
                    return
                pause = await self._wait(pause)
            else:
                self._well(name)
                if is_last:
                    return
                pause = FIRST_PAUSE

    async def _wait(self, pause: float) -> float:
        """Sleep, until the tasks are to end. The next pause."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), pause)
        return min(2 * pause, LONGEST_PAUSE)

    def _failed(self, name: str, error: Exception) -> None:
        line = one_line(str(error) if isinstance(error, InferdocError) else f"{type(error).__name__}: {error}")
        self.failures[name] += 1
        if self.down.get(name) != line:
            self.log(f"task {name} fails and is tried again: {line}")
        self.down[name] = line

    def _well(self, name: str) -> None:
        if self.down.pop(name, None) is not None:
            self.log(f"task {name} works again")
