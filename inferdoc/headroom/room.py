"""The load of a pool beside what it carries: now, at its peak, and what is left."""

from __future__ import annotations

import math

from inferdoc.headroom.loss import PEAK_FORMULA
from inferdoc.headroom.reading import NOW_BINS, PoolReading
from inferdoc.sizing.model import Predicted, SizedPart
from inferdoc.sizing.number import number
from inferdoc.slo.model import Goodput

ROOM = "room at the service level"


def room_part(reading: PoolReading, goodput: Goodput | None) -> SizedPart:
    """Load, knee, usable rate and headroom; requests within the SLO where they are counted."""
    return SizedPart(ROOM, [*_loads(reading), *_carried(reading), *_left(reading), *_good(goodput)])


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


def _carried(reading: PoolReading) -> list[Predicted]:
    served, unit = reading.served, reading.served.unit.value
    assert served.rate is not None
    middle, high = reading.knee
    one = served.rate.per_second
    return [
        number(
            ("knee", "one replica carries", unit),
            {"low": reading.usable, "middle": one, "high": None if middle is None else high},
            formula="load from which the latency is beyond its limit for good; 10 % and 90 % of resampled hours",
            inputs={"readings": (served.samples, ""), "highest seen": (served.highest, unit)},
            source=served.basis,
        ),
        number(
            ("usable", "usable rate of the pool", unit),
            reading.carries,
            formula="low end of what one replica carries x replicas",
            inputs={"one replica": (reading.usable, unit), "replicas": (reading.replicas, "")},
            source=served.basis,
        ),
        number(
            ("share", "peak over the usable rate", "ratio"),
            reading.load.peak / reading.carries,
            formula="peak / usable rate of the pool",
            inputs={"peak": (reading.load.peak, unit)},
            source=served.basis,
        ),
    ]


def _left(reading: PoolReading) -> list[Predicted]:
    load, unit = reading.load, reading.served.unit.value
    left = reading.carries - load.peak
    numbers = [
        number(
            ("headroom", "left at the peak", unit),
            left,
            formula="usable rate of the pool - peak",
            inputs={"peak": (load.peak, unit)},
            source=reading.served.basis,
        )
    ]
    if reading.requests is not None:
        each = load.mean / reading.requests
        numbers.append(
            number(
                ("headroom_requests", "left at the peak, in requests", "1/s"),
                left / each,
                formula=f"left / {unit.removesuffix('/s')} of a request",
                inputs={"of a request, mean": (each, unit.removesuffix("/s"))},
                source="requests finished beside the load",
            )
        )
    numbers.append(
        number(
            ("headroom_replicas", "replicas to spare at the peak", "replicas"),
            float(math.floor(round(left / reading.usable, 9))),
            formula="floor(left / usable rate of a replica); below 0 so many are missing",
            inputs={"usable rate of a replica": (reading.usable, unit)},
            source=reading.served.basis,
        )
    )
    return numbers


def _good(goodput: Goodput | None) -> list[Predicted]:
    if goodput is None:
        return []
    inputs = {"requested": (goodput.requested, "1/s")}
    source = f"objectives {' and '.join(goodput.objectives)}; histograms prove no more"
    return [
        number(
            ("slo_goodput", "requests within the SLO", "1/s"),
            {"low": goodput.good.low, "middle": goodput.good.low, "high": goodput.good.high},
            formula="max(0, a + b - 1) to min(a, b) of the served, with a and b the shares within each objective",
            inputs=inputs,
            source=source,
        ),
        number(
            ("slo_share", "share within the SLO", "ratio"),
            {"low": goodput.share.low, "middle": goodput.share.low, "high": goodput.share.high},
            formula="requests within the SLO / all that were requested, failed and refused ones too",
            inputs=inputs,
            source=source,
        ),
    ]
