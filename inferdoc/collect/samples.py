"""What a scraped page consists of: series, their layout, and one value for each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from inferdoc.errors import SourceError

Labels = tuple[tuple[str, str], ...]

NO_TIMESTAMP = int(np.iinfo(np.int64).min)
"""Stands in `Page.timestamps` for a sample that carries none."""

METRIC_TYPES = frozenset(
    {"counter", "gauge", "histogram", "summary", "untyped", "unknown", "info", "stateset", "gaugehistogram"}
)
"""Types of the Prometheus text format 0.0.4 and of OpenMetrics 1.0."""

_SUFFIXES = ("_total", "_created", "_bucket", "_count", "_sum", "_info", "_gcount", "_gsum")


class ParseError(SourceError):
    """Text that is not valid exposition format. One line: where, what, and why."""


class Series(NamedTuple):
    """Identity of a series: metric name and its labels, sorted by label name."""

    name: str
    labels: Labels


class Sample(NamedTuple):
    """One sample as prometheus-client gives it: `timestamp` in seconds, or None."""

    name: str
    labels: dict[str, str]
    value: float
    timestamp: float | None


class Layout:
    """The series of a page, in page order. Immutable; compare by `digest`.

    Attributes:
        series: one `Series` per value of a page with this layout.
        types: declared type of each family, by the name on its TYPE line.
        units: declared OpenMetrics unit of each family. Not part of the digest.
        help: help text of each family as first seen. Not part of the digest.
        digest: 16 bytes, a hash of series and types; the same in every process and release.
    """

    __slots__ = ("__weakref__", "digest", "help", "series", "types", "units")

    def __init__(
        self,
        series: Sequence[Series],
        types: Mapping[str, str] | None = None,
        units: Mapping[str, str] | None = None,
        help_texts: Mapping[str, str] | None = None,
    ) -> None:
        self.series: tuple[Series, ...] = tuple(series)
        self.types: dict[str, str] = dict(types or {})
        self.units: dict[str, str] = dict(units or {})
        self.help: dict[str, str] = dict(help_texts or {})
        content = msgspec.msgpack.encode((self.series, sorted(self.types.items())))
        self.digest: bytes = hashlib.blake2b(content, digest_size=16).digest()

    def __len__(self) -> int:
        return len(self.series)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Layout({len(self.series)} series, {self.digest.hex()})"

    def type_of(self, name: str) -> str:
        """The type of the family that the series `name` belongs to; `unknown` where none is declared."""
        return family_type(self.types, name)


def family_type(types: Mapping[str, str], name: str) -> str:
    """The declared type for a series name, looking past suffixes such as `_bucket`; `unknown` if none."""
    if name in types:
        return types[name]
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return types.get(name[: -len(suffix)], "unknown")
    return "unknown"


class Page:
    """One scrape: a layout and a value for each of its series.

    Attributes:
        layout: the series; the same object for pages of the same series in one process.
        values: float64, shape (len(layout),), exactly `float(text)` of each sample, NaN and ±Inf kept.
        timestamps: int64, same shape, milliseconds since 1970 UTC, `NO_TIMESTAMP` for samples
            without one; None when no sample carries one.
        problems: one line for each thing that was dropped or looked wrong; empty for a clean page.
    """

    __slots__ = ("layout", "problems", "timestamps", "values")

    def __init__(
        self,
        layout: Layout,
        values: NDArray[np.float64],
        timestamps: NDArray[np.int64] | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        self.layout = layout
        self.values = values
        self.timestamps = timestamps
        self.problems: list[str] = list(problems)

    def __len__(self) -> int:
        return len(self.layout.series)

    def __repr__(self) -> str:
        return f"Page({len(self)} samples, {len(self.problems)} problems)"

    def samples(self) -> Iterator[Sample]:
        """Yield every sample in page order; `timestamp` is in seconds, or None."""
        values = self.values.tolist()
        if self.timestamps is None:
            for series, value in zip(self.layout.series, values, strict=True):
                yield Sample(series.name, dict(series.labels), value, None)
            return
        for series, value, stamp in zip(self.layout.series, values, self.timestamps.tolist(), strict=True):
            seconds = None if stamp == NO_TIMESTAMP else stamp / 1000
            yield Sample(series.name, dict(series.labels), value, seconds)
