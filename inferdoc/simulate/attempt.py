"""One sending of what a client wants, on its way through router, flow control and engines."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.simulate.pod import Pod
from inferdoc.simulate.request import EngineRequest
from inferdoc.simulate.workload import Draft, Traffic


@dataclass(slots=True)
class Attempt:
    """One sending of a draft. legs: the engine requests of it (two where prefill and decode are apart); processing,
    queued_seconds: seconds in the router's processor and in its queue."""

    draft: Draft
    sent: float
    traffic: Traffic
    over: bool = False
    processing: float = 0.0
    queued_seconds: float = 0.0
    first_leg: EngineRequest | None = None
    leg: EngineRequest | None = None
    pod: Pod | None = None
