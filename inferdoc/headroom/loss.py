"""Failure headroom: where the peak of a pool would stand after a pod, its fullest node or its fullest zone is lost."""

from __future__ import annotations

from inferdoc.capacity.service_level import replicas_needed
from inferdoc.headroom.model import Holds, Lost
from inferdoc.headroom.reading import PoolReading
from inferdoc.headroom.where import NODE_MISSING, ZONE_MISSING, Whereabouts, fullest
from inferdoc.sizing.model import Predicted
from inferdoc.sizing.number import Inputs, number
from inferdoc.words import how_many

PEAK_FORMULA = "95 % quantile of five-minute loads"


def losses(reading: PoolReading, places: Whereabouts, doubts: list[str]) -> list[Lost]:
    """One of each kind that can be told; the others become doubts."""
    found = [lost_with(reading, "one pod", "", 1)]
    for what, told, missing in (("node", places.nodes, NODE_MISSING), ("zone", places.zones, ZONE_MISSING)):
        most = fullest(reading.ready, told)
        unknown = sum(pod not in told for pod in reading.ready)
        if most is None:
            whose = "its pods" if unknown == len(reading.ready) else how_many(unknown, "pod")
            doubts.append(f"loss of a {what}: nothing tells the {what} of {whose}; {missing}")
        elif reading.replicas != len(reading.ready):
            there = f"{len(reading.ready)} of its {how_many(reading.replicas, 'replica')}"
            doubts.append(f"loss of a {what}: {there} are there now; ask at its peak, when their places are told")
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
