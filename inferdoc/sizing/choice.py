"""Which of the layouts to take: the one whose fleet has the fewest GPUs, of equals the one with the smaller replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from inferdoc.capacity.service_level import replicas_needed
from inferdoc.errors import InferdocError
from inferdoc.sizing.build import End, Sized, sized
from inferdoc.sizing.replica import Replica
from inferdoc.sizing.wanted import SizingWanted
from inferdoc.words import figure

NOTHING = 1e-9


@dataclass(frozen=True)
class Considered:
    """A layout with what it can do. streams: per rank within the objectives at the middle of the ranges; usable:
    requests/s of a replica at them, None where the model does not fit or no load keeps the objectives; replicas: for
    the rate."""

    sized: Sized
    streams: int
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


def considered(wanted: SizingWanted) -> list[Considered]:
    """Every layout of the request; longer pipelines only where no shorter one fits."""
    rows: list[Considered] = []
    for layout in wanted.layouts:
        shorter = (row.sized for row in rows if row.sized.layout.pipeline < layout.pipeline)
        if all(each.replicas is None for each in shorter):
            rows.append(_one(wanted, sized(wanted, layout)))
    return rows


def _one(wanted: SizingWanted, each: Sized) -> Considered:
    if each.replicas is None:
        return Considered(each, 0, "memory", None, None, f"does not fit: {figure(each.short, 'bytes')} short on a GPU")
    replica = each.replicas["middle"]
    streams, bound = replica.within(wanted.ttft, wanted.itl)
    if not streams:
        first = replica.ttft_p95(1)
        waits = f"{figure(first, 's')} to the first" if isfinite(first) else "and no end of waiting for the first"
        missed = f"{figure(replica.itl(1), 's')} between tokens, {waits}"
        return Considered(each, 0, bound, None, None, f"misses the objectives with one request at a time: {missed}")
    usable = replica.rate(streams)
    rate = wanted.traffic.rate
    return Considered(
        each, streams, bound, usable, None if rate is None else max(1, replicas_needed(rate, usable, wanted.safety)), ""
    )


def best(wanted: SizingWanted, rows: Sequence[Considered]) -> Considered:
    """The one to take. Raises InferdocError where none fits or none keeps the objectives."""
    able = [row for row in rows if row.usable is not None]
    if able:
        return min(able, key=lambda row: (_cost(row), row.sized.layout.gpus))
    fitting = [row for row in rows if row.sized.replicas is not None]
    what = f"{wanted.shape.name} in {wanted.dtype} on {wanted.tier_name}"
    if fitting:
        layouts = "; ".join(f"{row.sized.layout} {row.why}" for row in fitting)
        raise InferdocError(f"{what}: no layout keeps --ttft {wanted.ttft:g}s and --itl {wanted.itl:g}s: {layouts}")
    last = rows[-1].sized
    short = figure(last.short, "bytes")
    raise InferdocError(
        f"{what} does not fit {last.layout}: {short} short on each GPU for one request of "
        f"{wanted.traffic.context_p95:,.0f} tokens; take more GPUs, a smaller --dtype or --kv-dtype, or a larger tier"
    )


def _cost(row: Considered) -> float:
    """GPUs for the rate; without one, GPUs per request/s."""
    layout = row.sized.layout
    if row.replicas is not None:
        return float(layout.gpus * row.replicas)
    return layout.gpus / max(row.usable or 0.0, NOTHING)
