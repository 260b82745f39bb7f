"""Compare the load of a pool with its capacity: now, at its peak, and after a pod, node or zone is lost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.capacity.service_level import replicas_needed
from inferdoc.fleet.members import Member
from inferdoc.forecast.fromsource import STEP, Key
from inferdoc.headroom.reading import NOW_BINS, Holds, Lost, PoolReading
from inferdoc.judging.places import read_places
from inferdoc.sizing.model import Inputs, Predicted, number, part
from inferdoc.slo.model import Goodput
from inferdoc.source.base import Source
from inferdoc.source.frame import Entity
from inferdoc.source.reads import Grid
from inferdoc.words import how_many

PEAK_FORMULA = "95 % quantile of five-minute loads"


def losses(reading: PoolReading, places: Whereabouts, doubts: list[str]) -> list[Lost]:
    """One of each kind whose place is known; the others become doubts."""
    found = [lost_with(reading, "one pod", "", 1)]
    for what, placed, missing in (("node", places.nodes, NODE_MISSING), ("zone", places.zones, ZONE_MISSING)):
        most = fullest(reading.ready, placed)
        unknown = sum(pod not in placed for pod in reading.ready)
        if most is None:
            whose = "its pods" if unknown == len(reading.ready) else how_many(unknown, "pod")
            doubts.append(f"loss of a {what}: nothing shows the {what} of {whose}; {missing}")
        elif reading.replicas != len(reading.ready):
            there = f"{len(reading.ready)} of its {how_many(reading.replicas, 'replica')}"
            doubts.append(f"loss of a {what}: {there} are there now; run it at its peak, when their places are known")
        else:
            found.append(lost_with(reading, f"the fullest {what}", *most))
    return found


def lost_with(reading: PoolReading, what: str, name: str, replicas: int) -> Lost:
    """What the loss of so many replicas of a pool does to its peak."""
    peak, usable, unit = reading.load.peak, reading.usable, reading.served.unit.value
    left = reading.replicas - replicas
    needed = replicas_needed(peak, usable, 1.0)
    more = max(0, needed - left)
    inputs: Inputs = {"peak": (peak, unit), "usable rate of a replica": (usable, unit), "left": (left, "replicas")}
    adding = number(
        ("more", "replicas to add elsewhere", "replicas"),
        float(more),
        formula="ceil(peak / usable rate of a replica) - replicas left",
        inputs=inputs,
        source=f"{PEAK_FORMULA}; {reading.served.basis}",
    )
    if left == 0:
        because = "it is the only replica" if replicas == 1 else f"all {replicas} replicas of the pool run there"
        return Lost(what, name, replicas, left, None, "no", adding, because)
    share = _share(reading, what, left, inputs)
    holds = _holds(reading, share)
    return Lost(what, name, replicas, left, share, holds, adding, _because(reading, holds, more))


def _share(reading: PoolReading, what: str, left: int, inputs: Inputs) -> Predicted:
    """The high end is that of the usable rate, which decides; the low one that of the highest knee."""
    _, high = reading.knee
    planned = reading.load.peak / (reading.usable * left)
    return number(
        ("share_after", f"peak after {what} is lost", "ratio"),
        {"low": 0.0 if high is None else reading.load.peak / (high * left), "middle": planned, "high": planned},
        formula="peak / (usable rate of a replica x replicas left)",
        inputs=inputs,
        source=f"{PEAK_FORMULA}; {reading.served.basis}",
    )


def _holds(reading: PoolReading, share: Predicted) -> Holds:
    assert share.value is not None
    if share.value <= 1.0:
        return "yes"
    return "no" if reading.knee[1] is not None and share.low > 1.0 else "unsure"


def _because(reading: PoolReading, holds: Holds, more: int) -> str:
    if holds == "yes":
        return f"the others carry the peak within {reading.limit}"
    adding = f"{how_many(more, 'replica')} more elsewhere would hold it"
    if holds == "no":
        return f"the others would pass {reading.limit}; {adding}"
    if reading.knee[0] is None:
        return f"the others would carry more than was ever seen; {adding} for sure"
    return f"the peak lies within the band of {reading.limit}; {adding} for sure"


NODE_LABELS, TARGETS, GPU = "kube_node_labels", "up", "DCGM_FI_DEV_GPU_UTIL"
ZONES = ("topology_kubernetes_io_zone", "failure_domain_beta_kubernetes_io_zone", "availability_zone", "zone")
"""Labels of a target or, with `label_` before them, of kube_node_labels that name a zone."""
NODE_MISSING = "collect kube-state-metrics (kube_pod_info), or relabel the targets with `node`"
ZONE_MISSING = (
    "give kube-state-metrics --metric-labels-allowlist=nodes=[topology.kubernetes.io/zone], or relabel the targets "
    "with `zone`"
)
LOOK_BACK = 600
"""Seconds after which an info series that was not scraped again counts as gone."""


@dataclass(frozen=True)
class Whereabouts:
    """Node and zone of pods, as far as known."""

    nodes: Mapping[Key, str] = field(default_factory=dict)
    zones: Mapping[Key, str] = field(default_factory=dict)


def fullest(pods: Sequence[Key], places: Mapping[Key, str]) -> tuple[str, int] | None:
    """The place that holds most of the pods, and how many; None where the place of any of them is unknown."""
    if any(pod not in places for pod in pods):
        return None
    counts = Counter(places[pod] for pod in pods)
    return min(counts.items(), key=lambda item: (-item[1], item[0]))


def whereabouts(source: Source, members: Mapping[Key, Member], end: int) -> Whereabouts:
    """Where pods run at a moment. end: Unix seconds."""
    grid = Grid((end - STEP) * 1000, STEP * 1000, 2, STEP * 1000, STEP * 1000, LOOK_BACK * 1000)
    present = source.names(grid.start_ms - grid.gauge_ms, grid.end_ms)
    on_node = read_places(source, grid, ()).nodes

    def labels(name: str) -> Iterable[Mapping[str, str]]:
        return [one.labels for one in source.info(name, grid)] if name in present else []

    hosts = {Entity.of_labels(one).member: one["Hostname"] for one in labels(GPU) if one.get("Hostname")}
    nodes = {
        key: node
        for key, member in members.items()
        if (node := on_node.get((key[1], key[2])) or member.node or hosts.get(key))
    }
    of_node = {one.get("node", ""): _zone(one, "label_") for one in labels(NODE_LABELS)}
    of_target = {Entity.of_labels(one).member: _zone(one) for one in labels(TARGETS)}
    zones = {key: of_target.get(key) or of_node.get(nodes.get(key, ""), "") for key in members}
    return Whereabouts(nodes, {key: zone for key, zone in zones.items() if zone})


def _zone(labels: Mapping[str, str], before: str = "") -> str:
    return next((labels[before + name] for name in ZONES if labels.get(before + name)), "")


ROOM = "room at the service level"


@part(ROOM)
def room_part(reading: PoolReading, goodput: Goodput | None) -> Iterator[Predicted]:
    """Load, knee, usable rate and headroom; requests within the SLO where they are counted."""
    yield from _loads(reading)
    yield from _carried(reading)
    yield from _left(reading)
    yield from _good(goodput)


def _loads(reading: PoolReading) -> list[Predicted]:
    load, unit = reading.load, reading.served.unit.value
    counted = f"load of the pool in {unit}, from the counters of its engines"
    numbers = [
        number(
            ("load_peak", "load at its peak", unit),
            load.peak,
            formula=PEAK_FORMULA,
            inputs={"mean": (load.mean, unit)},
            source=counted,
        )
    ]
    if math.isfinite(load.now):
        now = number(
            ("load_now", "load now", unit),
            load.now,
            formula=f"mean of the last {5 * NOW_BINS} minutes",
            inputs={},
            source=counted,
        )
        numbers.insert(0, now)
    return numbers


def _carried(reading: PoolReading) -> Iterator[Predicted]:
    served, unit = reading.served, reading.served.unit.value
    assert served.rate is not None
    middle, high = reading.knee
    one = served.rate.per_second
    yield number(
        ("knee", "one replica carries", unit),
        {"low": reading.usable, "middle": one, "high": None if middle is None else high},
        formula="load from which the latency is beyond its limit for good; 10 % and 90 % of resampled hours",
        inputs={"readings": (served.samples, ""), "highest seen": (served.highest, unit)},
        source=served.basis,
    )
    yield number(
        ("usable", "usable rate of the pool", unit),
        reading.carries,
        formula="low end of what one replica carries x replicas",
        inputs={"one replica": (reading.usable, unit), "replicas": (reading.replicas, "")},
        source=served.basis,
    )
    yield number(
        ("share", "peak over the usable rate", "ratio"),
        reading.load.peak / reading.carries,
        formula="peak / usable rate of the pool",
        inputs={"peak": (reading.load.peak, unit)},
        source=served.basis,
    )


def _left(reading: PoolReading) -> Iterator[Predicted]:
    load, unit = reading.load, reading.served.unit.value
    left = reading.carries - load.peak
    yield number(
        ("headroom", "left at the peak", unit),
        left,
        formula="usable rate of the pool - peak",
        inputs={"peak": (load.peak, unit)},
        source=reading.served.basis,
    )
    if reading.requests is not None:
        each = load.mean / reading.requests
        yield number(
            ("headroom_requests", "left at the peak, in requests", "1/s"),
            left / each,
            formula=f"left / {unit.removesuffix('/s')} of a request",
            inputs={"of a request, mean": (each, unit.removesuffix("/s"))},
            source="requests finished beside the load",
        )
    yield number(
        ("headroom_replicas", "replicas to spare at the peak", "replicas"),
        float(math.floor(round(left / reading.usable, 9))),
        formula="floor(left / usable rate of a replica); below 0 so many are missing",
        inputs={"usable rate of a replica": (reading.usable, unit)},
        source=reading.served.basis,
    )


def _good(goodput: Goodput | None) -> Iterator[Predicted]:
    if goodput is None:
        return
    inputs = {"requested": (goodput.requested, "1/s")}
    source = f"objectives {' and '.join(goodput.objectives)}; histograms prove no more"
    yield number(
        ("slo_goodput", "requests within the SLO", "1/s"),
        {"low": goodput.good.low, "middle": goodput.good.low, "high": goodput.good.high},
        formula="max(0, a + b - 1) to min(a, b) of the served, with a and b the shares within each objective",
        inputs=inputs,
        source=source,
    )
    yield number(
        ("slo_share", "share within the SLO", "ratio"),
        {"low": goodput.share.low, "middle": goodput.share.low, "high": goodput.share.high},
        formula="requests within the SLO / all that were requested, failed and refused ones too",
        inputs=inputs,
        source=source,
    )
