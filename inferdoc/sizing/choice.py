"""Choose the layout with the fewest GPUs: of one pool, of prefill and decode pools, of an off-peak job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

from inferdoc.capacity.service_level import replicas_needed, transfer_seconds
from inferdoc.errors import InferdocError
from inferdoc.sizing.build import End, Sized, sized
from inferdoc.sizing.inputs import BatchJob, Parallelism, SizingInputs, TokenLength, TrafficInputs
from inferdoc.sizing.replica import FEW, Replica
from inferdoc.times import length_of
from inferdoc.words import figure

LINK_EFFICIENCY = 0.8
"""Share of a network that large transfers reach (field guide, section 5.6: 0.7 to 0.9)."""


@dataclass(frozen=True)
class SidePool:
    """One pool. replicas: for the rate; usable: requests/s of one; bound: what keeps it from more."""

    layout: Parallelism
    replicas: int
    usable: float
    bound: str

    @property
    def gpus(self) -> int:
        """GPUs of the pool."""
        return self.layout.gpus * self.replicas


@dataclass(frozen=True)
class PoolPair:
    """Both pools. move: seconds of the KV of a mean prompt from one to the other; ttft_p95, ttft, itl: seconds at the
    rate."""

    prefill: SidePool
    decode: SidePool
    move: float
    ttft_p95: float
    ttft: float
    itl: float

    @property
    def gpus(self) -> int:
        """GPUs of both pools."""
        return self.prefill.gpus + self.decode.gpus


def kv_move_seconds(sizing: SizingInputs, layouts: Sequence[Parallelism], rows: Sequence[Sized]) -> float:
    """Seconds to move the KV of a mean prompt between two layouts: each GPU of both has a network of its own, and the
    side whose GPUs hold more takes longer."""
    per_token = (
        row.replicas["middle"].kv.per_token for row in rows if row.layout in layouts and row.replicas is not None
    )
    return transfer_seconds(sizing.traffic.prompt.mean * max(per_token), sizing.nic_gbits, LINK_EFFICIENCY)


def pool_pair(sizing: SizingInputs, rows: Sequence[Sized], end: End = "middle") -> PoolPair | None:
    """The pair with the fewest GPUs of the layouts that fit, at one end of the ranges; None where none keeps both
    objectives."""
    fitting = [row for row in rows if row.replicas is not None]
    decodes = [pool for row in fitting if (pool := _decode_pool(sizing, row, end)) is not None]
    decode = min(decodes, key=lambda pool: (pool.gpus, pool.layout.gpus), default=None)
    if decode is None:
        return None
    found = [pair for row in fitting if (pair := _with_prefill(sizing, row, rows, decode, end)) is not None]
    return min(found, key=lambda pair: (pair.gpus, pair.prefill.layout.gpus), default=None)


def _decode_pool(sizing: SizingInputs, row: Sized, end: End) -> SidePool | None:
    assert row.replicas is not None and sizing.traffic.rate is not None
    replica, output = row.replicas[end], sizing.traffic.output.mean
    streams = replica.decode_within(sizing.itl)
    if not streams:
        return None
    usable = row.layout.data * streams / (output * replica.step(streams))
    bound = "time between tokens" if replica.step(streams + 1) > sizing.itl else "KV cache or --max-num-seqs"
    return SidePool(row.layout, max(1, replicas_needed(sizing.traffic.rate, usable, sizing.safety)), usable, bound)


def _with_prefill(
    sizing: SizingInputs, row: Sized, rows: Sequence[Sized], decode: SidePool, end: End
) -> PoolPair | None:
    assert row.replicas is not None and sizing.traffic.rate is not None
    rate, replica = sizing.traffic.rate, row.replicas[end]
    move = kv_move_seconds(sizing, (row.layout, decode.layout), rows)
    of_decode = next(each.replicas[end] for each in rows if each.layout == decode.layout and each.replicas is not None)
    share = rate / decode.replicas / decode.layout.data
    itl = of_decode.decode_step_at(share)
    usable = replica.prompts_within(sizing.ttft, move + itl)
    if usable <= 0.0:
        return None
    replicas = max(1, replicas_needed(rate, usable, sizing.safety))
    mean, p95 = replica.prompt_seconds(rate / replicas)
    side = SidePool(row.layout, replicas, usable, "time to first token")
    return PoolPair(side, decode, move, p95 + move + itl, mean + move + itl, itl)


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


NOTHING = 1e-9


@dataclass(frozen=True)
class Considered:
    """A layout with what it can do. streams: per rank within the objectives at the middle of the ranges; usable:
    requests/s of a replica at them, None where the model does not fit or no load keeps the objectives; replicas: for
    the rate, or the requests at once."""

    sized: Sized
    streams: float
    bound: str
    usable: float | None
    replicas: int | None
    why: str

    @property
    def gpus(self) -> int | None:
        """GPUs of the fleet; of one replica where no rate is given."""
        if self.usable is None:
            return None
        return self.sized.layout.gpus * (1 if self.replicas is None else self.replicas)

    def at(self, end: End) -> Replica:
        """The replica at one end of the ranges."""
        assert self.sized.replicas is not None
        return self.sized.replicas[end]

    def running(self, traffic: TrafficInputs, replica: Replica) -> float | None:
        """Streams per rank of a replica that takes its share of the load; None where that is more than it can."""
        assert self.replicas is not None
        if traffic.concurrent is not None:
            return min(traffic.concurrent, replica.limits.sequences) / (self.replicas * self.sized.layout.data)
        assert traffic.rate is not None
        return replica.streams_at(traffic.rate / self.replicas, min(replica.room, replica.limits.sequences))

    def share(self, traffic: TrafficInputs) -> float:
        """Requests/s of a replica at its share of the load; of one as busy as it may be where none is given."""
        assert self.usable is not None
        if self.replicas is None:
            return self.usable
        if traffic.rate is not None:
            return traffic.rate / self.replicas
        return self.at("middle").rate(self.running(traffic, self.at("middle")) or 0.0)


def one_at_a_time(sizing: SizingInputs) -> SizingInputs:
    """The same without objectives, with one request on a replica; the next follows unless a rate is given."""
    traffic = sizing.traffic
    alone = 1 if traffic.rate is None and traffic.concurrent is None else traffic.concurrent
    note = f"objectives out of reach ({figure(sizing.ttft, 's')} and {figure(sizing.itl, 's')}, which nobody gave): "
    return replace(
        sizing,
        ttft=inf,
        itl=inf,
        limits=replace(sizing.limits, sequences=1),
        traffic=replace(traffic, concurrent=alone),
        assumed=[*sizing.assumed, f"{note}sized for one request at a time, --max-num-seqs 1"],
    )


def replicas_for(sizing: SizingInputs, layout: Parallelism, replica: Replica, safety: float) -> int | None:
    """Replicas like this one for the rate times the safety, or for the requests at once; None where one keeps no
    objective, or neither is given."""
    traffic = sizing.traffic
    streams, _ = replica.within(sizing.ttft, sizing.itl)
    if not streams:
        return None
    if traffic.concurrent is not None:
        return ceil(traffic.concurrent / max(1.0, streams * layout.data))
    return None if traffic.rate is None else max(1, replicas_needed(traffic.rate, replica.rate(streams), safety))


def considered(sizing: SizingInputs) -> list[Considered]:
    """Every layout of the request; longer pipelines only where no shorter one fits."""
    rows: list[Considered] = []
    for layout in sizing.layouts:
        shorter = (row.sized for row in rows if row.sized.layout.pipeline < layout.pipeline)
        if all(each.replicas is None for each in shorter):
            rows.append(_one(sizing, sized(sizing, layout)))
    return rows


def _one(sizing: SizingInputs, each: Sized) -> Considered:
    if each.replicas is None:
        return Considered(each, 0, "memory", None, None, f"does not fit: {figure(each.short, 'bytes')} short on a GPU")
    replica = each.replicas["middle"]
    streams, bound = replica.within(sizing.ttft, sizing.itl)
    if not streams:
        missed = f"{figure(replica.itl(1), 's')} between tokens, {figure(replica.ttft_p95(FEW), 's')} to the first"
        return Considered(each, 0, bound, None, None, f"misses the objectives with one request at a time: {missed}")
    replicas = replicas_for(sizing, each.layout, replica, sizing.safety)
    return Considered(each, streams, bound, replica.rate(streams), replicas, "")


def best(sizing: SizingInputs, rows: Sequence[Considered]) -> Considered:
    """The one to take. Raises InferdocError where none fits or none keeps the objectives."""
    able = [row for row in rows if row.usable is not None]
    if able:
        return min(able, key=lambda row: (_cost(row), row.sized.layout.gpus))
    fitting = [row for row in rows if row.sized.replicas is not None]
    what = f"{sizing.shape.name} in {sizing.dtype} on {sizing.tier_name}"
    if fitting:
        layouts = "; ".join(f"{row.sized.layout} {row.why}" for row in fitting)
        raise InferdocError(f"{what}: no layout keeps --ttft {sizing.ttft:g}s and --itl {sizing.itl:g}s: {layouts}")
    last = rows[-1].sized
    short = figure(last.short, "bytes")
    raise InferdocError(
        f"{what} does not fit {last.layout}: {short} short on each GPU for one request of "
        f"{sizing.traffic.context_p95:,.0f} tokens; take more GPUs, a smaller --dtype or --kv-dtype, or a larger tier"
    )


def _cost(row: Considered) -> float:
    """GPUs for the rate; without one, GPUs per request/s."""
    layout = row.sized.layout
    if row.replicas is not None:
        return float(layout.gpus * row.replicas)
    return layout.gpus / max(row.usable or 0.0, NOTHING)
