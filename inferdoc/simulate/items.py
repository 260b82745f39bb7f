"""The building blocks of a page: counters, gauges, histograms and summaries with their labels and values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.samples import Labels, Layout, Page, Series
from inferdoc.simulate.stats import Histogram

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
