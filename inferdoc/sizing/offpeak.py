"""A batch job in the hours of low load: how much of it the fleet of the peak finishes, and what it needs beyond."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf

from inferdoc.errors import InferdocError
from inferdoc.sizing.build import sized
from inferdoc.sizing.inputs import BatchJob, Parallelism, SizingInputs, TokenLength, TrafficInputs
from inferdoc.times import length_of

BATCH = "requests=200000 prompt=3000 output=300 window=8h load=0.2"
MOST_REQUESTS = 1e12


def batch_job(text: str | None) -> BatchJob | None:
    """The job that --batch describes. Raises InferdocError."""
    if text is None:
        return None
    values = dict(part.partition("=")[::2] for part in text.split())
    fault = InferdocError(f'--batch "{text}": expected for example "{BATCH}"')
    if set(values) != {"requests", "prompt", "output", "window", "load"}:
        raise fault
    try:
        requests, prompt, output, load = (float(values[key]) for key in ("requests", "prompt", "output", "load"))
    except ValueError:
        raise fault from None
    if not (1 <= requests <= MOST_REQUESTS and 1 <= prompt <= 1e8 and 1 <= output <= 1e8 and 0 <= load < 1):
        raise fault
    window = length_of(values["window"], "--batch window")
    if not 60 <= window <= 7 * 86_400:
        raise InferdocError(f"--batch window={values['window']}: expected 1m to 7d")
    return BatchJob(requests, prompt, output, window, load)


def batch_rate(sizing: SizingInputs, layout: Parallelism, job: BatchJob) -> float:
    """Requests/s of the job on a replica that serves nothing else and keeps no objective; 0 if one does not fit."""
    prompt, output = (TokenLength(tokens, tokens) for tokens in (job.prompt, job.output))
    alone = replace(sizing, traffic=TrafficInputs(prompt, output))
    found = sized(alone, layout, ("middle",)).replicas
    if found is None:
        return 0.0
    streams, _ = found["middle"].within(inf, inf)
    return found["middle"].rate(streams) if streams else 0.0


def batch_replicas(job: BatchJob, of_job: float, usable: float, rate: float) -> int | None:
    """Replicas that serve the load of the window and finish the job in it: requests / (window x rate of the job) for
    the job, rate x load / usable for the rest. of_job, usable: requests/s of a replica. None without room."""
    return ceil(job.requests / (job.window * of_job) + rate * job.load / usable) if of_job > 0 else None


def batch_seconds(job: BatchJob, of_job: float, usable: float, rate: float, replicas: int) -> float:
    """Time of the job on what the load of the window leaves of so many replicas, in seconds."""
    free = replicas - rate * job.load / usable
    return job.requests / (of_job * free) if free > 0 else inf
