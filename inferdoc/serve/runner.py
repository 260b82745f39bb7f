"""Runs looks in processes of their own, with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line
from inferdoc.incidents.alert_rules import RuleTimes, window_from
from inferdoc.incidents.model import AlertScope, DiagnosisRun, Incident
from inferdoc.serve.run_process import RunRequest, RunResult

TENANT_HEADER = "X-Scope-OrgID"
MOST_WORDS = 500
JUDGED_SECONDS = 900.0
"""How far back a look at the whole fleet goes, as of `collect --judge-every`."""


class RunFailedError(InferdocError):
    """A look told nothing; why, in one line."""


@dataclass
class Runner:
    """source, headers: as of the command line; deadline: seconds for one look; rules: their times by alert name."""

    source: Mapping[str, Any]
    rules: Mapping[str, RuleTimes]
    config: str | None = None
    overlays: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    deadline: float = 120.0

    def request(self, run: DiagnosisRun, incident: Incident, now: float) -> RunRequest:
        """What to look at."""
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
        """Take it. Raises RunFailedError; a look that is cancelled leaves no process behind."""
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
            raise RunFailedError(f"it took longer than {self.deadline:g} s ([serve] deadline)") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            raise RunFailedError(_why(err, process.returncode))
        try:
            return msgspec.json.decode(out, type=RunResult)
        except msgspec.MsgspecError:
            raise RunFailedError("its answer could not be read; run `inferdoc diagnose` to see why") from None


def _why(err: bytes, code: int) -> str:
    """The last line that the process wrote: of a traceback that is the fault itself."""
    lines = [line for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
    if code < 0:
        return f"the look was ended by signal {-code}" + (" (out of memory?)" if code == -9 else "")
    return one_line(lines[-1])[:MOST_WORDS] if lines else f"it ended with exit code {code}"
