"""What OpenMetrics 1.0 demands of the lines of a page together: families, suffixes, groups, points and their values.

A single line is read by `grammar`; here stands what one line cannot show. The rules are those of the specification
(https://prometheus.io/docs/specs/om/open_metrics_spec/); each message names the one that is broken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.grammar import LineError, Metadata, read_number
from inferdoc.collect.samples import Labels, Series

TYPES = frozenset({"counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset", "unknown"})
SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "counter": ("_total", "_created"),
    "summary": ("", "_count", "_sum", "_created"),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
    "gaugehistogram": ("_bucket", "_gcount", "_gsum"),
    "info": ("_info",),
}
"""Endings of the samples of a type; those of the others have none."""
WHOLE = ("_bucket", "_count", "_gcount")
NEVER_NEGATIVE = ("_total", "_sum", "_count", "_bucket", "_gcount")
NEVER_NAN = (*NEVER_NEGATIVE, "_gsum")
WITH_EXEMPLARS = {("histogram", "_bucket"), ("gaugehistogram", "_bucket"), ("counter", "_total")}


_NO_EXEMPLAR = "exemplar where none may be: only buckets and the _total of a counter have them"


class StrictSample(NamedTuple):
    """A sample as the rules see it. moment: its time in seconds, or None."""

    series: Series
    value: float
    moment: Decimal | None
    exemplar: bool


class _Family:
    """A family while its lines go by."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.type: str | None = None
        self.unit: str | None = None
        self.declared = False
        self.helped = False
        self.sampled = False
        self.group: Labels | None = None
        self.moment: Decimal | None = None
        self.groups: set[Labels] = set()
        self.seen: set[Series] = set()
        self.point: _Point | None = None

    @property
    def suffixes(self) -> tuple[str, ...]:
        return SUFFIXES.get(self.type or "unknown", ("",))

    def suffix_of(self, name: str) -> str | None:
        """The ending of a sample of this family; None for a sample of another."""
        ending = name.removeprefix(self.name)
        return ending if name.startswith(self.name) and ending in self.suffixes else None


class _Point:
    """The samples of one histogram at one time, while they go by."""

    def __init__(self) -> None:
        self.bound: float | None = None
        self.last = 0.0
        self.count: float | None = None
        self.sum: float | None = None
        self.gauge = False
        self.negative_bounds = False

    def add(self, suffix: str, bound: float | None, value: float) -> None:
        if suffix == "_bucket" and bound is not None:
            self.negative_bounds |= bound < 0
            if self.bound is not None and bound <= self.bound:
                raise LineError(f"bucket le={bound:g} after le={self.bound:g}: buckets stand in increasing order")
            if value < self.last:
                raise LineError(f"bucket le={bound:g} holds less than the one before it: buckets are cumulative")
            self.bound, self.last = bound, value
        elif suffix in ("_count", "_gcount"):
            self.count = value
        elif suffix in ("_sum", "_gsum"):
            self.sum, self.gauge = value, suffix == "_gsum"

    def close(self, name: str) -> None:
        """Raises LineError where the point is not whole."""
        end, total = ("_gcount", "_gsum") if self.gauge else ("_count", "_sum")
        if self.bound != math.inf:
            raise LineError(f'histogram {name} has no bucket with le="+Inf": it must have one')
        if self.count is not None and self.count != self.last:
            raise LineError(f"count of histogram {name} is not that of its +Inf bucket: they must be equal")
        if (self.count is None) != (self.sum is None):
            raise LineError(f"histogram {name} has only one of {end} and {total}: both or neither")
        if self.negative_bounds and self.sum is not None and not self.gauge:
            raise LineError(f"histogram {name} has buckets below 0 and a _sum: it must have none then")
        if self.gauge and self.sum is not None and self.sum < 0 and not self.negative_bounds:
            raise LineError(f"histogram {name} has a negative _gsum and no bucket below 0")


class OpenMetricsRules:
    """Checks lines in order; raises LineError at the first that breaks a rule.

    points: whether the samples of one point stand together, as on a page, and values are judged one by one; without it
    a family that no metadata declares may stand apart.
    """

    def __init__(self, *, points: bool = True) -> None:
        self._points = points
        self._family: _Family | None = None
        self._taken: set[str] = set()
        self._loose: set[str] = set()

    def metadata(self, kind: str, name: str, text: str) -> None:
        """A TYPE, HELP or UNIT line."""
        family = self._family
        if family is not None and family.name == name and family.sampled:
            raise LineError(f"{kind} of {name} after its samples: metadata stands before them")
        if family is None or family.name != name:
            self._close()
            family = self._family = self._start_family(name, declared=True)
        if kind == "HELP":
            if family.helped:
                raise LineError(f"second HELP of {name}: a family has one")
            family.helped = True
        elif kind == "TYPE":
            if family.type is not None:
                raise LineError(f"second TYPE of {name}: a family has one")
            if text not in TYPES:
                raise LineError(f"TYPE of {name} is no type of OpenMetrics: {', '.join(sorted(TYPES))}")
            family.type = text
        else:
            if family.unit is not None:
                raise LineError(f"second UNIT of {name}: a family has one")
            family.unit = text

    def sample(self, sample: StrictSample) -> None:
        """A sample line."""
        name = sample.series.name
        family = self._family
        suffix = None if family is None else family.suffix_of(name)
        if not self._points and family is not None and family.type == "counter" and name == family.name:
            suffix = ""  # FileRules reports it
        if family is None or suffix is None:
            self._close()
            family = self._family = self._start_family(name, declared=False)
            family.type, suffix = "unknown", ""
        family.sampled = True
        labels = dict(sample.series.labels)
        bound = _labels(family, suffix, labels)
        self._order(family, suffix, sample, bound)
        if self._points:
            _value(family.type, suffix, name, sample.value)
        if sample.exemplar and (family.type, suffix) not in WITH_EXEMPLARS:
            raise LineError(_NO_EXEMPLAR)

    def kind(self) -> tuple[str, str | None]:
        """Name and type of the family of the last line."""
        return ("", None) if self._family is None else (self._family.name, self._family.type)

    def is_loose(self) -> bool:
        """Whether the family of the last line may go on elsewhere."""
        return self._family is not None and not self._points and not self._family.declared

    def end(self) -> None:
        """After the last line."""
        self._close()

    def _start_family(self, name: str, declared: bool) -> _Family:
        if self._is_taken(name, declared):
            raise LineError(f"{name} again, or a name that clashes with it: the lines of a family stand together")
        family = _Family(name)
        family.declared = declared
        return family

    def _is_taken(self, name: str, declared: bool) -> bool:
        return name in self._taken and (declared or name not in self._loose)

    def _order(self, family: _Family, suffix: str, sample: StrictSample, bound: float | None) -> None:
        """Groups stand together, times within them do not go back, points of histograms are whole."""
        group = _group(family, suffix, sample.series.labels)
        histogram = family.type in ("histogram", "gaugehistogram") and suffix != ""
        if not self._points:
            return
        if histogram and (family.point is None or group != family.group or sample.moment != family.moment):
            if family.point is not None:
                family.point.close(family.name)
            family.point = _Point()
        if family.group is not None and group != family.group and group in family.groups:
            raise LineError(f"samples of {family.name} with these labels stand apart: a group stands together")
        if family.group == group:
            if (sample.moment is None) != (family.moment is None):
                raise LineError("timestamps on some samples of a group only: all of them have one, or none")
            back = sample.moment is not None and family.moment is not None and sample.moment < family.moment
            if back and family.type != "info":
                raise LineError("timestamp before the one above it: within a group time does not go back")
        if family.group != group or family.moment != sample.moment:
            family.seen.clear()
        family.group, family.moment = group, sample.moment
        family.groups.add(group)
        if histogram and family.point is not None and sample.series not in family.seen:
            family.point.add(suffix, bound, sample.value)
        family.seen.add(sample.series)  # a series twice at one time is what a coarse clock makes of two times

    def _close(self) -> None:
        """Check the family whose lines are over."""
        family, self._family = self._family, None
        if family is None:
            return
        if family.point is not None:
            family.point.close(family.name)
        if not self._points and not family.declared:
            self._loose.add(family.name)
        for suffix in {*family.suffixes, ""}:
            if self._is_taken(family.name + suffix, family.declared):
                raise LineError(
                    f"{family.name}{suffix} belongs to a family above already: the lines of a family stand together, "
                    "and names do not clash"
                )
            self._taken.add(family.name + suffix)
        if family.unit and not family.name.endswith(f"_{family.unit}"):
            raise LineError(f"UNIT of {family.name} is {family.unit}, which its name does not end in")
        if family.unit and family.type in ("info", "stateset"):
            raise LineError(f"{family.name} has a UNIT: families of type {family.type} have none")


def _labels(family: _Family, suffix: str, labels: dict[str, str]) -> float | None:
    """The labels that a type demands; the bound of a bucket."""
    if family.type == "stateset" and family.name not in labels:
        raise LineError(f"no label {family.name}: a state of a stateset is named by the label of its family")
    if suffix == "_bucket":
        return _number("le", labels, "of a bucket")
    if family.type == "summary" and suffix == "":
        quantile = _number("quantile", labels, "of a summary")
        if not 0 <= quantile <= 1:
            raise LineError(f"quantile {quantile:g} is not from 0 to 1")
    return None


def _number(label: str, labels: dict[str, str], what: str) -> float:
    text = labels.get(label)
    if text is None:
        raise LineError(f"no label {label}: a sample {what} has one")
    try:
        number = read_number(text)
    except LineError:
        raise LineError(f"label {label} {what} is not a number") from None
    if math.isnan(number) or (number == math.inf and text != "+Inf"):
        raise LineError(f"label {label} {what} is not a number, or infinite and not written +Inf")
    return number


def _group(family: _Family, suffix: str, labels: Labels) -> Labels:
    """The labels that the samples of one metric share."""
    if family.type == "info":
        return ()
    own = None
    if family.type == "stateset":
        own = family.name
    elif family.type == "summary" and suffix == "":
        own = "quantile"
    elif suffix == "_bucket":
        own = "le"
    return labels if own is None else tuple(pair for pair in labels if pair[0] != own)


_WHOLE, _NOT_NEGATIVE, _NOT_NAN, _STATE, _ONE = 1, 2, 4, 8, 16


def _bits(kind: str, suffix: str) -> int:
    """Rules for the values of a series as bits: the same as `_value`, for many values at once."""
    quantile = kind == "summary" and suffix == ""
    rules = (
        suffix in WHOLE,
        suffix in NEVER_NEGATIVE or quantile,
        suffix in NEVER_NAN,
        kind == "stateset",
        kind == "info",
    )
    return sum(
        bit for bit, applies in zip((_WHOLE, _NOT_NEGATIVE, _NOT_NAN, _STATE, _ONE), rules, strict=True) if applies
    )


def _value(kind: str | None, suffix: str, name: str, value: float) -> None:
    if suffix in WHOLE and not value.is_integer():
        raise LineError(f"{name} is {value:g}: it counts, so it is a whole number")
    if kind == "stateset" and value not in (0, 1):
        raise LineError(f"state of {name} is {value:g}: it is 0 or 1")
    if kind == "info" and value != 1:
        raise LineError(f"{name} is {value:g}: an info is 1")
    if kind == "summary" and suffix == "" and value < 0:
        raise LineError(f"quantile of {name} is {value:g}: it is not below 0")
    if suffix in NEVER_NAN and math.isnan(value):
        raise LineError(f"{name} is NaN: what counts or sums up is a number")
    if suffix in NEVER_NEGATIVE and value < 0:
        raise LineError(f"{name} is {value:g}: what counts or sums up is not below 0")


def _wrong(kind: str, suffix: str, name: str, value: float) -> str:
    """What is wrong with a value, in words."""
    try:
        _value(kind, suffix, name, value)
    except LineError as error:
        return str(error)
    return f"{name} is {value:g}"


class BlockError(ValueError):
    """What is wrong with a sample of a block; row: which."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


class FileRules:
    """The rules for files that hold many times of each series, and many more lines than a page.

    Such files are written series by series (`promtool tsdb dump-openmetrics` and `inferdoc export` do), so the samples
    of one point do not stand together, and a histogram is not checked for completeness at each time. The lines of a
    family without metadata may stand apart too: promtool sorts by all labels, and `Hostname` comes before `__name__`.
    The first line of a series is checked in full; value and family of all others are checked block by block. An
    invalid value is reported and kept: an exporter exposed it, and the file is correct (a vLLM that was
    recorded counts its queue time below 0). So is a counter whose samples do not end in `_total`: the text format
    allows it, the DCGM exporter shows such, and a recording of its pages has them.
    """

    def __init__(self) -> None:
        self._lines = OpenMetricsRules(points=False)
        self._families: list[int] = []
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._kinds: list[tuple[str, str]] = []
        self._bits: list[int] = []
        self._over: set[int] = set()
        self._loose: set[int] = set()
        self._reported: set[int] = set()
        self._bare: set[str] = set()
        self._current = -1

    def metadata(self, metadata: Metadata) -> None:
        """A TYPE, HELP or UNIT line. Raises LineError."""
        self._lines.metadata(*metadata)

    def sample(self, sample: StrictSample, series: int) -> str | None:
        """A sample of a series that is new, or at a new time; series: its number. Returns what is wrong and kept, once
        for each name. Raises LineError."""
        if series < len(self._families):  # values and family are checked block by block
            if sample.exemplar and self._kinds[series] not in WITH_EXEMPLARS:
                raise LineError(_NO_EXEMPLAR)
            return None
        self._lines.sample(sample)
        name, kind = self._lines.kind()
        self._families.append(self._numbers.setdefault(name, len(self._numbers)))
        self._names.append(sample.series.name)
        if self._lines.is_loose():
            self._loose.add(self._families[-1])
        suffix = sample.series.name.removeprefix(name)
        self._kinds.append((kind or "unknown", suffix))
        self._bits.append(_bits(kind or "unknown", suffix))
        if kind == "counter" and not suffix and name not in self._bare:
            self._bare.add(name)
            return f"{name} is a counter, and its samples do not end in _total"
        return None

    def end(self) -> None:
        """After the last line. Raises LineError."""
        self._lines.end()

    def block(self, series: NDArray[np.int32], values: NDArray[np.float64]) -> list[tuple[int, str]]:
        """Samples as they stand in the file. series: int32[n], their series; values: float64[n].

        Returns the row and what is wrong of the first value of each series that may not be. Raises BlockError where a
        family stands apart that metadata declares.
        """
        if not len(series):
            return []
        family = np.array(self._families)[series]
        begins = np.flatnonzero(np.diff(family, prepend=self._current))
        for row in begins.tolist():
            if family[row] in self._over and family[row] not in self._loose:
                raise BlockError(row, f"{self._names[series[row]]} again: the lines of a family stand together")
            self._over.add(int(family[row]))
        self._current = int(family[-1])
        bits = np.array(self._bits, np.uint8)[series]
        wrong = (bits & _WHOLE != 0) & (values != np.floor(values)) | (bits & _NOT_NEGATIVE != 0) & (values < 0)
        wrong |= (bits & _NOT_NAN != 0) & ~np.isfinite(values) & (np.isnan(values) | (bits & _WHOLE != 0))
        wrong |= (bits & _STATE != 0) & (values != 0) & (values != 1) | (bits & _ONE != 0) & (values != 1)
        found = []
        for row in np.flatnonzero(wrong).tolist():
            number = int(series[row])
            if number not in self._reported:
                self._reported.add(number)
                found.append((row, _wrong(*self._kinds[number], self._names[number], float(values[row]))))
        return found
