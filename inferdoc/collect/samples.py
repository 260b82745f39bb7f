"""What a scraped page consists of: series, their layout, and one value for each."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple
from weakref import WeakValueDictionary

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
        digest: 16 bytes, a hash of series and types; the same in every process and release.
    """

    __slots__ = ("__weakref__", "digest", "series", "types")

    def __init__(self, series: Sequence[Series], types: Mapping[str, str] | None = None) -> None:
        self.series: tuple[Series, ...] = tuple(series)
        self.types: dict[str, str] = dict(types or {})
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
        families = (name, *(name.removesuffix(suffix) for suffix in _SUFFIXES))
        return next((self.types[family] for family in families if family in self.types), "unknown")


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


_NUMERIC = b"0123456789.eE+-infatyINFATY"
_SAMPLED_LINES = 8
_SAME_KEY = 4
_MAX_HEADS = 50_000
_RECENT_SERIES = 100_000

FloatArray = NDArray[np.float64]


def decode_values(texts: Sequence[str]) -> FloatArray | None:
    """`float(text)` of each; None where one is not a number in the plainest form."""
    try:
        if "".join(texts).encode("latin-1").translate(None, _NUMERIC):
            return None
        return np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        return None


class Template(NamedTuple):
    """The text of a layout around its values.

    `frame` alternates constant text and a place for a value; sample i stands on line `rows[i]` and its
    value begins at column `columns[i]`. All text is latin-1, one character per byte of the page.
    """

    layout: Layout
    frame: list[str]
    rows: list[int]
    columns: list[int]
    size: int

    def read(self, text: str, lines: Sequence[str]) -> FloatArray | None:
        """The values of a page, or None where it differs from this layout in anything but values."""
        values = [lines[row][column:] for row, column in zip(self.rows, self.columns, strict=True)]
        filled = self.frame.copy()
        filled[1::2] = values
        if "".join(filled) != text:
            return None
        return decode_values(values)


def make_template(layout: Layout, text: str, lines: Sequence[str], rows: list[int]) -> Template:
    """Template of a page whose samples stand on `rows`, each value behind the last space of its line."""
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    columns = [lines[row].rindex(" ") + 1 for row in rows]
    frame: list[str] = []
    position = 0
    for row, column in zip(rows, columns, strict=True):
        frame += (text[position : starts[row] + column], "")
        position = starts[row] + len(lines[row])
    frame.append(text[position:])
    return Template(layout, frame, rows, columns, len(text))


class LayoutCache:
    """Layouts seen before, bounded, safe to share between threads.

    Args:
        max_bytes: page text kept in templates, all layouts together. Layouts least recently used go first.
            A vLLM page is 50-70 kB; all that is kept for it is about four times that.
    """

    def __init__(self, max_bytes: int = 24 << 20) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._templates: OrderedDict[object, list[Template]] = OrderedDict()
        self._bytes = 0
        self._by_digest: WeakValueDictionary[bytes, Layout] = WeakValueDictionary()
        self._recent: OrderedDict[bytes, Layout] = OrderedDict()
        self._recent_series = 0
        self.heads: dict[str, Series] = {}
        """Text before the value on a line, to the series it names. Only ever a plain `name{labels}`."""

    def __len__(self) -> int:
        return sum(len(same) for same in self._templates.values())

    def intern(self, layout: Layout) -> Layout:
        """The one object that stands for all equal layouts."""
        with self._lock:
            one = self._by_digest.setdefault(layout.digest, layout)
            if one.digest not in self._recent:
                self._recent[one.digest] = one
                self._recent_series += len(one)
            self._recent.move_to_end(one.digest)
            while self._recent_series > _RECENT_SERIES and len(self._recent) > 1:
                self._recent_series -= len(self._recent.popitem(last=False)[1])
            return one

    def read(self, form: object, text: str, lines: Sequence[str]) -> tuple[Layout, FloatArray] | None:
        """Layout and values of a page whose layout is known; None where it is not, or where in doubt.

        Args:
            form: the format the page is read as, and how strictly.
            text: the page, latin-1.
            lines: `text.split("\\n")`.
        """
        key = self._key(form, lines)
        with self._lock:
            same = self._templates.get(key)
            if same is None:
                return None
            self._templates.move_to_end(key)
            candidates = list(same)
        for template in candidates:
            values = template.read(text, lines)
            if values is not None:
                return template.layout, values
        return None

    def remember(self, form: object, text: str, lines: Sequence[str], layout: Layout, rows: list[int]) -> None:
        """Keep the template of a page in which every value stands behind the last space of its line."""
        if not rows or len(text) > self._max_bytes // 4:
            return
        template = make_template(layout, text, lines, rows)
        with self._lock:
            same = self._templates.setdefault(self._key(form, lines), [])
            same.insert(0, template)
            self._bytes += template.size
            if len(same) > _SAME_KEY:
                self._bytes -= same.pop().size
            while self._bytes > self._max_bytes:
                _, dropped = self._templates.popitem(last=False)
                self._bytes -= sum(old.size for old in dropped)
            if len(self.heads) > _MAX_HEADS:
                self.heads.clear()

    @staticmethod
    def _key(form: object, lines: Sequence[str]) -> object:
        step = len(lines) // _SAMPLED_LINES + 1
        return (form, len(lines), *[line.rpartition(" ")[0] for line in lines[::step]])
