"""What OpenMetrics 1.0 demands of the lines of a page together: families, suffixes, groups, points and their values.

A single line is read by `grammar`; here stands what one line cannot show. The rules are those of the specification
(https://prometheus.io/docs/specs/om/open_metrics_spec/); each message names the one that is broken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from inferdoc.collect.grammar import LineError, read_number
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
    """Told every line in order; raises LineError at the first that breaks a rule.

    points: whether the samples of one point of a histogram stand together, as on a page. Files that hold many times
    of each series are written series by series (`promtool tsdb dump-openmetrics` does, and `inferdoc export`).
    """

    def __init__(self, *, points: bool = True) -> None:
        self._points = points
        self._family: _Family | None = None
        self._taken: set[str] = set()

    def metadata(self, kind: str, name: str, text: str) -> None:
        """A TYPE, HELP or UNIT line."""
        family = self._family
        if family is not None and family.name == name and family.sampled:
            raise LineError(f"{kind} of {name} after its samples: metadata stands before them")
        if family is None or family.name != name:
            self._close()
            family = self._family = _Family(name)
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
        if family is None or suffix is None:
            self._close()
            family = self._family = _Family(name)
            family.type, suffix = "unknown", ""
        family.sampled = True
        labels = dict(sample.series.labels)
        bound = _labels(family, suffix, labels)
        self._order(family, suffix, sample, bound)
        _value(family, suffix, sample.value)
        if sample.exemplar and (family.type, suffix) not in WITH_EXEMPLARS:
            raise LineError("exemplar where none may be: only buckets and the _total of a counter have them")

    def end(self) -> None:
        """After the last line."""
        self._close()

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
        for suffix in {*family.suffixes, ""}:
            if family.name + suffix in self._taken:
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


def _value(family: _Family, suffix: str, value: float) -> None:
    if suffix in WHOLE and not value.is_integer():
        raise LineError(f"{family.name}{suffix} is {value:g}: it counts, so it is a whole number")
    if family.type == "stateset" and value not in (0, 1):
        raise LineError(f"state of {family.name} is {value:g}: it is 0 or 1")
    if family.type == "info" and value != 1:
        raise LineError(f"{family.name}{suffix} is {value:g}: an info is 1")
    if family.type == "summary" and suffix == "" and value < 0:
        raise LineError(f"quantile of {family.name} is {value:g}: it is not below 0")
    if suffix in NEVER_NAN and math.isnan(value):
        raise LineError(f"{family.name}{suffix} is NaN: what counts or sums up is a number")
    if suffix in NEVER_NEGATIVE and value < 0:
        raise LineError(f"{family.name}{suffix} is {value:g}: what counts or sums up is not below 0")
