"""Remembers page layouts, so that a page of a known layout is verified and decoded with little work per line.

A scrape differs from the one before almost only in its values. For each layout seen, a template keeps the
exact text between the values. To read a page: cut the values out where the template has them, put them back
into the template, and compare the result with the page. Equal text proves that nothing but values differs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.samples import Layout, Series

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
