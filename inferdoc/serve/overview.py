"""Diagnose the whole fleet at an interval."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from inferdoc.errors import InferdocError
from inferdoc.serve.run_process import RunResult
from inferdoc.serve.runner import Runner

STALE_ROUNDS = 3
"""A result older than this many intervals is stale."""


@dataclass(frozen=True)
class FleetRun:
    """at: end of the run, Unix seconds; seconds: its duration."""

    result: RunResult
    at: float
    seconds: float


class Overview:
    """every: interval in seconds, None: disabled. trouble: error of the last run, None if it succeeded."""

    def __init__(self, runner: Runner, every: float | None, log: Callable[[str], None]) -> None:
        self._runner, self._every, self._log = runner, every, log
        self._newest: FleetRun | None = None
        self._pause = 0.0
        self.trouble: str | None = None
        self.done = 0
        self.failed = 0

    @property
    def on(self) -> bool:
        """Whether fleet diagnosis is enabled."""
        return self._every is not None

    def newest(self, now: float | None = None) -> FleetRun | None:
        """The last result; None if there is none or it is stale."""
        if self._newest is None or self._every is None:
            return None
        age = (time.time() if now is None else now) - self._newest.at
        return None if age > STALE_ROUNDS * self._every + self._runner.deadline else self._newest

    async def once(self) -> bool:
        """Wait for the interval and diagnose the fleet. False: continue."""
        await asyncio.sleep(self._pause)
        started = time.time()
        try:
            result = await self._runner.run(self._runner.overview(started))
        except (InferdocError, OSError) as error:
            self.failed += 1
            if str(error) != self.trouble:
                self._log(f"fleet diagnosis failed: {error}")
            self.trouble = str(error)
        else:
            self.done += 1
            self.trouble = None
            self._newest = FleetRun(result, time.time(), time.time() - started)
        self._pause = max(1.0, (self._every or 0.0) - (time.time() - started))
        return False
