"""Which of the layouts to take: the one whose fleet has the fewest GPUs, of equals the one with the smaller replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

from inferdoc.capacity.service_level import replicas_needed
from inferdoc.errors import InferdocError
from inferdoc.sizing.build import End, Sized, sized
from inferdoc.sizing.inputs import Parallelism, SizingInputs, TrafficInputs
from inferdoc.sizing.replica import FEW, Replica
from inferdoc.words import figure

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
