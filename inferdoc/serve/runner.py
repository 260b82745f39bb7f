"""Run diagnoses in their own processes, with a deadline: of incidents, and of the whole fleet at an interval."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.escaping import one_line
from inferdoc.incidents.intake import RuleTimes, window_from
from inferdoc.incidents.model import AlertScope, DiagnosisRun, Incident
from inferdoc.serve.run_process import RunRequest, RunResult

TENANT_HEADER = "X-Scope-OrgID"
MOST_WORDS = 500
JUDGED_SECONDS = 900.0
"""Window of a diagnosis of the whole fleet, as in `collect --judge-every`."""


class RunFailedError(InferdocError):
    """A diagnosis run failed; the reason in one line."""


@dataclass
class Runner:
    """source, headers: as of the command line; deadline: seconds per run; rules: times by alert name."""

    source: Mapping[str, Any]
    rules: Mapping[str, RuleTimes]
    config: str | None = None
    overlays: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    deadline: float = 120.0

    def request(self, run: DiagnosisRun, incident: Incident, now: float) -> RunRequest:
        """The request for an incident."""
        tenant = {TENANT_HEADER: incident.tenant} if incident.tenant else {}
        return RunRequest(
            dict(self.source),
            {**self.headers, **tenant},
            window_from(incident.alerts, now, self.rules),
            now,
            incident.place,
            self.config,
            list(self.overlays),
            incident.resolved if run.why == "resolved" else None,
        )

    def overview(self, now: float) -> RunRequest:
        """The whole fleet, as it is now."""
        return RunRequest(
            dict(self.source),
            dict(self.headers),
            now - JUDGED_SECONDS,
            now,
            AlertScope(),
            self.config,
            list(self.overlays),
            pools=True,
        )

    async def run(self, request: RunRequest) -> RunResult:
        """Run it. Raises RunFailedError; a cancelled run leaves no process behind."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "inferdoc.serve.run_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C in the terminal is for us: what is in flight is finished
        )
        try:
            async with asyncio.timeout(self.deadline):
                out, err = await process.communicate(msgspec.json.encode(request))
        except TimeoutError:
            raise RunFailedError(f"deadline exceeded: {self.deadline:g} s; raise [serve] deadline") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            raise RunFailedError(_why(err, process.returncode))
        try:
            return msgspec.json.decode(out, type=RunResult)
        except NOT_JSON:
            raise RunFailedError("its output is not readable; run `inferdoc diagnose` to see the error") from None


def _why(err: bytes, code: int) -> str:
    """The last line that the process wrote: of a traceback that is the fault itself."""
    lines = [line for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
    if code < 0:
        return f"the process was killed by signal {-code}" + (" (out of memory?)" if code == -9 else "")
    return one_line(lines[-1])[:MOST_WORDS] if lines else f"the process exited with code {code}"


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
