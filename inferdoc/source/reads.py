"""The primitive both sources evaluate: one PromQL-shaped range read.

A signal is assembled from reads by code that both sources share (`assemble`), so the only thing in which the embedded
store and a Prometheus server can differ is the evaluation of these few functions. Their rules are Prometheus' own
(promql/functions.go, release 2.42): `extrapolatedRate` for `rate` and `increase`, newest sample for `last`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from inferdoc import escaping
from inferdoc.catalogue.names import LEGACY
from inferdoc.errors import InferdocError


@lru_cache(maxsize=512)
def _expression(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.ASCII)  # in RE2, which Prometheus uses, classes are ASCII
    except re.error as error:
        raise InferdocError(
            f"label matcher {pattern!r} is not a valid regular expression ({error}): correct it, or use = for a value"
        ) from None


def matches(labels: Mapping[str, str], match: tuple[Matcher, ...]) -> bool:
    """Whether a series with these labels passes every matcher."""
    return all(passes(labels.get(label, ""), op, selected) for label, op, selected in match)


def passes(value: str, op: str, selected: str) -> bool:
    """One matcher on one label value."""
    if op == "=":
        return value == selected
    if op == "!=":
        return value != selected
    found = _expression(selected).fullmatch(value) is not None
    return found if op == "=~" else not found


Function = Literal["rate", "increase", "last", "max", "mean", "change"]
Aggregation = Literal["sum", "max", "min"]
Operator = Literal["=", "!=", "=~", "!~"]
Matcher = tuple[str, Operator, str]
TARGET = "instance"
"""Series are parted by this label where they are too many: every target has its own."""


@dataclass(frozen=True)
class Read:
    """`agg by (by) (fn(name{match}[window]))`, evaluated on every step of a grid.

    `rate`, `increase`, `max` and `mean` look back over `width` rate windows; `last` looks back over the gauge
    window; `change` is the gauge now minus the gauge one rate window ago, per second.
    """

    name: str
    fn: Function
    by: tuple[str, ...]
    match: tuple[Matcher, ...] = ()
    agg: Aggregation = "sum"
    width: int = 1


@dataclass(frozen=True)
class Grid:
    """The time grid of one read, and the windows that go with it (all in milliseconds).

    start_ms: first step; step_ms: distance; count: number of steps; interval_ms: median scrape spacing of the
    targets; rate_ms: the rate window W; gauge_ms: the look-back G of gauges.
    """

    start_ms: int
    step_ms: int
    count: int
    interval_ms: int
    rate_ms: int
    gauge_ms: int

    @property
    def times_ms(self) -> np.ndarray:
        """int64[count], milliseconds since the epoch."""
        return self.start_ms + self.step_ms * np.arange(self.count, dtype=np.int64)

    @property
    def end_ms(self) -> int:
        """The last step, milliseconds since the epoch."""
        return self.start_ms + self.step_ms * (self.count - 1)

    @property
    def oldest_ms(self) -> int:
        """The oldest sample that a gauge may show at the first step: before it nothing is there, for this grid."""
        return self.start_ms - self.gauge_ms

    def window_ms(self, read: Read) -> int:
        """How far before a step a read looks."""
        return self.gauge_ms if read.fn in ("last", "change") else self.rate_ms * read.width

    def reach_ms(self, read: Read) -> int:
        """How far before a step samples are needed at all."""
        return self.gauge_ms + self.rate_ms if read.fn == "change" else self.window_ms(read)


@dataclass
class ReadResult:
    """The rows of one read. keys: one tuple of `by` label values per row ("" where the label is absent);
    values: float64[len(keys), grid.count], NaN where nothing."""

    by: tuple[str, ...]
    keys: list[tuple[str, ...]] = field(default_factory=list)
    values: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))


def duration(milliseconds: int) -> str:
    """A PromQL duration: 10000 -> "10s", 5300 -> "5300ms"."""
    if milliseconds % 1000 == 0:
        return f"{milliseconds // 1000}s"
    return f"{milliseconds}ms"


def selector(name: str, match: tuple[Matcher, ...]) -> str:
    """`name{a="b"}`, with label values quoted as PromQL wants them; a name with other characters as a matcher."""
    plain = not name or LEGACY.fullmatch(name) is not None
    matchers = match if plain else (("__name__", "=", name), *match)
    inside = ",".join(f"{label}{op}{escaping.promql(value)}" for label, op, value in matchers)
    return f"{name if plain else ''}{{{inside}}}" if inside else name


def literal(text: str) -> str:
    """A text as a regular expression that PromQL (RE2) reads as just that text."""
    return "".join(c if c.isalnum() or c in "_-/: " or ord(c) > 127 else "\\" + c for c in text)


def promql(read: Read, grid: Grid, extra: tuple[Matcher, ...] = ()) -> str:
    """The query that a Prometheus server answers with the same numbers."""
    what = selector(read.name, read.match + extra)
    by = ", ".join(read.by)
    window = duration(grid.window_ms(read))
    if read.fn == "change":
        now, then = (
            f"last_over_time({what}[{window}])",
            f"last_over_time({what}[{window}] offset {duration(grid.rate_ms)})",
        )
        return f"({read.agg} by ({by}) ({now}) - {read.agg} by ({by}) ({then})) / {grid.rate_ms / 1000:g}"
    function = {
        "rate": "rate",
        "increase": "increase",
        "last": "last_over_time",
        "max": "max_over_time",
        "mean": "avg_over_time",
    }[read.fn]
    return f"{read.agg} by ({by}) ({function}({what}[{window}]))"


def cut(grid: Grid, most: int) -> list[Grid]:
    """The grid in pieces of at most `most` steps, as even as possible, in the order of time."""
    number = -(-grid.count // max(most, 1))
    edges = [round(grid.count * i / number) for i in range(number + 1)]
    return [
        replace(grid, start_ms=grid.start_ms + grid.step_ms * begin, count=end - begin)
        for begin, end in pairwise(edges)
    ]


def put_together(read: Read, parts: Sequence[ReadResult]) -> ReadResult:
    """One result from those of consecutive pieces; a row that a piece lacks is NaN there."""
    if len(parts) == 1:
        return parts[0]
    keys = sorted({key for part in parts for key in part.keys})
    row_of = {key: row for row, key in enumerate(keys)}
    values = np.full((len(keys), sum(part.values.shape[1] for part in parts)), np.nan)
    begin = 0
    for part in parts:
        end = begin + part.values.shape[1]
        values[[row_of[key] for key in part.keys], begin:end] = part.values
        begin = end
    return ReadResult(read.by, keys, values)
