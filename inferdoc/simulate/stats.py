"""Counters and histograms of one engine, with the buckets of vLLM 0.32."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.samples import Labels, Layout, Page, Series

ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
TTFT = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
    160.0,
    640.0,
    2560.0,
)
REQUEST = (
    0.3,
    0.5,
    0.8,
    1.0,
    1.5,
    2.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    40.0,
    50.0,
    60.0,
    120.0,
    240.0,
    480.0,
    960.0,
    1920.0,
    7680.0,
)
ITERATION = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)
CHOICES = (1, 2, 5, 10, 20)
XFER = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
POST = (0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
BYTES = tuple(float(2**e) for e in range(11, 34, 2))
DESCRIPTORS = (10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10000, 20000, 50000)
RESIDENCY = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    20,
    30,
    60,
    120,
    300,
    600,
    1200,
    1800,
)
HTTP_FINE = (
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    1.5,
    2,
    2.5,
    3,
    3.5,
    4,
    4.5,
    5,
    7.5,
    10,
    30,
    60,
)
HTTP_COARSE = (0.1, 0.5, 1)


def length_bounds(longest: int) -> tuple[int, ...]:
    """Steps of 1, 2, 5 up to the model length: the buckets of every histogram of token counts per request."""
    bounds: list[int] = []
    power = 1
    while True:
        for step in (1, 2, 5):
            if step * power > longest:
                return tuple(bounds)
            bounds.append(step * power)
        power *= 10


class Histogram:
    """counts: observations per bucket, the last one above every bound."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...] | tuple[int, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        return sum(self.counts)


REASONS = ("stop", "length", "abort", "error", "repetition")


@dataclass
class EngineStats:
    """Everything an engine's page counts. Token counts in tokens, times in seconds. longest: --max-model-len."""

    longest: int
    positions: int = 0
    success: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    prefix_queries: int = 0
    prefix_hits: int = 0
    external_queries: int = 0
    external_hits: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    computed: int = 0
    cached: int = 0
    transferred: int = 0
    device_tokens: int = 0
    p2p_tokens: int = 0
    host_tokens: int = 0
    corrupted: int = 0
    generation: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted: int = 0
    failed_transfers: int = 0
    expired: int = 0
    late_notifications: int = 0
    http: dict[str, int] = field(default_factory=dict)
    tools: dict[str, int] = field(default_factory=dict)
    http_bytes: int = 0
    cpu_seconds: float = 0.0
    cfs_periods: float = 0.0
    throttled_periods: float = 0.0

    def __post_init__(self) -> None:
        lengths = length_bounds(self.longest)
        self.accepted_at = [0] * self.positions
        self.request_prompt = Histogram(lengths)
        self.request_generation = Histogram(lengths)
        self.request_max_generation = Histogram(lengths)
        self.request_max_tokens = Histogram(lengths)
        self.request_computed = Histogram(lengths)
        self.request_n = Histogram(CHOICES)
        self.iteration = Histogram(ITERATION)
        self.ttft = Histogram(TTFT)
        self.itl = Histogram(ITL)
        self.tpot = Histogram(ITL)
        self.e2e = Histogram(REQUEST)
        self.queue = Histogram(REQUEST)
        self.inference = Histogram(REQUEST)
        self.prefill = Histogram(REQUEST)
        self.decode = Histogram(REQUEST)
        self.request_preemptions = Histogram(PREEMPTIONS)
        self.xfer = Histogram(XFER)
        self.post = Histogram(POST)
        self.xfer_bytes = Histogram(BYTES)
        self.descriptors = Histogram(DESCRIPTORS)
        self.lifetime = Histogram(RESIDENCY)
        self.idle = Histogram(RESIDENCY)
        self.reuse = Histogram(RESIDENCY)
        self.http_fine = Histogram(HTTP_FINE)
        self.http_coarse = Histogram(HTTP_COARSE)
        # What the machine did, for DCGM: seconds, and FLOP- and byte-seconds of a healthy GPU.
        self.busy = 0.0
        self.compute = 0.0
        self.memory = 0.0

    def answered(self, seconds: float, prompt: int, status: str = "2xx") -> None:
        """The HTTP layer ended a request: finished, failed, or left by its client."""
        self.http[status] = self.http.get(status, 0) + 1
        self.http_bytes += 40 + 5 * prompt
        self.http_fine.observe(seconds)
        self.http_coarse.observe(seconds)


def together(ranks: Sequence[EngineStats]) -> EngineStats:
    """What the HTTP layer counted for all ranks of one front end."""
    whole = EngineStats(ranks[0].longest)
    for stats in ranks:
        whole.http_bytes += stats.http_bytes
        for status, count in stats.http.items():
            whole.http[status] = whole.http.get(status, 0) + count
        for mine, other in ((whole.http_fine, stats.http_fine), (whole.http_coarse, stats.http_coarse)):
            mine.counts = [a + b for a, b in zip(mine.counts, other.counts, strict=True)]
            mine.sum += other.sum
    return whole


Kind = Literal["counter", "gauge", "histogram", "summary"]


@dataclass(slots=True)
class Item:
    """One metric of a family. name: as in the TYPE line of the text format (counters with _total); values: one, or
    those of a histogram's buckets followed by count and sum; created: Unix seconds, None where the exporter has no
    such sample."""

    kind: Kind
    name: str
    labels: Labels
    values: list[float]
    bounds: tuple[float, ...] = ()
    created: float | None = None

    @property
    def key(self) -> tuple[object, ...]:
        return (self.kind, self.name, self.labels, self.bounds, self.created is None)


def gauge(name: str, value: float, labels: Labels = ()) -> Item:
    return Item("gauge", name, labels, [float(value)])


def counter(name: str, value: float, labels: Labels = (), created: float | None = None) -> Item:
    return Item("counter", name, labels, [float(value)], created=created)


def histogram(name: str, data: Histogram, labels: Labels = (), created: float | None = None) -> Item:
    """Cumulative buckets, the last one +Inf, then count and sum."""
    values: list[float] = []
    total = 0
    for count in data.counts:
        total += count
        values.append(float(total))
    values.append(float(total))
    values.append(data.sum)
    return Item("histogram", name, labels, values, tuple(float(b) for b in data.bounds), created)


def summary(name: str, count: float, total: float, labels: Labels = (), created: float | None = None) -> Item:
    return Item("summary", name, labels, [float(count), float(total)], created=created)


def bound(value: float) -> str:
    """A bucket bound as prometheus_client writes it."""
    text = repr(float(value))
    if value < 1e6:
        return text
    digits = f"{value:.16g}"
    if "e" not in digits:
        exponent = len(digits) - 1
        mantissa = digits.rstrip("0")
        rest = mantissa[1:] or "0"
        return f"{mantissa[0]}.{rest}e+{exponent:02d}"
    return digits


def series_of(item: Item) -> list[Series]:
    """The series of an item, in the order of its values, `_created` last."""
    name, labels = item.name, item.labels
    base = name.removesuffix("_total") if item.kind == "counter" else name
    found: list[Series] = []
    if item.kind == "histogram":
        for limit in (*(bound(b) for b in item.bounds), "+Inf"):
            found.append(Series(f"{name}_bucket", tuple(sorted((*labels, ("le", limit))))))
        found += [Series(f"{name}_count", labels), Series(f"{name}_sum", labels)]
    elif item.kind == "summary":
        found += [Series(f"{name}_count", labels), Series(f"{name}_sum", labels)]
    else:
        found.append(Series(name, labels))
    if item.created is not None:
        found.append(Series(f"{base}_created", labels))
    return found


class Pages:
    """Turns items into pages; pages of the same items share one layout."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[object, ...], Layout] = {}

    def page(self, items: Iterable[Item]) -> Page:
        listed: Sequence[Item] = list(items)
        key = tuple(item.key for item in listed)
        layout = self._layouts.get(key)
        if layout is None:
            series = [s for item in listed for s in series_of(item)]
            layout = self._layouts[key] = Layout(series, {item.name: item.kind for item in listed})
        values: list[float] = []
        for item in listed:
            values += item.values
            if item.created is not None:
                values.append(item.created)
        array: NDArray[np.float64] = np.array(values, np.float64)
        return Page(layout, array)


def labels(**pairs: str) -> Labels:
    """Sorted labels, as series carry them."""
    return tuple(sorted(pairs.items()))
