"""The whole fleet, looked at every few minutes beside the alerts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from inferdoc.errors import InferdocError
from inferdoc.serve.run_process import RunResult
from inferdoc.serve.runner import Runner

STALE_ROUNDS = 3
"""A look that is older than so many rounds says nothing of the present."""


@dataclass(frozen=True)
class FleetRun:
    """result: the look; at: when it was done, Unix seconds; seconds: how long it took."""

    result: RunResult
    at: float
    seconds: float


class Overview:
    """every: seconds between two looks, None: none is taken. trouble: why there is no newer one."""

    def __init__(self, runner: Runner, every: float | None, log: Callable[[str], None]) -> None:
        self._runner, self._every, self._log = runner, every, log
        self._newest: FleetRun | None = None
        self._pause = 0.0
        self.trouble: str | None = None
        self.done = 0
        self.failed = 0

    @property
    def on(self) -> bool:
        """Whether looks are taken at all."""
        return self._every is not None

    def newest(self, now: float | None = None) -> FleetRun | None:
        """The last look; None where there is none, or it is too old."""
        if self._newest is None or self._every is None:
            return None
        age = (time.time() if now is None else now) - self._newest.at
        return None if age > STALE_ROUNDS * self._every + self._runner.deadline else self._newest

    async def once(self) -> bool:
        """Wait until it is time, and look at the fleet. False: there is a next time."""
        await asyncio.sleep(self._pause)
        started = time.time()
        try:
            result = await self._runner.run(self._runner.overview(started))
        except (InferdocError, OSError) as error:
            self.failed += 1
            if str(error) != self.trouble:
                self._log(f"the fleet could not be looked at: {error}")
            self.trouble = str(error)
        else:
            self.done += 1
            self.trouble = None
            self._newest = FleetRun(result, time.time(), time.time() - started)
        self._pause = max(1.0, (self._every or 0.0) - (time.time() - started))
        return False
